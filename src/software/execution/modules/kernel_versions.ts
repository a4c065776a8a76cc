/**
 * The versions of a kernel: for launches for which the usual version may order accesses wrongly, because warps are not
 * rows of the block, or because pointer arguments point into the same memory; and for gangs.
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
import { offsetOfAddress, scratch } from "../../memory/memory_layout.ts";
import { compiledGangs, unlessRefused } from "./compiled_modules.ts";
import type { GangWidth } from "../../compiler/simd/gang_layout.ts";

type BlockSize = readonly [x: number, y: number, z: number];

/** The arguments of a launch, and what says which memory they point into. */
interface LaunchArguments {
  readonly parameters: Uint8Array;
  /** The offset of the device's bounds table. */
  readonly bounds: number;
  /** Returns the bounds table's entry for an offset when the launch begins. By default, or if undefined, that of now. */
  readonly entryAt?: ((offset: number) => number | undefined) | undefined;
}

/** Parameters of {@linkcode LaunchVersions}. */
interface LaunchVersionsOptions<Kernel> {
  bind(wasm: Uint8Array<ArrayBuffer>, kernel: CompiledKernel): Kernel;
  readonly memory: WebAssembly.Memory;
  /** The range of the module's variables in linear memory. */
  readonly image: { readonly begin: number; readonly end: number };
}

