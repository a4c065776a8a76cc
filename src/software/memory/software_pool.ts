import { memAccessFlags } from "../../driver.ts";
import { PoolSpace, unitByteLength } from "./pool_space.ts";
import type { FileMapping, SharedFile } from "./shared_file.ts";
import { atNextTurn } from "../../support/waiting/turn.ts";
import type { Scheduler, Stream, Work } from "../execution/streams.ts";
import { granuleByteLength, type LinearMemory, type PageHolder } from "./linear_memory.ts";

/** What it takes to use a free block that another stream has yet to free; 0 is nothing. */
const internalDependency = 1;

/** A part of what a pool has reserved in linear memory, in use or free. Its neighbours touch it. */
export interface PoolBlock {
  readonly begin: number;
  /** Where it lies in the pool's space, and so in its file. */
  readonly offset: number;
  /** A multiple of the granule. */
  byteLength: number;
  inUse: boolean;
  /** The free after which the block may be used again; undefined once a synchronization has seen it done. */
  freed: Work | undefined;
  previous: PoolBlock | undefined;
  next: PoolBlock | undefined;
}

/** Bytes, as `cudaMemPoolAttr` counts them. */
export interface PoolCounters {
  reserved: number;
  reservedHigh: number;
  used: number;
  usedHigh: number;
}

/** What a pool needs of its driver. */
export interface PoolHost {
  readonly linearMemory: LinearMemory;
  readonly scheduler: Scheduler;
}

