/**
 * The version of a kernel that runs packs of threads: when it is compiled, and for which launches it is of use.
 *
 * @module
 */
import type { CompiledKernel, PackedKernel } from "../compiler/compile.ts";
import type { PackWidth } from "../compiler/simd/pack_layout.ts";
import { scratch } from "../memory/linear_memory.ts";

/** Blocks and threads in each dimension, and what each block gets. */
export interface Geometry {
  readonly grid: readonly [x: number, y: number, z: number];
  readonly block: readonly [x: number, y: number, z: number];
}

/** What a compiled kernel exports: it is told where the launch's record begins. */
export type RunKernel = (launch: number) => void;

/** The functions of a kernel that runs packs of threads. */
export interface PackRun {
  readonly compiled: PackedKernel;
  /** Runs the blocks that the launch's record names, and tells the one at which it has stopped. */
  readonly packs: (launch: number) => number;
  readonly threads: RunKernel;
}

/** The widths of packs, the best first: work that is done once for a pack is the less, the more threads it has. */
const packWidths: readonly PackWidth[] = [32, 16, 8, 4];
/** With more registers in vectors, the widest packs have most of them in memory, and the next are faster. */
const mostRegistersOfWidest = 6;

/** The version of a kernel that runs packs of threads, which is compiled when it is first of use. */
export class KernelPack {
  readonly #kernel: CompiledKernel;
  readonly #imports: WebAssembly.Imports;
  readonly #packedFrom: number;
  readonly #runs = new Map<PackWidth, PackRun | undefined>();

  constructor(kernel: CompiledKernel, imports: WebAssembly.Imports, packedFrom: number) {
    this.#kernel = kernel;
    this.#imports = imports;
    this.#packedFrom = packedFrom;
  }

  /** For a launch; undefined where its threads cannot be run in packs, or are too few. */
  for({ grid, block }: Geometry): PackRun | undefined {
    const threads = block[0] * block[1] * block[2];
    if (grid[0] * grid[1] * grid[2] * threads < this.#packedFrom) return undefined;
    const width = packWidths.find((width) => block[0] % width === 0);
    let run = width === undefined ? undefined : this.#ofWidth(width);
    if (run?.compiled.width === 32 && run.compiled.vectorRegisters > mostRegistersOfWidest) run = this.#ofWidth(16);
    if (run === undefined) return undefined;
    return packMemoryBytes(run.compiled, threads) > scratch.local.byteLength ? undefined : run;
  }

  #ofWidth(width: PackWidth): PackRun | undefined {
    if (!this.#runs.has(width)) this.#runs.set(width, this.#compile(width));
    return this.#runs.get(width);
  }

  #compile(width: PackWidth): PackRun | undefined {
    const compiled = this.#kernel.compilePacked(width);
    if (compiled === undefined) return undefined;
    const exports = instantiateIfPossible(compiled.wasm, this.#imports);
    if (exports === undefined) return undefined;
    const { packs, threads } = exports as unknown as { packs: PackRun["packs"]; threads: RunKernel };
    return { compiled, packs, threads };
  }
}

/** Undefined where the engine refuses, as for want of memory. */
function instantiateIfPossible(
  wasm: Uint8Array<ArrayBuffer>,
  imports: WebAssembly.Imports,
): WebAssembly.Exports | undefined {
  try {
    return new WebAssembly.Instance(new WebAssembly.Module(wasm), imports).exports;
  } catch {
    return undefined;
  }
}

/** The bytes of memory for what is saved of threads and packs at once. */
function packMemoryBytes(kernel: PackedKernel, threadsPerBlock: number): number {
  const { localBytes, savedBytes, packBytes, width, hasBarriers } = kernel;
  const threads = hasBarriers ? threadsPerBlock : width;
  return threads * (localBytes + savedBytes) + threads / width * packBytes;
}
