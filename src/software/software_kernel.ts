import type { CompiledKernel } from "./compiler/compile.ts";
import { compilePtx } from "./compiler/compile.ts";
import { scratch, type Window } from "./window.ts";

/** Blocks and threads in each dimension, and what each block gets. */
export interface Geometry {
  readonly grid: readonly [x: number, y: number, z: number];
  readonly block: readonly [x: number, y: number, z: number];
}

/** A kernel met an address that it may not access, or a trap. */
export class KernelFault extends Error {
  /** One of `faultKind`. */
  readonly kind: number;
  readonly address: bigint;
  /** Line of the PTX text. */
  readonly line: number;

  constructor(kind: number, address: bigint, line: number) {
    super(`Line ${line} of the PTX, address 0x${address.toString(16)}`);
    this.kind = kind;
    this.address = address;
    this.line = line;
  }
}

/** What a compiled kernel exports. */
type RunBlocks = (
  firstBlockX: number,
  lastBlockX: number,
  blockY: number,
  blockZ: number,
  gridX: number,
  gridY: number,
  gridZ: number,
  blockDimX: number,
  blockDimY: number,
  blockDimZ: number,
  parameters: number,
  shared: number,
  local: number,
  limits: number,
) => void;

/** A kernel of a loaded module. */
export interface SoftwareKernel {
  readonly compiled: CompiledKernel;
  readonly runBlocks: RunBlocks;
}

/** Compiles PTX and binds it to the window. The kernels by name. */
export function loadKernels(ptx: string, window: Window): ReadonlyMap<string, SoftwareKernel> {
  const { wasm, kernels } = compilePtx(ptx);
  const instance = new WebAssembly.Instance(new WebAssembly.Module(wasm), {
    device: {
      memory: window.memory,
      fault(kind: number, address: bigint, line: number): never {
        throw new KernelFault(kind, BigInt.asUintN(64, address), line);
      },
    },
  });
  return new Map(
    [...kernels].map(([name, compiled]) => [name, { compiled, runBlocks: instance.exports[name] as RunBlocks }]),
  );
}

const sliceMilliseconds = 4;

/**
 * A launch as work for a stream: each call runs some blocks and returns whether none is left.
 *
 * @param limits where the limits of the device that runs it begin in the window
 */
export function launchInSlices(
  { runBlocks }: SoftwareKernel,
  { grid: [gridX, gridY, gridZ], block: [blockX, blockY, blockZ] }: Geometry,
  { window, parameters, limits }: { window: Window; parameters: Uint8Array; limits: number },
): () => boolean {
  let x = 0, y = 0, z = 0;
  let blocksAtOnce = 1;
  return () => {
    window.bytes.set(parameters, scratch.parameters.begin);
    const start = performance.now();
    while (z < gridZ) {
      const last = Math.min(x + blocksAtOnce, gridX);
      runBlocks(
        x,
        last,
        y,
        z,
        gridX,
        gridY,
        gridZ,
        blockX,
        blockY,
        blockZ,
        scratch.parameters.begin,
        scratch.shared.begin,
        scratch.local.begin,
        limits,
      );
      x = last;
      if (x === gridX) {
        x = 0;
        if (++y === gridY) {
          y = 0;
          z++;
        }
      }
      const elapsed = performance.now() - start;
      if (elapsed > sliceMilliseconds) break;
      if (elapsed < sliceMilliseconds / 4) blocksAtOnce = Math.min(blocksAtOnce * 2, 2 ** 24);
    }
    return z === gridZ;
  };
}
