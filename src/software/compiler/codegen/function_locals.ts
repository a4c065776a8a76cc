/**
 * The locals of a WebAssembly function: those that hold registers, launch fields and parameters, and those that cache
 * the allocations that pointers refer to.
 *
 * @module
 */
import { type FixedLocal, LocalPools } from "./locals.ts";
import type { FunctionType } from "../webassembly/module_encoder.ts";
import type { Register, ResolvedAddress } from "../../../ptx/instructions/resolved_instruction.ts";
import type { ScalarType } from "../../../ptx/instructions/scalar_types.ts";
import type { LocalType } from "../webassembly/opcodes.ts";

/**
 * The locals that hold a pointer parameter of the kernel and the extent of its allocation, for accesses of one size.
 */
export interface ParameterPointer {
  /** The i64 local that holds the pointer. */
  readonly pointer: number;
  /** The i32 local that holds the pointer's offset in linear memory. */
  readonly location: number;
  /**
   * The i64 local that holds how many consecutive addresses, starting at the pointer, can begin a `bytes`-byte access
   * that stays within the pointer's allocation. The count is 0 if the pointer is misaligned or not in an allocation.
   */
  readonly reach: number;
  /** The size of the accesses, in bytes. */
  readonly bytes: number;
}

/** The i32 locals that describe the memory range that a parameter points into, for accesses of one size. */
export interface ArgumentRange {
  /** The offset of the parameter among the kernel's parameters, in bytes. */
  readonly parameter: number;
  /** The size of the accesses, in bytes. */
  readonly bytes: number;
  /** The local that holds the range's offset in linear memory. */
  readonly begin: number;
  /** The local that holds the range's size, in bytes. */
  readonly length: number;
  /**
   * The local that holds how many byte offsets in the range can begin a `bytes`-byte access that stays within the
   * range.
   */
  readonly room: number;
}

/**
 * The i64 locals that cache an allocation: the start of the allocation, and the number of accesses of one size that fit
 * into it.
 */
export interface RangeCache {
  readonly begin: number;
  readonly count: number;
}

/** The locals of a WebAssembly function. */
export class FunctionLocals {
  /** The types of all locals, without the function's parameters. */
  readonly types: LocalType[] = [];
  /** The locals that hold registers. */
  readonly registers: Map<Register, number> = new Map();
  /**
   * The pools that provide the locals of registers. All PTX functions of a kernel share the same locals, because
   * registers are saved across calls.
   */
  readonly registerLocals: LocalPools = new LocalPools((type) => this.add(type));
  readonly temporaries: LocalPools = new LocalPools((type) => this.add(type));
  readonly fixed: Map<FixedLocal, number> = new Map();
  readonly parameters: Map<string, { local: number; offset: number; type: ScalarType }> = new Map();
  readonly sharedCapacity: Map<number, number> = new Map();
  readonly pointers: Map<string, ParameterPointer> = new Map();
  readonly argumentRanges: Map<string, ArgumentRange> = new Map();
  readonly #parameterCount: number;
  readonly #mostRanges: number;
  readonly #ranges = new Map<ResolvedAddress["base"], Map<number, RangeCache>>();
  /** All range caches, keyed by access size. */
  readonly #rangesOfSize = new Map<number, RangeCache[]>();
  /** The number of range caches requested so far, keyed by access size. */
  readonly #rangeCounts = new Map<number, number>();

  /**
   * @param mostRanges the maximum number of range caches for each access size. Beyond it, pointers share range caches
   */
  constructor({ parameters }: FunctionType, { mostRanges = Infinity }: { readonly mostRanges?: number } = {}) {
    this.#parameterCount = parameters.length;
    this.#mostRanges = mostRanges;
  }

  /** Creates a local that is never reused. */
  add(type: LocalType): number {
    this.types.push(type);
    return this.#parameterCount + this.types.length - 1;
  }

  /** Returns the range cache of a pointer for accesses of `bytes` bytes. */
  rangeCache(pointer: ResolvedAddress["base"], bytes: number): RangeCache {
    let caches = this.#ranges.get(pointer);
    if (caches === undefined) this.#ranges.set(pointer, caches = new Map());
    let cache = caches.get(bytes);
    if (cache === undefined) caches.set(bytes, cache = this.#nextRange(bytes));
    return cache;
  }

  #nextRange(bytes: number): RangeCache {
    const all = this.#rangesOfSize.get(bytes) ?? [];
    this.#rangesOfSize.set(bytes, all);
    const number = this.#rangeCounts.get(bytes) ?? 0;
    this.#rangeCounts.set(bytes, number + 1);
    return all[number % this.#mostRanges] ??= { begin: this.add("i64"), count: this.add("i64") };
  }
}
