import { memAccessFlags } from "../driver.ts";
import { RangeAllocator } from "./range_allocator.ts";
import { poolFileHeaderByteLength } from "./pool_file.ts";
import type { SharedFile } from "./shared_file.ts";
import { atNextTurn } from "../turn.ts";
import type { Scheduler, Stream, Work } from "./streams.ts";
import { granuleByteLength, type Window, windowByteLength } from "./window.ts";

const segmentByteLength = 32 * 2 ** 20;
const segmentGranularity = 2 * 2 ** 20;

/** What it takes to use a free block that another stream has yet to free; 0 is nothing. */
const internalDependency = 1;

/** Memory that a pool has reserved in the window, cut into blocks that touch one another. */
interface Segment {
  readonly begin: number;
  readonly byteLength: number;
  /** Where it lies in the pool's file. */
  readonly fileOffset: number;
  first: Block;
}

/** A part of a segment, in use or free. */
export interface Block {
  readonly segment: Segment;
  readonly begin: number;
  /** A multiple of the granule. */
  byteLength: number;
  inUse: boolean;
  /** The free after which the block may be used again; undefined once a synchronization has seen it done. */
  freed: Work | undefined;
  previous: Block | undefined;
  next: Block | undefined;
}

/** Bytes, as `cudaMemPoolAttr` counts them. */
export interface PoolUsage {
  reserved: number;
  reservedHigh: number;
  used: number;
  usedHigh: number;
}

/** What a pool needs of its driver. */
export interface PoolHost {
  readonly window: Window;
  readonly scheduler: Scheduler;
}

/** A stream-ordered pool of a software device. */
export class SoftwarePool {
  /** Undefined for memory of the host, which no device has access to at first. */
  readonly device: number | undefined;
  readonly id: string;
  readonly handleTypes: number;
  /** Where the memory lies when another process may map it. */
  readonly file: SharedFile | undefined;
  readonly reuse = { followEventDependencies: true, allowOpportunistic: true, allowInternalDependencies: true };
  readonly usage: PoolUsage = { reserved: 0, reservedHigh: 0, used: 0, usedHigh: 0 };
  /** `memAccessFlags` by device. */
  readonly access: Map<number, number>;
  /** Bytes kept reserved at a synchronization. */
  releaseThreshold = 0n;
  readonly #host: PoolHost;
  readonly #maxByteLength: number;
  readonly #segments = new Set<Segment>();
  readonly #free = new Set<Block>();
  readonly #inUse = new Set<Block>();
  /** What streams have reached and not yet its free: bytes that were asked for, by where they begin. */
  readonly #live = new Map<number, number>();
  readonly #fileRanges = new RangeAllocator({ begin: poolFileHeaderByteLength, end: windowByteLength });
  /** Whether it was destroyed and the last of its memory is gone. */
  isClosed = false;
  /** Whether its handle was exported, without which no pointer is. */
  isExported = false;
  #isDestroyed = false;

  constructor(
    host: PoolHost,
    { device, id, handleTypes, maxByteLength, file }: {
      device: number | undefined;
      id: string;
      handleTypes: number;
      maxByteLength: number;
      file: SharedFile | undefined;
    },
  ) {
    this.#host = host;
    this.device = device;
    this.id = id;
    this.handleTypes = handleTypes;
    this.#maxByteLength = maxByteLength;
    this.file = file;
    this.access = new Map(device === undefined ? [] : [[device, memAccessFlags.readWrite]]);
  }

