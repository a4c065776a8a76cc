import { leasedRanges } from "./mapping_leases.ts";
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
  /** Where the units begin that the pool has given back and an importer still has mapped. */
  #mapped: number[] = [];

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
    this.settle();
    return this.#ranges.allocate(byteLength);
  }

  /** Gives whole units back: at once, or when no importer has them mapped. */
  free({ begin, end }: Range): void {
    for (let unit = begin; unit < end; unit += unitByteLength) this.#mapped.push(unit);
    this.settle();
  }

  /** Gives back what importers have unmapped since. */
  settle(): void {
    if (this.#mapped.length === 0) return;
    const leased = this.#file === undefined ? [] : leasedRanges(this.#file);
    const units = this.#mapped;
    this.#mapped = [];
    for (const unit of units) {
      if (leased.some(({ begin, end }) => begin < unit + unitByteLength && unit < end)) {
        this.#mapped.push(unit);
      } else {
        this.#file?.punchHole(unit, unitByteLength);
        this.#ranges.free(unit, unitByteLength);
      }
    }
  }
}
