/**
 * A pool's address space: its used and free blocks, and the units in which memory is reserved.
 *
 * @module
 */
import type { Work } from "../execution/streams.ts";
import { poolFileHeaderByteLength, type SharedFile, unitByteLength } from "./shared_file.ts";
import { isLeased } from "../ipc/imported_pool.ts";
import { type Range, RangeAllocator } from "./allocations.ts";

/** A used or free part of a pool's reserved memory. `previous` and `next` are the adjacent blocks. */
export interface PoolBlock {
  readonly begin: number;
  /** The offset in the pool's space, which is also the offset in the pool's file. */
  readonly offset: number;
  /** The size in bytes, a multiple of the granule. */
  byteLength: number;
  inUse: boolean;
  /** The work that frees the block. Undefined once a synchronization has found the work done. */
  freed: Work | undefined;
  previous: PoolBlock | undefined;
  next: PoolBlock | undefined;
}

/** Adjacent free blocks, in address order. */
export type Run = readonly [PoolBlock, ...PoolBlock[]];

/** Returns the maximal runs of adjacent free blocks that may be reused. */
export function runsOf(free: ReadonlySet<PoolBlock>, mayReuse: (block: PoolBlock) => boolean): Run[] {
  const isPart = (block: PoolBlock | undefined) => block !== undefined && !block.inUse && mayReuse(block);
  const runs: Run[] = [];
  for (const first of free) {
    if (!isPart(first) || isPart(first.previous)) continue;
    const run: [PoolBlock, ...PoolBlock[]] = [first];
    for (let { next } = first; isPart(next); next = next!.next) run.push(next!);
    runs.push(run);
  }
  return runs;
}

/** Returns the size of a run in bytes. */
export function byteLengthOf(run: Run): number {
  return run.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** Returns the size of the whole units within a run, in bytes. */
export function unitsOf(run: Run): number {
  const begin = run[0].offset;
  const units = PoolSpace.wholeUnits({ begin, end: begin + byteLengthOf(run) });
  return units.end - units.begin;
}

/** Rounds a size in bytes up to whole units. */
export function wholeUnits(byteLength: number): number {
  return roundUp(byteLength, unitByteLength);
}

/** Rounds a value up to a multiple of `multiple`. */
export function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}

/** Returns whether two adjacent blocks are free and may be reused under the same condition. */
export function canMerge(block: PoolBlock, next: PoolBlock): boolean {
  if (block.inUse || next.inUse) return false;
  return block.freed?.stream === next.freed?.stream;
}

/** Returns the last item of work. All items must be work of one stream. */
export function latestOf(works: readonly Work[]): Work | undefined {
  return works.reduce<Work | undefined>(
    (latest, work) => latest === undefined || work.position > latest.position ? work : latest,
    undefined,
  );
}

/** Returns whether the work that frees a block is done. */
export function isDone({ freed }: PoolBlock): boolean {
  return freed?.done !== false;
}

/**
 * The end of a pool's space, in bytes. Larger than any file, because the space also contains freed units that importers
 * still have mapped.
 */
const spaceEnd = 2 ** 40;

/** Allocates whole units of a pool's space. If the pool has a file, offsets in the space are offsets in the file. */
export class PoolSpace {
  readonly #file: SharedFile | undefined;
  readonly #ranges = new RangeAllocator({ begin: poolFileHeaderByteLength, end: spaceEnd });
  /** The highest end of any unit that was ever allocated. */
  #end = poolFileHeaderByteLength;
  /** The offsets of freed units that an importer may still have mapped. */
  #freed: number[] = [];

  constructor(file: SharedFile | undefined) {
    this.#file = file;
  }

  /** Returns the range of the whole units within a range, which is empty if there are none. */
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

  /** Makes freed units that no importer has mapped available again, and returns their memory to the system. */
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
