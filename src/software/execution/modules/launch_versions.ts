/**
 * The versions of a kernel for launches in which its threads' accesses may be ordered otherwise than usual: with blocks
 * whose warps are not rows, or with pointers into the same memory.
 *
 * @module
 */
import { addressBase, boundsGranuleShift } from "../../abi/addresses.ts";
import { type CompiledKernel, hasRowsOfWarps, imageMemory, type LaunchRules } from "../../compiler/compile.ts";
import { offsetOfAddress } from "../../memory/linear_memory.ts";

type BlockSize = readonly [x: number, y: number, z: number];

/** How to bind a version, and the memory that pointers point to. */
export interface LaunchVersionsOptions<Kernel> {
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
