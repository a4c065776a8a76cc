import { isLeased } from "../ipc/mapping_leases.ts";
import { poolFileHeaderByteLength, unitByteLength } from "./pool_file.ts";
import { type Range, RangeAllocator } from "./range_allocator.ts";
import type { SharedFile } from "./shared_file.ts";

/**
 * The end of a pool's space. It exceeds the length of any file, because freed units that importers still have mapped
 * take up space beside everything that the pool has reserved.
 */
const spaceEnd = 2 ** 40;

/** Allocates whole units of a pool's space. If the pool has a file, offsets in the space are offsets in the file. */
export class PoolSpace {
  readonly #file: SharedFile | undefined;
  readonly #ranges = new RangeAllocator({ begin: poolFileHeaderByteLength, end: spaceEnd });
  /** The end of the last unit that was ever allocated. */
  #end = poolFileHeaderByteLength;
  /** The offsets of units that the pool has freed and that an importer may still have mapped. */
  #freed: number[] = [];

  constructor(file: SharedFile | undefined) {
    this.#file = file;
  }

  /** Returns the range of whole units within a range. It is empty if there is none. */
  static wholeUnits({ begin, end }: Range): Range {
    const first = Math.ceil((begin - poolFileHeaderByteLength) / unitByteLength);
    const last = Math.floor((end - poolFileHeaderByteLength) / unitByteLength);
    return {
      begin: poolFileHeaderByteLength + first * unitByteLength,
      end: poolFileHeaderByteLength + Math.max(first, last) * unitByteLength,
    };
  }

  /** Allocates whole units. Returns their offset, or undefined if there is no room. */
  allocate(byteLength: number): number | undefined {
    const first = this.#ranges.allocate(byteLength);
    if (first !== undefined && (first + byteLength <= this.#end || this.#freed.length === 0)) {
      this.#end = Math.max(this.#end, first + byteLength);
      return first;
    }
    // Reclaiming freed units may make room without growing the file.
    if (first !== undefined) this.#ranges.free(first, byteLength);
    this.reclaim();
    const offset = this.#ranges.allocate(byteLength);
    if (offset !== undefined) this.#end = Math.max(this.#end, offset + byteLength);
    return offset;
  }

  /** Frees whole units. They can be allocated again once `reclaim` finds that no importer has them mapped. */
  free({ begin, end }: Range): void {
    for (let unit = begin; unit < end; unit += unitByteLength) this.#freed.push(unit);
  }

  /** Returns the memory of freed units that no importer has mapped to the system. */
  reclaim(): void {
    if (this.#freed.length === 0) return;
    const units = this.#freed;
    this.#freed = [];
    for (const unit of units) {
      const range = { begin: unit, end: unit + unitByteLength };
      if (this.#file !== undefined && isLeased(this.#file, range)) {
        this.#freed.push(unit);
      } else {
        this.#file?.punchHole(unit, unitByteLength);
        this.#ranges.free(unit, unitByteLength);
      }
    }
  }
}