/** The versions of a kernel that are compiled for particular launches. Each version is compiled on first use. */
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
   * Returns the version for a launch with the given packed parameters. Returns undefined if the launch needs no special
   * version.
   */
  for(block: BlockSize, launch: LaunchArguments): Kernel | undefined {
    const { ordersAccesses, pointerParameters } = this.#kernel;
    if (!ordersAccesses) return undefined;
    const isRow = hasRowsOfWarps(block);
    const isShared = pointerParameters.length > 0 && this.#arePointersShared(launch);
    if (isRow && !isShared) return undefined;
    const shared = isShared ? this.#sharedPointers(launch) : none;
    const key = `${isRow ? "" : block} ${
      [...shared].map(([offset, { memory, same }]) => `${offset},${memory},${same}`)
    }`;
    if (!this.#versions.has(key)) {
      const version = this.#kernel.compileForLaunch({ block: isRow ? undefined : block, shared });
      this.#versions.set(key, version && this.#options.bind(version.wasm, version.kernel));
    }
    return this.#versions.get(key);
  }

  /**
   * Returns whether two pointer parameters point into the same allocation, or any pointer parameter points to the
   * module's variables. Called for every launch.
   */
  #arePointersShared({ parameters, bounds, entryAt }: LaunchArguments): boolean {
    const { pointerParameters } = this.#kernel;
    const { begin, end } = this.#options.image;
    const found = this.#found;
    found.length = 0;
    for (let index = 0; index < pointerParameters.length; index++) {
      const offset = pointerParameters[index]!;
      if (wordAt(parameters, offset + 4) !== highWord) continue;
      const target = wordAt(parameters, offset);
      if (target >= begin && target < end) return true;
      const allocation = entryAt?.(target) ?? this.#words[bounds / 4 + (target >>> boundsGranuleShift)]!;
      if (allocation === 0) continue;
      if (found.includes(allocation)) return true;
      found.push(allocation);
    }
    return false;
  }

  /**
   * Returns the pointer parameters that point to the module's variables or into the same allocation as another pointer
   * parameter.
   */
  #sharedPointers({ parameters, bounds, entryAt }: LaunchArguments): LaunchRules["shared"] {
    const view = new DataView(parameters.buffer, parameters.byteOffset, parameters.byteLength);
    const { pointerParameters } = this.#kernel;
    const { begin, end } = this.#options.image;
    const found = new Map<number, number[]>();
    for (const offset of pointerParameters) {
      const target = offsetOfAddress(view.getBigUint64(offset, true));
      if (target === undefined) continue;
      const isImage = target >= begin && target < end;
      const allocation = isImage ? 0 : entryAt?.(target) ?? this.#words[bounds / 4 + (target >>> boundsGranuleShift)]!;
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

/** Returns a 32-bit number in bytes. Unlike a `DataView`, needs no object, which each launch would have to create. */
function wordAt(bytes: Uint8Array, offset: number): number {
  return (bytes[offset]! | bytes[offset + 1]! << 8 | bytes[offset + 2]! << 16 | bytes[offset + 3]! << 24) >>> 0;
}

/** The upper 32 bits of every address in linear memory. */
const highWord = Number(addressBase >> 32n);
const none: LaunchRules["shared"] = new Map();

/** The number of blocks of the grid, of threads of a block, and of blocks of a cluster, in each dimension. */
export interface LaunchGeometry {
  readonly grid: readonly [x: number, y: number, z: number];
  readonly block: readonly [x: number, y: number, z: number];
  /** The size of clusters, if the launch or the kernel states it. Undefined if each block is a cluster of its own. */
  readonly cluster?: readonly [x: number, y: number, z: number] | undefined;
}

/** The type of a compiled kernel's exported function. The argument is the offset of the launch record. */
export type RunKernel = (launch: number) => void;

/** The properties of a kernel compiled for gangs that running its blocks needs. All are plain data. */
export type GangProperties = Omit<GangKernel, "wasm">;

/** The functions of a kernel compiled for gangs, with the properties that running its blocks needs. */
export interface RunnableGangs {
  readonly compiled: GangProperties;
  /** Runs the launch record's range of blocks, and returns the x index of the block where it stopped. */
  readonly gangs: (launch: number) => number;
  readonly threads: RunKernel;
}

/** The exported functions of a kernel compiled for gangs, and the kernel. */
export interface GangFunctions extends RunnableGangs {
  readonly compiled: GangKernel;
  readonly code: WebAssembly.Module;
}

/**
 * The possible numbers of threads in a gang, in order of preference. Work that is the same for all threads is done once
 * per gang, so wider gangs repeat it less often.
 */
const gangWidths: readonly GangWidth[] = [32, 16, 8, 4];
/**
 * The maximum number of vector registers of a kernel for which gangs of 32 threads are best. With more registers, most
 * would be spilled, and gangs of 16 are faster.
 */
const mostRegistersOfWidest = 6;

/**
 * The maximum gang width for kernels with masked loops. In wider gangs, the threads that leave a loop first wait longer
 * for the last thread.
 */
const widthOfMasked = 16;
/**
 * The maximum gang width for kernels with 64-bit registers. A 64-bit register needs as many vectors as a 32-bit
 * register of a gang twice as wide.
 */
const widthOfWideRegisters = 16;
/** The maximum number of 64-bit registers of a kernel for which gangs wider than 8 are best. */
const mostWideRegisters = 3;

/** The versions of a kernel that are compiled for gangs, by gang width. Each version is compiled on first use. */
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

  /** Returns the version for a launch. Returns undefined if the launch cannot run in gangs or has too few threads. */
  for({ grid, block, cluster = [1, 1, 1] }: LaunchGeometry): GangFunctions | undefined {
    // The blocks of a cluster may wait for each other.
    if (cluster.some((extent) => extent > 1)) return undefined;
    const threads = block[0] * block[1] * block[2];
    if (grid[0] * grid[1] * grid[2] * threads < this.#leastThreads) return undefined;
    const width = gangWidths.find((width) => block[0] % width === 0);
    let run = width === undefined ? undefined : this.#ofWidth(width);
    // If there are lockstep points, the order of the lanes' accesses matters, so the gang must be as wide as possible.
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
    return { compiled: version.compiled, code: version.code, gangs, threads };
  }
}

/** Returns the best gang width for a kernel, which is at most `width`. */
function bestWidth({ width, vectorRegisters, wideRegisters, hasMaskedLoops }: GangKernel): GangWidth {
  let best = width;
  const limit = (most: GangWidth) => best = best > most ? most : best;
  if (vectorRegisters > mostRegistersOfWidest) limit(16);
  if (hasMaskedLoops) limit(widthOfMasked);
  if (wideRegisters > 0) limit(widthOfWideRegisters);
  if (wideRegisters > mostWideRegisters) limit(8);
  return best;
}

/** Returns the size in bytes of the memory for all threads and gangs of a block. */
export function gangMemoryBytes(kernel: GangProperties, threadsPerBlock: number): number {
  const { localBytes, savedBytes, gangBytes, width, hasBarriers } = kernel;
  const threads = hasBarriers ? threadsPerBlock : width;
  return threads * (localBytes + savedBytes) + threads / width * gangBytes;
}
