/**
 * A pool's address space: its used and free blocks, and the units in which memory is reserved.
 *
 * @module
 */
import type { Work } from "../execution/streams.ts";
import { poolFileHeaderByteLength, type SharedFile, unitByteLength } from "./shared_file.ts";
import { isLeased } from "../ipc/imported_pool.ts";
import { type Range, RangeAllocator } from "./allocations.ts";
import { roundUp } from "../../support/rounding.ts";

/** A part of a pool's reserved memory, either used or free. `previous` and `next` are the adjacent parts. */
export interface PoolBlock {
  readonly begin: number;
  /** The offset in the pool's address space, which equals the offset in the pool's file. */
  readonly offset: number;
  /** The size in bytes, a multiple of 512. */
  byteLength: number;
  inUse: boolean;
  /** The work that frees the block. Undefined if the host has synchronized with that work, or if there was none. */
  freed: Work | undefined;
  previous: PoolBlock | undefined;
  next: PoolBlock | undefined;
}

/** Adjacent free blocks, in address order. */
export type FreeRun = readonly [PoolBlock, ...PoolBlock[]];

/** Returns all runs of adjacent free blocks for which `mayReuse` returns true. Each run is as long as possible. */
export function freeRunsOf(free: ReadonlySet<PoolBlock>, mayReuse: (block: PoolBlock) => boolean): FreeRun[] {
  const isPart = (block: PoolBlock | undefined) => block !== undefined && !block.inUse && mayReuse(block);
  const runs: FreeRun[] = [];
  for (const first of free) {
    if (!isPart(first) || isPart(first.previous)) continue;
    const run: [PoolBlock, ...PoolBlock[]] = [first];
    for (let { next } = first; isPart(next); next = next!.next) run.push(next!);
    runs.push(run);
  }
  return runs;
}

/** Returns the size of a run in bytes. */
export function byteLengthOfRun(run: FreeRun): number {
  return run.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** Returns the total size, in bytes, of those units that lie completely within a run. */
export function unitsOf(run: FreeRun): number {
  const begin = run[0].offset;
  const units = PoolSpace.wholeUnits({ begin, end: begin + byteLengthOfRun(run) });
  return units.end - units.begin;
}

/** Rounds a size in bytes up to whole units. */
export function roundUpToUnits(byteLength: number): number {
  return roundUp(byteLength, unitByteLength);
}

/**
 * The size in bytes of a step. As on a GPU, the reserved size that a pool reports and the pool's maximum size are
 * rounded up to whole steps.
 */
export const stepByteLength: number = 16 * unitByteLength;

/** Rounds a size in bytes up to whole steps. */
export function roundUpToSteps(byteLength: number): number {
  return roundUp(byteLength, stepByteLength);
}

/**
 * Returns whether two adjacent blocks can be merged: both are free, and either the same stream has freed them or both
 * frees are known to be done.
 */
export function canMerge(block: PoolBlock, next: PoolBlock): boolean {
  if (block.inUse || next.inUse) return false;
  return block.freed?.stream === next.freed?.stream;
}

/** Returns the item of work that is last in its stream. All items must be work of the same stream. */
export function latestOf(works: readonly Work[]): Work | undefined {
  return works.reduce<Work | undefined>(
    (latest, work) => latest === undefined || work.position > latest.position ? work : latest,
    undefined,
  );
}

/** Returns whether the work that frees the block, if there is any, is done. */
export function isDone({ freed }: PoolBlock): boolean {
  return freed?.done !== false;
}

/**
 * The end of a pool's address space, in bytes. Larger than any file, because freed units that importers have mapped
 * also occupy address space.
 */
const spaceEnd = 2 ** 40;

/**
 * Allocates whole units of a pool's address space. If the pool has a file, an offset in the space is an offset in the
 * file.
 */
export class PoolSpace {
  readonly #file: SharedFile | undefined;
  readonly #ranges = new RangeAllocator({ begin: poolFileHeaderByteLength, end: spaceEnd });
  /** The highest end offset of all units that have ever been allocated. */
  #end = poolFileHeaderByteLength;
  /** Ranges of freed units that an importer may still have mapped. */
  #freed: Range[] = [];

  constructor(file: SharedFile | undefined) {
    this.#file = file;
  }

  /** Returns the range of those units that lie completely within a range. The result is empty if there are none. */
  static wholeUnits({ begin, end }: Range): Range {
    const first = Math.ceil((begin - poolFileHeaderByteLength) / unitByteLength);
    const last = Math.floor((end - poolFileHeaderByteLength) / unitByteLength);
    return {
      begin: poolFileHeaderByteLength + first * unitByteLength,
      end: poolFileHeaderByteLength + Math.max(first, last) * unitByteLength,
    };
  }

  /** Allocates whole units. Returns the offset of the first one, or undefined if there is no room. */
  allocate(byteLength: number): number | undefined {
    const first = this.#ranges.allocate(byteLength);
    if (first !== undefined && (first + byteLength <= this.#end || this.#freed.length === 0)) {
      this.#end = Math.max(this.#end, first + byteLength);
      return first;
    }
    // First reclaims freed units, so that the file may not have to grow.
    if (first !== undefined) this.#ranges.free(first, byteLength);
    this.reclaim();
    const offset = this.#ranges.allocate(byteLength);
    if (offset !== undefined) this.#end = Math.max(this.#end, offset + byteLength);
    return offset;
  }

  /** Frees whole units. They can be allocated again when `reclaim` finds that no importer has them mapped. */
  free(units: Range): void {
    this.#freed.push(units);
  }

  /**
   * Reclaims the freed units that no importer has mapped: returns their memory to the system, and makes the units
   * available for allocation.
   */
  reclaim(): void {
    if (this.#freed.length === 0) return;
    const freed = this.#freed;
    this.#freed = [];
    for (const { begin, end } of freed) {
      if (this.#tryReclaim({ begin, end })) continue;
      for (let unit = begin; unit < end; unit += unitByteLength) {
        const range = { begin: unit, end: unit + unitByteLength };
        if (end - begin === unitByteLength || !this.#tryReclaim(range)) this.#freed.push(range);
      }
    }
  }

  /** Reclaims a range of freed units. Returns false if an importer has mapped a part of it. */
  #tryReclaim(range: Range): boolean {
    if (this.#file !== undefined && isLeased(this.#file, range)) return false;
    const byteLength = range.end - range.begin;
    this.#file?.punchHole(range.begin, byteLength);
    this.#ranges.free(range.begin, byteLength);
    return true;
  }
}
