/**
 * The versions of a kernel that run in gangs: when they are compiled, and which launches use them.
 *
 * @module
 */
import type { CompiledKernel, GangKernel } from "../../compiler/compile.ts";
import { compiledGangs, unlessRefused } from "./compiled_modules.ts";
import type { GangWidth } from "../../compiler/simd/gang_layout.ts";
import { scratch } from "../../memory/linear_memory.ts";

/** The number of blocks and of threads in each dimension. */
export interface Geometry {
  readonly grid: readonly [x: number, y: number, z: number];
  readonly block: readonly [x: number, y: number, z: number];
}

/** A compiled kernel's export. Its argument is the offset of the launch record. */
export type RunKernel = (launch: number) => void;

/** A kernel compiled to run in gangs, and its exports. */
export interface GangFunctions {
  readonly compiled: GangKernel;
  /** Runs the blocks that the launch record names, and returns the index of the block where it stopped. */
  readonly gangs: (launch: number) => number;
  readonly threads: RunKernel;
}

/** The widths of gangs, the best first. The wider a gang, the less often uniform work is done. */
const gangWidths: readonly GangWidth[] = [32, 16, 8, 4];
/** With more registers in vectors, most of the widest gangs' registers are in memory, and the next width is faster. */
const mostRegistersOfWidest = 6;

/** The more members a gang has, the longer the first ones to leave a loop wait for the last. */
const widthOfMasked = 16;
/** The vectors of a register of 64 bits are as many as in a gang twice as wide. */
const widthOfWideRegisters = 16;
const mostWideRegisters = 3;

/** The versions of a kernel that run in gangs. Each is compiled when it is first used. */
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

  /** The version for a launch. Undefined if the launch cannot run in gangs or has too few threads. */
  for({ grid, block }: Geometry): GangFunctions | undefined {
    const threads = block[0] * block[1] * block[2];
    if (grid[0] * grid[1] * grid[2] * threads < this.#leastThreads) return undefined;
    const width = gangWidths.find((width) => block[0] % width === 0);
    let run = width === undefined ? undefined : this.#ofWidth(width);
    // Where the order of the lanes' accesses matters, only the widest gang holds a whole warp.
    if (this.#kernel.lockstepPointCount === 0) {
      const best = run && bestWidth(run.compiled);
      if (best !== run?.compiled.width) run = this.#ofWidth(best!);
    }
    if (run === undefined) return undefined;
    return gangMemoryBytes(run.compiled, threads) > scratch.local.byteLength ? undefined : run;
  }

  #ofWidth(width: GangWidth): GangFunctions | undefined {
    if (!this.#runs.has(width)) this.#runs.set(width, this.#compile(width));
    return this.#runs.get(width);
  }

  #compile(width: GangWidth): GangFunctions | undefined {
    const version = compiledGangs(this.#kernel, width);
    const instance = version && unlessRefused(() => new WebAssembly.Instance(version.code, this.#imports));
    if (version === undefined || instance === undefined) return undefined;
    const { gangs, threads } = instance.exports as unknown as { gangs: GangFunctions["gangs"]; threads: RunKernel };
    return { compiled: version.compiled, gangs, threads };
  }
}

/** The best width for a kernel, at most the one for which it was compiled. */
function bestWidth({ width, vectorRegisters, wideRegisters, hasMaskedLoops }: GangKernel): GangWidth {
  let best = width;
  const limit = (most: GangWidth) => best = best > most ? most : best;
  if (vectorRegisters > mostRegistersOfWidest) limit(16);
  if (hasMaskedLoops) limit(widthOfMasked);
  if (wideRegisters > 0) limit(widthOfWideRegisters);
  if (wideRegisters > mostWideRegisters) limit(8);
  return best;
}

/** The bytes of memory that the threads and gangs of a block need at once. */
function gangMemoryBytes(kernel: GangKernel, threadsPerBlock: number): number {
  const { localBytes, savedBytes, gangBytes, width, hasBarriers } = kernel;
  const threads = hasBarriers ? threadsPerBlock : width;
  return threads * (localBytes + savedBytes) + threads / width * gangBytes;
}
