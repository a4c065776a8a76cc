import {
  type CompiledKernel,
  type CompiledModule,
  compilePtx,
  hostFunctionImports,
  initializeImage,
  type ModuleVariable,
} from "./compiler/compile.ts";
import { addressOfOffset, scratch, wholePages, type Window } from "./window.ts";

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
  sharedBytes: number,
) => void;

/** A kernel of a loaded module. */
export interface SoftwareKernel {
  readonly compiled: CompiledKernel;
  readonly runBlocks: RunBlocks;
}

/** A variable of a loaded module, by where it lies in the window. */
export interface SoftwareVariable {
  readonly space: ModuleVariable["space"];
  readonly begin: number;
  readonly byteLength: number;
}

/** What PTX was loaded to. */
export interface SoftwareModule {
  readonly kernels: ReadonlyMap<string, SoftwareKernel>;
  /** Those in `.global` and `.const`, each at the start of a granule. No device's kernels may access them yet. */
  readonly variables: ReadonlyMap<string, SoftwareVariable>;
  /** The part of the window that was reserved for the variables; undefined where there are none. */
  readonly memory: { readonly begin: number; readonly byteLength: number } | undefined;
}

/** Where a module's variables go. */
export interface ModulePlace {
  /** Reserves whole pages of the window: where they begin. What it throws where there are none is the caller's affair. */
  reserve(byteLength: number): number;
}

/**
 * Compiles PTX, places its variables in the window and binds its kernels to it. Throws `PtxError` before anything is
 * reserved.
 */
export function loadModule(ptx: string, window: Window, { reserve }: ModulePlace): SoftwareModule {
  const module = compilePtx(ptx);
  const { image } = module;
  const code = new WebAssembly.Module(module.wasm);
  if (image.byteLength === 0) {
    return { kernels: bindKernels(code, module, { window, begin: 0 }), variables: new Map(), memory: undefined };
  }
  const byteLength = wholePages(image.byteLength);
  const begin = reserve(byteLength);
  // What had these pages before may have left something there.
  if (!window.discard(begin, byteLength)) window.bytes.fill(0, begin, begin + byteLength);
  const view = new DataView(window.memory.buffer, begin, image.byteLength);
  initializeImage(image, { view, address: addressOfOffset(begin) });
  const variables = [...image.variables].map(([name, { space, offset, byteLength }]) => {
    return [name, { space, begin: begin + offset, byteLength }] as const;
  });
  return {
    kernels: bindKernels(code, module, { window, begin }),
    variables: new Map(variables),
    memory: { begin, byteLength },
  };
}

/** @param begin where in the window the module's variables begin */
function bindKernels(
  code: WebAssembly.Module,
  { kernels }: CompiledModule,
  { window, begin }: { window: Window; begin: number },
): ReadonlyMap<string, SoftwareKernel> {
  const instance = new WebAssembly.Instance(code, {
    device: {
      memory: window.memory,
      imageAddress: new WebAssembly.Global({ value: "i64" }, addressOfOffset(begin)),
      ...hostFunctionImports({
        fault(kind: number, address: bigint, line: number): never {
          throw new KernelFault(kind, BigInt.asUintN(64, address), line);
        },
      }),
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
 * @param sharedMemoryBytes what the launch adds to the block's shared memory
 */
export function launchInSlices(
  { runBlocks, compiled }: SoftwareKernel,
  { grid: [gridX, gridY, gridZ], block: [blockX, blockY, blockZ] }: Geometry,
  { window, parameters, limits, sharedMemoryBytes = 0 }: {
    window: Window;
    parameters: Uint8Array;
    limits: number;
    sharedMemoryBytes?: number;
  },
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
        compiled.sharedBytes + sharedMemoryBytes,
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
