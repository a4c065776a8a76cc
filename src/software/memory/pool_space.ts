import { leasedRanges } from "../ipc/mapping_leases.ts";
import { poolFileHeaderByteLength } from "./pool_file.ts";
import { type Range, RangeAllocator } from "./range_allocator.ts";
import type { SharedFile } from "./shared_file.ts";

/** Bytes of a unit: pools reserve memory and give it back in whole ones. */
export const unitByteLength: number = 32 * 2 ** 20;

/** No file's length: what importers have mapped still takes its place beside all that the pool has reserved. */
const spaceEnd = 2 ** 40;

/** Where a pool's memory lies: offsets of whole units, which are those in its file where it has one. */
export class PoolSpace {
  readonly #file: SharedFile | undefined;
  readonly #ranges = new RangeAllocator({ begin: poolFileHeaderByteLength, end: spaceEnd });
  /** Past the last unit that was ever handed out. */
  #end = poolFileHeaderByteLength;
  /** Where the units begin that the pool has given back, and that an importer may still have mapped. */
  #freed: number[] = [];

  constructor(file: SharedFile | undefined) {
    this.#file = file;
  }

  /** The whole units that a range has in it, as a range: an empty one where there is none. */
  static wholeUnits({ begin, end }: Range): Range {
    const first = Math.ceil((begin - poolFileHeaderByteLength) / unitByteLength);
    const last = Math.floor((end - poolFileHeaderByteLength) / unitByteLength);
    return {
      begin: poolFileHeaderByteLength + first * unitByteLength,
      end: poolFileHeaderByteLength + Math.max(first, last) * unitByteLength,
    };
  }

  /** The offset of so many bytes, which are whole units; undefined where there is no room. */
  allocate(byteLength: number): number | undefined {
    const first = this.#ranges.allocate(byteLength);
    if (first !== undefined && (first + byteLength <= this.#end || this.#freed.length === 0)) {
      this.#end = Math.max(this.#end, first + byteLength);
      return first;
    }
    // What was given back may do, and then the file need not be longer.
    if (first !== undefined) this.#ranges.free(first, byteLength);
    this.settle();
    const offset = this.#ranges.allocate(byteLength);
    if (offset !== undefined) this.#end = Math.max(this.#end, offset + byteLength);
    return offset;
  }

  /** Gives whole units back: `settle` finds out when no importer has them mapped. */
  free({ begin, end }: Range): void {
    for (let unit = begin; unit < end; unit += unitByteLength) this.#freed.push(unit);
  }

  /** Gives those units to the system that no importer has mapped. It takes a look at all leases. */
  settle(): void {
    if (this.#freed.length === 0) return;
    const leased = this.#file === undefined ? [] : leasedRanges(this.#file);
    const units = this.#freed;
    this.#freed = [];
    for (const unit of units) {
      if (leased.some(({ begin, end }) => begin < unit + unitByteLength && unit < end)) {
        this.#freed.push(unit);
      } else {
        this.#file?.punchHole(unit, unitByteLength);
        this.#ranges.free(unit, unitByteLength);
      }
    }
  }
}
