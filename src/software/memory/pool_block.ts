import type { Work } from "../execution/streams/streams.ts";
import { unitByteLength } from "./pool_file.ts";
import { PoolSpace } from "./pool_space.ts";

/** A part of a pool's reserved memory, in use or free. `previous` and `next` are the adjacent blocks. */
export interface PoolBlock {
  readonly begin: number;
  /** The offset in the pool's space, and thus in its file. */
  readonly offset: number;
  /** A multiple of the granule. */
  byteLength: number;
  inUse: boolean;
  /** The work that frees the block. Undefined once a synchronization has found that work done. */
  freed: Work | undefined;
  previous: PoolBlock | undefined;
  next: PoolBlock | undefined;
}

/** Adjacent free blocks, in address order. */
export type Run = readonly [PoolBlock, ...PoolBlock[]];

/** Returns the longest runs of free blocks that may all be reused. */
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

/** Returns the size of whole units that hold `byteLength` bytes. */
export function wholeUnits(byteLength: number): number {
  return roundUp(byteLength, unitByteLength);
}

/** Rounds a size up to a multiple. */
export function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}

/** Whether two adjacent blocks are free and may be reused under the same condition. */
export function canMerge(block: PoolBlock, next: PoolBlock): boolean {
  if (block.inUse || next.inUse) return false;
  return block.freed?.stream === next.freed?.stream;
}

/** Returns the work that comes last, of work of one stream. */
export function latestOf(works: readonly Work[]): Work | undefined {
  return works.reduce<Work | undefined>(
    (latest, work) => latest === undefined || work.position > latest.position ? work : latest,
    undefined,
  );
}

/** Whether all work before the free of a block is done. */
export function isDone({ freed }: PoolBlock): boolean {
  return freed?.done !== false;
}