  /** A block that may be used in the stream's order, or undefined where there is no memory left. */
  allocate(byteLength: number, stream: Stream): Block | undefined {
    const rounded = roundUp(byteLength, granuleByteLength);
    const found = this.#findFree(rounded, stream, 0) ?? this.#reserve(rounded) ??
      this.#findFree(rounded, stream, internalDependency) ?? this.#reserveAnew(rounded);
    if (found === undefined) return undefined;
    const block = this.#take(found, rounded);
    const { begin, freed } = block;
    block.freed = undefined;
    block.inUse = true;
    this.#inUse.add(block);
    this.usage.used += rounded;
    this.usage.usedHigh = Math.max(this.usage.usedHigh, this.usage.used);
    // When the stream gets there, the block may have been freed and allocated again: it says nothing of this allocation.
    this.#host.scheduler.enqueue(stream, () => this.#open(begin, byteLength), {
      after: freed === undefined || freed.stream === stream ? [] : [freed],
      outlivesDevice: true,
    });
    return block;
  }

  /** Frees a block, of which `byteLength` bytes were asked for, in the stream's order. */
  free({ block, byteLength }: { readonly block: Block; readonly byteLength: number }, stream: Stream): Work {
    const { begin } = block;
    block.inUse = false;
    this.#inUse.delete(block);
    this.usage.used -= block.byteLength;
    block.freed = this.#host.scheduler.enqueue(stream, () => {
      this.#live.delete(begin);
      this.#deny(begin, byteLength);
      if (this.#isDestroyed) this.#settleLater();
    }, { outlivesDevice: true });
    const { freed } = block;
    this.#free.add(block);
    this.#join(block);
    return freed;
  }

  /** The block's place in the pool's file. */
  fileOffsetOf(block: Block): number {
    return block.segment.fileOffset + block.begin - block.segment.begin;
  }

  setAccess(device: number, flags: number): void {
    this.access.set(device, flags);
    for (const [begin, byteLength] of this.#live) {
      if (flags === memAccessFlags.none) this.#host.window.deny(device, begin, byteLength);
      else this.#host.window.allow(device, begin, byteLength);
    }
  }

  /** After a synchronization of the host: what was freed by then may go to any stream, or back to the system. */
  settle(): void {
    for (const block of [...this.#free]) {
      if (block.freed?.done !== true) continue;
      block.freed = undefined;
      this.#join(block);
    }
    const threshold = this.#isDestroyed ? 0n : this.releaseThreshold;
    if (BigInt(this.usage.reserved) > threshold) this.trimTo(Number(threshold));
    if (this.#isDestroyed && this.#inUse.size === 0 && this.#segments.size === 0) this.#close();
  }

  /** Gives reserved memory that is free back, until no more than `byteLength` bytes are reserved. */
  trimTo(byteLength: number): void {
    for (const segment of [...this.#segments]) {
      if (this.usage.reserved <= byteLength) return;
      const { first } = segment;
      if (!first.inUse && first.freed === undefined && first.next === undefined) this.#release(segment);
    }
  }

  /** The pool goes; what is allocated from it stays until it is freed. */
  destroy(): void {
    this.#isDestroyed = true;
    this.settle();
  }

  /** Gives everything back at once: the driver goes. */
  close(): void {
    for (const [begin, byteLength] of this.#live) this.#deny(begin, byteLength);
    this.#live.clear();
    for (const segment of [...this.#segments]) this.#release(segment);
    this.#close();
  }

  #deny(begin: number, byteLength: number): void {
    for (const device of this.access.keys()) this.#host.window.deny(device, begin, byteLength);
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.file?.close();
  }

  /** The free that has just been done is marked so only after its work returns. */
  #settleLater(): void {
    atNextTurn(() => this.settle());
  }

  #open(begin: number, byteLength: number): void {
    this.#live.set(begin, byteLength);
    for (const [device, flags] of this.access) {
      if (flags !== memAccessFlags.none) this.#host.window.allow(device, begin, byteLength);
    }
  }

  /** The smallest free block that takes no more than `maxRank` to use, and of those the one that takes least. */
  #findFree(byteLength: number, stream: Stream, maxRank: number): Block | undefined {
    let best: Block | undefined;
    let bestRank = Infinity;
    for (const block of this.#free) {
      if (block.byteLength < byteLength) continue;
      const rank = this.#reuseRank(block, stream);
      if (rank > bestRank || rank > maxRank) continue;
      if (rank < bestRank || block.byteLength < best!.byteLength) {
        best = block;
        bestRank = rank;
      }
    }
    return best;
  }

  /** How much it takes to use a free block on the stream: nothing, or a wait; Infinity where it may not be used. */
  #reuseRank(block: Block, stream: Stream): number {
    const { freed } = block;
    if (freed === undefined || freed.stream === stream) return 0;
    if (this.reuse.followEventDependencies && this.#host.scheduler.comesAfter(stream, freed)) return 0;
    if (this.reuse.allowOpportunistic && freed.done) return 0;
    return this.reuse.allowInternalDependencies ? internalDependency : Infinity;
  }

  #take(block: Block, byteLength: number): Block {
    this.#free.delete(block);
    if (block.byteLength > byteLength) {
      const rest: Block = {
        segment: block.segment,
        begin: block.begin + byteLength,
        byteLength: block.byteLength - byteLength,
        inUse: false,
        freed: block.freed,
        previous: block,
        next: block.next,
      };
      if (block.next !== undefined) block.next.previous = rest;
      block.next = rest;
      block.byteLength = byteLength;
      this.#free.add(rest);
    }
    return block;
  }

  /** Joins a free block with its free neighbours that may be used under the same condition. */
  #join(block: Block): void {
    if (block.next !== undefined && mayJoin(block, block.next)) this.#absorb(block, block.next);
    if (block.previous !== undefined && mayJoin(block.previous, block)) this.#absorb(block.previous, block);
  }

  #absorb(block: Block, next: Block): void {
    block.byteLength += next.byteLength;
    block.next = next.next;
    if (next.next !== undefined) next.next.previous = block;
    if (next.freed !== undefined && next.freed.position > (block.freed?.position ?? 0)) block.freed = next.freed;
    this.#free.delete(next);
  }

  #reserve(byteLength: number): Block | undefined {
    const left = this.#maxByteLength - this.usage.reserved;
    const exact = roundUp(byteLength, segmentGranularity);
    for (const length of [Math.max(segmentByteLength, exact), exact]) {
      const segment = length <= left ? this.#reserveSegment(length) : undefined;
      if (segment !== undefined) return segment.first;
    }
    return undefined;
  }

  /** Reserves memory once more, after what is free in pieces too small was given back. */
  #reserveAnew(byteLength: number): Block | undefined {
    const { reserved } = this.usage;
    this.trimTo(0);
    return this.usage.reserved < reserved ? this.#reserve(byteLength) : undefined;
  }

  #reserveSegment(byteLength: number): Segment | undefined {
    const { window } = this.#host;
    const begin = window.reserve(byteLength);
    if (begin === undefined) return undefined;
    let fileOffset = 0;
    if (this.file !== undefined) {
      const offset = this.#fileRanges.allocate(byteLength);
      if (offset === undefined || !this.file.tryMap(window, { begin, byteLength, fileOffset: offset })) {
        if (offset !== undefined) this.#fileRanges.free(offset, byteLength);
        window.release(begin, byteLength);
        return undefined;
      }
      fileOffset = offset;
    }
    const segment = { begin, byteLength, fileOffset } as Segment;
    segment.first = {
      segment,
      begin,
      byteLength,
      inUse: false,
      freed: undefined,
      previous: undefined,
      next: undefined,
    };
    this.#segments.add(segment);
    this.#free.add(segment.first);
    this.usage.reserved += byteLength;
    this.usage.reservedHigh = Math.max(this.usage.reservedHigh, this.usage.reserved);
    return segment;
  }

  #release(segment: Segment): void {
    for (let block: Block | undefined = segment.first; block !== undefined; block = block.next) {
      this.#free.delete(block);
      this.#inUse.delete(block);
    }
    this.#segments.delete(segment);
    this.usage.reserved -= segment.byteLength;
    this.file?.punchHole(segment.fileOffset, segment.byteLength);
    if (this.file !== undefined) this.#fileRanges.free(segment.fileOffset, segment.byteLength);
    this.#host.window.giveBack(segment.begin, segment.byteLength, { isShared: this.file !== undefined });
  }
}

function mayJoin(block: Block, next: Block): boolean {
  if (block.inUse || next.inUse) return false;
  return block.freed?.stream === next.freed?.stream;
}

function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}