/** A stream-ordered pool of a software device. */
export class SoftwarePool implements PageHolder {
  /** Undefined for memory of the host, which no device has access to at first. */
  readonly device: number | undefined;
  readonly id: string;
  readonly handleTypes: number;
  /** Where the memory lies when another process may map it. */
  readonly file: SharedFile | undefined;
  readonly reuse = { followEventDependencies: true, allowOpportunistic: true, allowInternalDependencies: true };
  readonly usage: PoolCounters = { reserved: 0, reservedHigh: 0, used: 0, usedHigh: 0 };
  /** `memAccessFlags` by device. */
  readonly access: Map<number, number>;
  /** Bytes kept reserved at a synchronization. */
  releaseThreshold = 0n;
  readonly #host: PoolHost;
  readonly #maxByteLength: number;
  readonly #space: PoolSpace;
  readonly #free = new Set<PoolBlock>();
  readonly #inUse = new Set<PoolBlock>();
  /** What streams have reached and not yet its free: bytes that were asked for, by where they begin. */
  readonly #live = new Map<number, number>();
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
    this.#maxByteLength = roundUp(maxByteLength, unitByteLength);
    this.file = file;
    this.#space = new PoolSpace(file);
    this.access = new Map(device === undefined ? [] : [[device, memAccessFlags.readWrite]]);
    host.linearMemory.addPageHolder(this);
  }

  /** A block that may be used in the stream's order, or undefined where there is no memory left. */
  allocate(byteLength: number, stream: Stream): PoolBlock | undefined {
    const rounded = roundUp(byteLength, granuleByteLength);
    const found = this.#findFree(rounded, stream, 0) ?? this.#reserve(rounded) ??
      this.#findFree(rounded, stream, internalDependency) ?? this.#reserveAnew(rounded);
    if (found === undefined) return undefined;
    const block = this.#take(found, rounded);
    const { begin, freed } = block;
    block.freed = undefined;
    block.inUse = true;
    this.#inUse.add(block);
    this.usage.used += byteLength;
    this.usage.usedHigh = Math.max(this.usage.usedHigh, this.usage.used);
    // When the stream gets there, the block may have been freed and allocated again: it says nothing of this allocation.
    this.#host.scheduler.enqueue(stream, () => this.#open(begin, byteLength), {
      after: freed === undefined || freed.stream === stream ? [] : [freed],
      outlivesDevice: true,
    });
    return block;
  }

  /** Frees a block, of which `byteLength` bytes were asked for, in the stream's order. */
  free({ block, byteLength }: { readonly block: PoolBlock; readonly byteLength: number }, stream: Stream): Work {
    const { begin } = block;
    block.inUse = false;
    this.#inUse.delete(block);
    this.usage.used -= byteLength;
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

  setAccess(device: number, flags: number): void {
    this.access.set(device, flags);
    for (const [begin, byteLength] of this.#live) {
      if (flags === memAccessFlags.none) this.#host.linearMemory.deny(device, begin, byteLength);
      else this.#host.linearMemory.allow(device, begin, byteLength);
    }
  }

  /** After a synchronization of the host: what was freed by then may go to any stream, or back to the system. */
  settle(): void {
    for (const block of [...this.#free]) {
      if (block.freed?.done !== true) continue;
      block.freed = undefined;
      this.#join(block);
    }
    this.#reduceTo(this.#isDestroyed ? 0 : Number(this.releaseThreshold));
    if (this.#isDestroyed && this.usage.reserved === 0) this.#close();
  }

  /** Gives reserved memory that is free back, but for `byteLength` bytes in whole units: so many that it overflows are 0. */
  trimTo(byteLength: bigint): void {
    const unit = BigInt(unitByteLength);
    this.#releaseTo(Number(BigInt.asUintN(64, (byteLength + unit - 1n) / unit * unit)));
    this.#space.settle();
  }

  releaseUnused(): void {
    this.#reduceTo(0);
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
    this.#forgetUses();
    this.#reduceTo(0);
    this.#close();
  }

  /** Makes one free block of all that was reserved together. */
  #forgetUses(): void {
    for (const block of [...this.#inUse, ...this.#free]) {
      block.inUse = false;
      block.freed = undefined;
      this.#free.add(block);
    }
    this.#inUse.clear();
    for (const block of this.#free) this.#join(block);
  }

  #deny(begin: number, byteLength: number): void {
    for (const device of this.access.keys()) this.#host.linearMemory.deny(device, begin, byteLength);
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#host.linearMemory.removePageHolder(this);
    this.file?.close();
  }

  /** The free that has just been done is marked so only after its work returns. */
  #settleLater(): void {
    atNextTurn(() => this.settle());
  }

  #open(begin: number, byteLength: number): void {
    this.#live.set(begin, byteLength);
    for (const [device, flags] of this.access) {
      if (flags !== memAccessFlags.none) this.#host.linearMemory.allow(device, begin, byteLength);
    }
  }

  /** The smallest free block that takes no more than `maxRank` to use, and of those the one that takes least. */
  #findFree(byteLength: number, stream: Stream, maxRank: number): PoolBlock | undefined {
    let best: PoolBlock | undefined;
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
  #reuseRank(block: PoolBlock, stream: Stream): number {
    const { freed } = block;
    if (freed === undefined || freed.stream === stream) return 0;
    if (this.reuse.followEventDependencies && this.#host.scheduler.comesAfter(stream, freed)) return 0;
    if (this.reuse.allowOpportunistic && freed.done) return 0;
    return this.reuse.allowInternalDependencies ? internalDependency : Infinity;
  }

  #take(block: PoolBlock, byteLength: number): PoolBlock {
    if (block.byteLength > byteLength) this.#split(block, byteLength);
    this.#free.delete(block);
    return block;
  }

  /** Cuts a free block in two, and gives the second. */
  #split(block: PoolBlock, byteLength: number): PoolBlock {
    const { begin, offset, freed, next } = block;
    const rest: PoolBlock = {
      begin: begin + byteLength,
      offset: offset + byteLength,
      byteLength: block.byteLength - byteLength,
      inUse: false,
      freed,
      previous: block,
      next,
    };
    if (next !== undefined) next.previous = rest;
    block.next = rest;
    block.byteLength = byteLength;
    this.#free.add(rest);
    return rest;
  }

  /** Joins a free block with its free neighbours that may be used under the same condition. */
  #join(block: PoolBlock): void {
    if (block.next !== undefined && mayJoin(block, block.next)) this.#absorb(block, block.next);
    if (block.previous !== undefined && mayJoin(block.previous, block)) this.#absorb(block.previous, block);
  }

  #absorb(block: PoolBlock, next: PoolBlock): void {
    block.byteLength += next.byteLength;
    block.next = next.next;
    if (next.next !== undefined) next.next.previous = block;
    if (next.freed !== undefined && next.freed.position > (block.freed?.position ?? 0)) block.freed = next.freed;
    this.#free.delete(next);
  }

  #reserve(byteLength: number): PoolBlock | undefined {
    const { linearMemory } = this.#host;
    const length = roundUp(byteLength, unitByteLength);
    if (length > this.#maxByteLength - this.usage.reserved) return undefined;
    const begin = linearMemory.reserve(length);
    if (begin === undefined) return undefined;
    const offset = this.#space.allocate(length);
    if (offset === undefined || !this.#map({ begin, byteLength: length, fileOffset: offset })) {
      if (offset !== undefined) this.#space.free({ begin: offset, end: offset + length });
      // A mapping that failed may have left a hole in linear memory.
      linearMemory.giveBack(begin, length, { isShared: this.file !== undefined });
      return undefined;
    }
    this.usage.reserved += length;
    this.usage.reservedHigh = Math.max(this.usage.reservedHigh, this.usage.reserved);
    const links = { previous: undefined, next: undefined };
    const block: PoolBlock = { begin, offset, byteLength: length, inUse: false, freed: undefined, ...links };
    this.#free.add(block);
    return block;
  }

  /** Reserves memory once more, after what is free in pieces too small was given back. */
  #reserveAnew(byteLength: number): PoolBlock | undefined {
    const { reserved } = this.usage;
    this.#reduceTo(0);
    return this.usage.reserved < reserved ? this.#reserve(byteLength) : undefined;
  }

  #map(mapping: FileMapping): boolean {
    return this.file === undefined || this.file.tryMap(this.#host.linearMemory, mapping);
  }

  /** Gives units that are free back, until no more than `byteLength` bytes are reserved. */
  #reduceTo(byteLength: number): void {
    const { reserved } = this.usage;
    this.#releaseTo(byteLength);
    if (this.usage.reserved < reserved) this.#space.settle();
  }

  /** Takes units that are free out of linear memory likewise. Those that importers have mapped are not settled yet. */
  #releaseTo(byteLength: number): void {
    for (const block of this.#free) {
      const surplus = roundUp(this.usage.reserved - byteLength, unitByteLength);
      if (surplus <= 0) return;
      if (block.freed === undefined) this.#release(block, surplus);
    }
  }

  /** Gives the units that lie in a free block back, at most `byteLength` bytes; what is left of it stays. */
  #release(block: PoolBlock, byteLength: number): void {
    const { begin, end } = PoolSpace.wholeUnits({ begin: block.offset, end: block.offset + block.byteLength });
    const length = Math.min(end - begin, byteLength);
    if (length === 0) return;
    const released = begin > block.offset ? this.#split(block, begin - block.offset) : block;
    if (released.byteLength > length) this.#split(released, length);
    this.#free.delete(released);
    if (released.previous !== undefined) released.previous.next = undefined;
    if (released.next !== undefined) released.next.previous = undefined;
    this.usage.reserved -= length;
    this.#host.linearMemory.giveBack(released.begin, length, { isShared: this.file !== undefined });
    this.#space.free({ begin, end: begin + length });
  }
}

function mayJoin(block: PoolBlock, next: PoolBlock): boolean {
  if (block.inUse || next.inUse) return false;
  return block.freed?.stream === next.freed?.stream;
}

function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}
