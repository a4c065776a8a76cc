/**
 * The versions of a kernel: for launches whose threads' accesses may be ordered otherwise than usual, with blocks whose
 * warps are not rows or with pointers into the same memory; and those that run in gangs.
 *
 * @module
 */
import { addressBase, boundsGranuleShift } from "../../abi/addresses.ts";
import {
  type CompiledKernel,
  type GangKernel,
  hasRowsOfWarps,
  imageMemory,
  type LaunchRules,
} from "../../compiler/compile.ts";
import { offsetOfAddress, scratch } from "../../memory/linear_memory.ts";
import { compiledGangs, unlessRefused } from "./compiled_modules.ts";
import type { GangWidth } from "../../compiler/simd/gang_layout.ts";

type BlockSize = readonly [x: number, y: number, z: number];

/** How to bind a version, and the memory that pointers point to. */
interface LaunchVersionsOptions<Kernel> {
  bind(wasm: Uint8Array<ArrayBuffer>, kernel: CompiledKernel): Kernel;
  readonly memory: WebAssembly.Memory;
  /** The range of the module's variables. */
  readonly image: { readonly begin: number; readonly end: number };
}

/** The versions of a kernel, beside the usual one. Each is compiled when it is first used. */
export class LaunchVersions<Kernel> {
  readonly #kernel: CompiledKernel;
  readonly #options: LaunchVersionsOptions<Kernel>;
  readonly #versions = new Map<string, Kernel | undefined>();
  readonly #words: Uint32Array;
  readonly #found: number[] = [];

  constructor(kernel: CompiledKernel, options: LaunchVersionsOptions<Kernel>) {
    this.#kernel = kernel;
    this.#options = options;
    this.#words = new Uint32Array(options.memory.buffer);
  }

  /**
   * The version for a launch, given its packed parameters and the offset of the device's bounds table. Undefined for
   * the usual one.
   */
  for(block: BlockSize, { parameters, bounds }: { parameters: Uint8Array; bounds: number }): Kernel | undefined {
    const { ordersAccesses, pointerParameters } = this.#kernel;
    if (!ordersAccesses) return undefined;
    const isRow = hasRowsOfWarps(block);
    const view = new DataView(parameters.buffer, parameters.byteOffset, parameters.byteLength);
    const isShared = pointerParameters.length > 0 && this.#arePointersShared(view, bounds);
    if (isRow && !isShared) return undefined;
    const shared = isShared ? this.#sharedPointers(view, bounds) : none;
    const key = `${isRow ? "" : block} ${
      [...shared].map(([offset, { memory, same }]) => `${offset},${memory},${same}`)
    }`;
    if (!this.#versions.has(key)) {
      const version = this.#kernel.compileForLaunch({ block: isRow ? undefined : block, shared });
      this.#versions.set(key, version && this.#options.bind(version.wasm, version.kernel));
    }
    return this.#versions.get(key);
  }

  /** Whether any pointers share memory, or point to the module's variables. Called for every launch. */
  #arePointersShared(view: DataView, bounds: number): boolean {
    const { pointerParameters } = this.#kernel;
    const { begin, end } = this.#options.image;
    const found = this.#found;
    found.length = 0;
    for (let index = 0; index < pointerParameters.length; index++) {
      const offset = pointerParameters[index]!;
      if (view.getUint32(offset + 4, true) !== highWord) continue;
      const target = view.getUint32(offset, true);
      if (target >= begin && target < end) return true;
      const allocation = this.#words[bounds / 4 + (target >>> boundsGranuleShift)]!;
      if (allocation === 0) continue;
      if (found.includes(allocation)) return true;
      found.push(allocation);
    }
    return false;
  }

  /** The pointer parameters that share memory with others, or point to the variables of the module. */
  #sharedPointers(view: DataView, bounds: number): LaunchRules["shared"] {
    const { pointerParameters } = this.#kernel;
    const { begin, end } = this.#options.image;
    const found = new Map<number, number[]>();
    for (const offset of pointerParameters) {
      const target = offsetOfAddress(view.getBigUint64(offset, true));
      if (target === undefined) continue;
      const isImage = target >= begin && target < end;
      const allocation = isImage ? 0 : this.#words[bounds / 4 + (target >>> boundsGranuleShift)]!;
      if (allocation === 0 && !isImage) continue;
      const others = found.get(allocation);
      if (others === undefined) found.set(allocation, [offset]);
      else others.push(offset);
    }
    let shared: Map<number, { memory: number; same: number }> | undefined;
    let memory: number = imageMemory;
    for (const [allocation, offsets] of found) {
      if (allocation !== 0 && offsets.length < 2) continue;
      if (allocation !== 0) memory++;
      for (const offset of offsets) {
        const value = view.getBigUint64(offset, true);
        const same = Math.min(...offsets.filter((other) => view.getBigUint64(other, true) === value));
        (shared ??= new Map()).set(offset, { memory: allocation === 0 ? imageMemory : memory, same });
      }
    }
    return shared ?? none;
  }
}

/** The high half of an address in linear memory. */
const highWord = Number(addressBase >> 32n);
const none: LaunchRules["shared"] = new Map();

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
