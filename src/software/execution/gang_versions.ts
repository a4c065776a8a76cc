/**
 * The version of a kernel that runs gangs of threads: when it is compiled, and for which launches it is of use.
 *
 * @module
 */
import type { CompiledKernel, GangKernel } from "../compiler/compile.ts";
import type { GangWidth } from "../compiler/simd/gang_layout.ts";
import { scratch } from "../memory/linear_memory.ts";

/** Blocks and threads in each dimension, and what each block gets. */
export interface Geometry {
  readonly grid: readonly [x: number, y: number, z: number];
  readonly block: readonly [x: number, y: number, z: number];
}

/** What a compiled kernel exports: it is told where the launch's record begins. */
export type RunKernel = (launch: number) => void;

/** The functions of a kernel that runs gangs of threads. */
export interface GangFunctions {
  readonly compiled: GangKernel;
  /** Runs the blocks that the launch's record names, and tells the one at which it has stopped. */
  readonly gangs: (launch: number) => number;
  readonly threads: RunKernel;
}

/** The widths of gangs, the best first: work that is done once for a gang is the less, the more threads it has. */
const gangWidths: readonly GangWidth[] = [32, 16, 8, 4];
/** With more registers in vectors, the widest gangs have most of them in memory, and the next are faster. */
const mostRegistersOfWidest = 6;

/** The version of a kernel that runs gangs of threads, which is compiled when it is first of use. */
export class GangVersions {
  readonly #kernel: CompiledKernel;
  readonly #imports: WebAssembly.Imports;
  readonly #leastThreads: number;
  readonly #runs = new Map<GangWidth, GangFunctions | undefined>();

  constructor(kernel: CompiledKernel, imports: WebAssembly.Imports, leastThreads: number) {
    this.#kernel = kernel;
    this.#imports = imports;
    this.#leastThreads = leastThreads;
  }

  /** For a launch; undefined where its threads cannot be run in gangs, or are too few. */
  for({ grid, block }: Geometry): GangFunctions | undefined {
    const threads = block[0] * block[1] * block[2];
    if (grid[0] * grid[1] * grid[2] * threads < this.#leastThreads) return undefined;
    const width = gangWidths.find((width) => block[0] % width === 0);
    let run = width === undefined ? undefined : this.#ofWidth(width);
    if (run?.compiled.width === 32 && run.compiled.vectorRegisters > mostRegistersOfWidest) run = this.#ofWidth(16);
    if (run === undefined) return undefined;
    return gangMemoryBytes(run.compiled, threads) > scratch.local.byteLength ? undefined : run;
  }

  #ofWidth(width: GangWidth): GangFunctions | undefined {
    if (!this.#runs.has(width)) this.#runs.set(width, this.#compile(width));
    return this.#runs.get(width);
  }

  #compile(width: GangWidth): GangFunctions | undefined {
    const compiled = this.#kernel.compileGangs(width);
    if (compiled === undefined) return undefined;
    const exports = instantiateIfPossible(compiled.wasm, this.#imports);
    if (exports === undefined) return undefined;
    const { gangs, threads } = exports as unknown as { gangs: GangFunctions["gangs"]; threads: RunKernel };
    return { compiled, gangs, threads };
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

/** The bytes of memory for what is saved of threads and gangs at once. */
function gangMemoryBytes(kernel: GangKernel, threadsPerBlock: number): number {
  const { localBytes, savedBytes, gangBytes, width, hasBarriers } = kernel;
  const threads = hasBarriers ? threadsPerBlock : width;
  return threads * (localBytes + savedBytes) + threads / width * gangBytes;
}
