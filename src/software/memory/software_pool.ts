import { memAccessFlags, type MemLocation, memLocationType } from "../../driver.ts";
import {
  byteLengthOfRun,
  canMerge,
  type FreeRun,
  freeRunsOf,
  isDone,
  latestOf,
  type PoolBlock,
  PoolSpace,
  roundUpToSteps,
  roundUpToUnits,
  stepByteLength,
  unitsOf,
} from "./pool_space.ts";
import type { FileMapping, SharedFile } from "./shared_file.ts";
import { atNextTurn } from "../../support/waiting/waiting.ts";
import { roundUp } from "../../support/rounding.ts";
import { type Delegated, passing, type Scheduler, type Stream, type Work } from "../execution/streams.ts";
import type { LaunchSharing } from "../execution/workers/shared_launch.ts";
import { accessTo, SharedTransfer } from "../execution/workers/shared_transfer.ts";
import type { LinearMemory, PageHolder } from "./linear_memory.ts";
import { granuleByteLength } from "./memory_layout.ts";
import type { AccessChange } from "./access.ts";

/**
 * The cost of reusing a block if the stream must first wait for another stream to free the block. Without a wait, the
 * cost is 0.
 */
const internalDependency = 1;

/**
 * The maximum time in milliseconds, since work last ended, for which pending work is run so that replaced units can be
 * released. A limit is needed because work that waits for the host never ends.
 */
const longestWorkMilliseconds = 1000;

/** The values of the pool attributes (`cudaMemPoolAttr`) that are byte counts. */
export interface PoolCounters {
  reserved: number;
  reservedHigh: number;
  used: number;
  usedHigh: number;
}

/** The parts of the driver that a pool uses. */
export interface PoolServices {
  readonly linearMemory: LinearMemory;
  readonly scheduler: Scheduler;
  /** Returns how other threads can run work now. Undefined if they cannot. */
  readonly sharing: () => LaunchSharing | undefined;
}

/** A pool of a software device for stream-ordered allocation. */
export class SoftwarePool implements PageHolder {
  /**
   * The ordinal of the device whose memory the pool provides. Undefined for managed memory, and for host memory, to
   * which initially no device has access.
   */
  readonly device: number | undefined;
  /** The location that the pool was created for, with the id 0 if the type has none. */
  readonly location: MemLocation;
  /** Whether the pool provides managed memory. */
  readonly isManaged: boolean;
  readonly id: string;
  readonly handleTypes: number;
  /** The file that contains the pool's memory. Undefined if other processes cannot map the memory. */
  readonly file: SharedFile | undefined;
  /** The reason why a pool with fabric handles has no file and cannot be exported: there is no usable fabric. */
  readonly refusal: string | undefined;
  readonly reuse = { followEventDependencies: true, allowOpportunistic: true, allowInternalDependencies: true };
  /** The values of `reserved` and `reservedHigh` are rounded up to whole steps. */
  readonly usage: PoolCounters = { reserved: 0, reservedHigh: 0, used: 0, usedHigh: 0 };
  /** For each device, the access that its kernels have, one of `memAccessFlags`. */
  readonly access: Map<number, number>;
  /**
   * For each device, the access that CUDA reports. For managed memory, which all devices access, it is what the program
   * has set.
   */
  readonly reportedAccess: Map<number, number>;
  /**
   * The number of unused bytes that may stay reserved when the host synchronizes. Bytes above this threshold are
   * released.
   */
  releaseThreshold = 0n;
  readonly #services: PoolServices;
  readonly #maxByteLength: number;
  /** Bytes of the reserved units. */
  #reservedByteLength = 0;
  readonly #space: PoolSpace;
  readonly #free = new Set<PoolBlock>();
  readonly #inUse = new Set<PoolBlock>();
  /**
   * Free units that were replaced by a new reservation. They no longer count as reserved, but pending work may still
   * use them.
   */
  readonly #replaced = new Set<PoolBlock>();
  /**
   * The requested size in bytes of each live allocation, by start offset. An entry is added when the stream reaches the
   * allocation, and removed when the stream reaches the free.
   */
  readonly #live = new Map<number, number>();
  /** The number of allocations and frees that other threads make, and that `#live` does not have yet. */
  #delegatedChanges = 0;
  /** Whether the pool was destroyed and all its memory was released. */
  isClosed = false;
  /** Whether the pool's own handle was exported. Only then can pointers be exported. */
  isExported = false;
  #isDestroyed = false;

  constructor(
    services: PoolServices,
    { location, managedFor, id, handleTypes, maxByteLength, file, refusal }: {
      location: MemLocation;
      /** The number of devices that access the memory if it is managed; undefined if it is not. */
      managedFor: number | undefined;
      id: string;
      handleTypes: number;
      maxByteLength: number;
      file: SharedFile | undefined;
      refusal?: string | undefined;
    },
  ) {
    this.#services = services;
    const isManaged = managedFor !== undefined;
    const device = location.type === memLocationType.device && !isManaged ? location.id : undefined;
    this.device = device;
    this.location = location;
    this.isManaged = isManaged;
    this.id = id;
    this.handleTypes = handleTypes;
    this.#maxByteLength = roundUpToSteps(maxByteLength);
    this.file = file;
    this.refusal = refusal;
    this.#space = new PoolSpace(file);
    const devices = isManaged ? Array.from({ length: managedFor }, (_, device) => device) : [device];
    this.access = new Map(
      devices.flatMap((device) => device === undefined ? [] : [[device, memAccessFlags.readWrite]] as const),
    );
    this.reportedAccess = isManaged ? new Map() : this.access;
    services.linearMemory.addPageHolder(this);
  }

  /** Allocates a block in stream order. Returns undefined if the pool cannot reserve enough memory. */
  allocate(byteLength: number, stream: Stream): PoolBlock | undefined {
    const rounded = roundUp(byteLength, granuleByteLength);
    // Only then is it known which memory other streams have freed.
    if (this.#delegatedChanges > 0) this.#services.scheduler.endDone();
    const found = this.#findFree(rounded, stream, 0) ?? this.#reserve(rounded) ??
      this.#combineFree(rounded, stream, 0) ?? this.#findFree(rounded, stream, internalDependency) ??
      this.#combineFree(rounded, stream, internalDependency);
    if (found === undefined) return undefined;
    const block = this.#claim(found, rounded);
    const { begin, freed } = block;
    block.freed = undefined;
    block.inUse = true;
    this.#inUse.add(block);
    this.usage.used += byteLength;
    this.usage.usedHigh = Math.max(this.usage.usedHigh, this.usage.used);
    // The change must not refer to `block`, which may belong to a later allocation when the stream reaches this one.
    const after = freed === undefined || freed.stream === stream ? [] : [freed];
    this.#enqueueChange(stream, { begin, byteLength, isAllowed: true }, after);
    return block;
  }

  /** Returns whether the pool's maximum size leaves no room for `byteLength` more bytes. */
  isAtLimit(byteLength: number): boolean {
    return this.usage.used + byteLength > this.#maxByteLength;
  }

  /** Frees a block in stream order. `byteLength` is the size with which the block was requested. */
  free({ block, byteLength }: { readonly block: PoolBlock; readonly byteLength: number }, stream: Stream): Work {
    const { begin } = block;
    block.inUse = false;
    this.#inUse.delete(block);
    this.usage.used -= byteLength;
    const freed = block.freed = this.#enqueueChange(stream, { begin, byteLength, isAllowed: false });
    this.#free.add(block);
    this.#merge(block);
    return freed;
  }

  /**
   * Enqueues an allocation or a free: a change of the access of the pool's devices to a range, after work of other streams.
   * Other threads make the change if at most one device has access, so that a stream which allocates and frees goes on
   * without the main thread.
   */
  #enqueueChange(stream: Stream, change: AccessChange, after: readonly Work[] = []): Work {
    const { scheduler, sharing } = this.#services;
    const run = () => {
      if (change.isAllowed) this.#allow(change);
      else this.#deny(change);
      this.#noteChange(change);
    };
    if (sharing()?.workers.areReady !== true) return scheduler.enqueue(stream, run, { after, outlivesDevice: true });
    let isDelegated = false;
    return scheduler.enqueue(stream, run, {
      after,
      outlivesDevice: true,
      delegate: (before) => {
        const delegated = this.#delegateChange(change, before);
        if (delegated !== undefined && !isDelegated) this.#delegatedChanges++;
        isDelegated ||= delegated !== undefined;
        return delegated;
      },
      release: () => {
        if (isDelegated) this.#delegatedChanges--;
      },
    });
  }

  /** Lets other threads make a change, after other work that they run. Returns undefined if they cannot. */
  #delegateChange(change: AccessChange, before: Delegated): Delegated | undefined {
    const { linearMemory, sharing } = this.#services;
    const found = sharing();
    const [device, ...others] = [...this.access].filter(([, flags]) => flags !== memAccessFlags.none);
    if (found === undefined || others.length > 0) return undefined;
    if (device === undefined) return passing(before);
    const transfer = accessTo(change, linearMemory.boundsTableOf(device[0]));
    return SharedTransfer.begin(transfer, { after: before.jobs, onEnd: () => this.#noteChange(change) }, found);
  }

  /** Notes that a stream has reached an allocation or a free. */
  #noteChange({ begin, byteLength, isAllowed }: AccessChange): void {
    if (isAllowed) {
      this.#live.set(begin, byteLength);
    } else {
      this.#live.delete(begin);
      if (this.#isDestroyed) this.#reclaimLater();
    }
  }

  setAccess(device: number, flags: number): void {
    // Other threads make changes with the access that the devices had when these were enqueued.
    this.#services.scheduler.runUntil(() => this.#delegatedChanges === 0);
    this.reportedAccess.set(device, flags);
    if (this.isManaged) return;
    for (const [begin, byteLength] of this.#live) {
      if (flags === memAccessFlags.none) this.#services.linearMemory.deny(device, begin, byteLength);
      else this.#services.linearMemory.allow(device, begin, byteLength);
    }
  }

  /**
   * Called after a host synchronization. Makes the blocks whose frees have completed available to every stream, and
   * releases reserved memory above the release threshold.
   */
  reclaim(): void {
    for (const block of [...this.#free]) {
      if (block.freed?.done !== true) continue;
      block.freed = undefined;
      this.#merge(block);
    }
    this.#reduceTo(this.#isDestroyed ? 0 : Number(this.releaseThreshold));
    if (this.#isDestroyed && this.usage.reserved === 0 && this.#replaced.size === 0) this.#close();
  }

  /**
   * Releases free memory until at most `byteLength` bytes, rounded up to whole steps, are reserved. As in 64-bit
   * arithmetic, rounding wraps to 0 on overflow.
   */
  trimTo(byteLength: bigint): void {
    const step = BigInt(stepByteLength);
    this.#releaseTo(Number(BigInt.asUintN(64, (byteLength + step - 1n) / step * step)));
    this.#space.reclaim();
  }

  releaseUnused(): void {
    this.#reduceTo(0);
  }

  /** Destroys the pool. Existing allocations stay valid until they are freed. */
  destroy(): void {
    this.#isDestroyed = true;
    this.reclaim();
  }

  /** Releases all memory when the driver closes. */
  close(): void {
    for (const [begin, byteLength] of this.#live) this.#deny({ begin, byteLength });
    this.#live.clear();
    this.#freeAllBlocks();
    for (const block of [...this.#replaced]) this.#releaseReplaced(block);
    this.#reduceTo(0);
    this.#close();
  }

  /** Frees all blocks, and merges each reservation into one free block. */
  #freeAllBlocks(): void {
    for (const block of [...this.#inUse, ...this.#free]) {
      block.inUse = false;
      block.freed = undefined;
      this.#free.add(block);
    }
    this.#inUse.clear();
    for (const block of this.#free) this.#merge(block);
  }

  #deny({ begin, byteLength }: Omit<AccessChange, "isAllowed">): void {
    for (const device of this.access.keys()) this.#services.linearMemory.deny(device, begin, byteLength);
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#services.linearMemory.removePageHolder(this);
    this.file?.close();
  }

  /**
   * Calls `reclaim` in the next turn of the event loop: the current work is marked as done only after its callback has
   * returned.
   */
  #reclaimLater(): void {
    atNextTurn(() => this.reclaim());
  }

  #allow({ begin, byteLength }: AccessChange): void {
    for (const [device, flags] of this.access) {
      if (flags !== memAccessFlags.none) this.#services.linearMemory.allow(device, begin, byteLength);
    }
  }

  /**
   * Returns the free block of sufficient size with the lowest reuse cost, which must be at most `maxCost`. If several
   * blocks have this cost, returns the smallest of them. If several are smallest, prefers a block that a stream has
   * freed. A GPU does the same.
   */
  #findFree(byteLength: number, stream: Stream, maxCost: number): PoolBlock | undefined {
    let best: PoolBlock | undefined;
    let bestCost = Infinity;
    for (const block of this.#free) {
      if (block.byteLength < byteLength) continue;
      const cost = this.#reuseCost(block, stream);
      if (cost > bestCost || cost > maxCost) continue;
      const saved = cost < bestCost ? 1 : best!.byteLength - block.byteLength;
      if (saved > 0 || (saved === 0 && best!.freed === undefined)) {
        best = block;
        bestCost = cost;
      }
    }
    return best;
  }

  /**
   * Returns the cost of reusing a free block on a stream: 0 without a wait for another stream, `internalDependency`
   * with such a wait, and Infinity if the block may not be reused.
   */
  #reuseCost(block: PoolBlock, stream: Stream): number {
    const { freed } = block;
    if (freed === undefined || freed.stream === stream) return 0;
    if (this.reuse.followEventDependencies && this.#services.scheduler.comesAfter(stream, freed)) return 0;
    if (this.reuse.allowOpportunistic && freed.done) return 0;
    return this.reuse.allowInternalDependencies ? internalDependency : Infinity;
  }

  #claim(block: PoolBlock, byteLength: number): PoolBlock {
    if (block.byteLength > byteLength) this.#split(block, byteLength);
    this.#free.delete(block);
    return block;
  }

  /** Splits a free block in two and returns the second part. */
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

  /** Merges a free block with adjacent free blocks that may be reused under the same condition; see `canMerge`. */
  #merge(block: PoolBlock): void {
    if (block.next !== undefined && canMerge(block, block.next)) this.#absorb(block, block.next);
    if (block.previous !== undefined && canMerge(block.previous, block)) this.#absorb(block.previous, block);
  }

  #absorb(block: PoolBlock, next: PoolBlock): void {
    block.byteLength += next.byteLength;
    block.next = next.next;
    if (next.next !== undefined) next.next.previous = block;
    if (next.freed !== undefined && next.freed.position > (block.freed?.position ?? 0)) block.freed = next.freed;
    this.#free.delete(next);
  }

  /** The number of bytes that the pool may still reserve, in addition to those that are already reserved. */
  get #room(): number {
    return this.#maxByteLength - this.#reservedByteLength;
  }

  /**
   * Reserves at least `byteLength` bytes. A pool without a maximum size first reserves no more than it needs, because
   * many pools stay small; after that, a pool reserves whole steps. If linear memory has no room for whole steps, the
   * pool reserves only what it needs.
   */
  #reserve(byteLength: number): PoolBlock | undefined {
    const needed = roundUpToUnits(byteLength);
    if (needed > this.#room) return undefined;
    const isFirst = this.#reservedByteLength === 0 && this.#maxByteLength === Infinity;
    if (!isFirst) {
      const wholeSteps = roundUpToSteps(this.#reservedByteLength + needed) - this.#reservedByteLength;
      const block = this.#reserveUnits(wholeSteps);
      if (block !== undefined || wholeSteps === needed) return block;
    }
    return this.#reserveUnits(needed);
  }

  #reserveUnits(length: number): PoolBlock | undefined {
    const { linearMemory } = this.#services;
    const begin = linearMemory.reserve(length) ?? this.#reserveReplaced(length);
    if (begin === undefined) return undefined;
    const offset = this.#space.allocate(length);
    if (offset === undefined || !this.#map({ begin, byteLength: length, fileOffset: offset })) {
      if (offset !== undefined) this.#space.free({ begin: offset, end: offset + length });
      // Fills the hole that a failed mapping may have left in linear memory.
      linearMemory.discardAndRelease(begin, length, { isShared: this.file !== undefined });
      return undefined;
    }
    this.#setReserved(this.#reservedByteLength + length);
    const links = { previous: undefined, next: undefined };
    const block: PoolBlock = { begin, offset, byteLength: length, inUse: false, freed: undefined, ...links };
    this.#free.add(block);
    return block;
  }

  /**
   * Runs pending work that still uses replaced units until linear memory has room for `byteLength` bytes. Returns
   * undefined if no work can run any longer and there is still no room, or if the work takes too long.
   */
  #reserveReplaced(byteLength: number): number | undefined {
    const { linearMemory, scheduler } = this.#services;
    let begin: number | undefined;
    let { size } = this.#replaced;
    scheduler.runWhileWorkEnds(() => {
      if (this.#replaced.size < size) begin = linearMemory.reserve(byteLength);
      size = this.#replaced.size;
      return begin !== undefined || size === 0;
    }, longestWorkMilliseconds);
    return begin;
  }

  #setReserved(byteLength: number): void {
    this.#reservedByteLength = byteLength;
    this.usage.reserved = roundUpToSteps(byteLength);
    this.usage.reservedHigh = Math.max(this.usage.reservedHigh, this.usage.reserved);
  }

  /**
   * Allocates a block when every free block is too small. Joins adjacent free blocks if their combined size suffices.
   * Otherwise, releases free units and reserves new ones. (A GPU would instead map the memory of the free units to new
   * addresses.) Uses only blocks whose reuse costs at most `maxCost`.
   */
  #combineFree(byteLength: number, stream: Stream, maxCost: number): PoolBlock | undefined {
    const runs = freeRunsOf(this.#free, (block) => this.#reuseCost(block, stream) <= maxCost);
    const run = runs.find((run) => byteLengthOfRun(run) >= byteLength);
    if (run !== undefined) return this.#join(run, stream);
    const needed = roundUpToUnits(byteLength);
    const available = runs.reduce((sum, run) => sum + unitsOf(run), 0);
    if (available === 0 || needed > this.#room + available) return undefined;
    // If the new units would not exceed the pool's maximum size, they could not be reserved because linear memory is
    // full. In this case, only units without pending work are replaced, because only those can be released immediately.
    const isLimited = needed > this.#room;
    // Units without pending work come first, because their memory is released at once. Short runs come first, so that
    // long runs of free memory are not split into ever shorter ones.
    runs.sort((one, other) => Number(other.every(isDone)) - Number(one.every(isDone)) || unitsOf(one) - unitsOf(other));
    for (const run of runs) {
      if (isLimited ? needed <= this.#room : !run.every(isDone)) continue;
      if (unitsOf(run) > 0) this.#replace(this.#join(run, stream), isLimited ? needed - this.#room : Infinity, stream);
    }
    this.#space.reclaim();
    return this.#reserve(byteLength);
  }

  /**
   * Merges a run of adjacent free blocks into a block for a stream, which waits for other streams' frees if necessary.
   */
  #join(run: FreeRun, stream: Stream): PoolBlock {
    const frees = run.map(({ freed }) => freed).filter((freed) => freed !== undefined);
    const after = frees.filter((freed) => freed.stream !== stream && !freed.done);
    const [first, ...rest] = run;
    for (const block of rest) this.#absorb(first, block);
    if (after.length > 0) {
      first.freed = this.#services.scheduler.enqueue(stream, () => {}, {
        after,
        outlivesDevice: true,
        delegate: passing,
      });
    } else if (run.length > 1) first.freed = latestOf(frees.filter((freed) => freed.stream === stream)) ?? frees[0];
    return first;
  }

  /**
   * Releases whole units within a free block, at most `byteLength` bytes: immediately if the block's free is done, or
   * otherwise when the stream reaches this point.
   */
  #replace(block: PoolBlock, byteLength: number, stream: Stream): void {
    if (isDone(block)) return this.#release(block, byteLength);
    const detached = this.#detachUnits(block, byteLength)!;
    this.#replaced.add(detached);
    this.#services.scheduler.enqueue(stream, () => {
      this.#releaseReplaced(detached);
      this.#space.reclaim();
      if (this.#isDestroyed) this.#reclaimLater();
    }, { outlivesDevice: true, delegate: passing });
  }

  #releaseReplaced(block: PoolBlock): void {
    if (this.#replaced.delete(block)) this.#discard(block);
  }

  #map(mapping: FileMapping): boolean {
    return this.file === undefined || this.file.tryMap(this.#services.linearMemory, mapping);
  }

  /** Releases free units until at most `byteLength` bytes are reserved. */
  #reduceTo(byteLength: number): void {
    const reserved = this.#reservedByteLength;
    this.#releaseTo(byteLength);
    if (this.#reservedByteLength < reserved) this.#space.reclaim();
  }

  /**
   * Releases free units from linear memory until at most `byteLength` bytes are reserved. The units stay allocated in
   * the pool's address space, because importers may still have them mapped.
   */
  #releaseTo(byteLength: number): void {
    // Round down to whole steps, because the remaining size is later rounded up and must not exceed `byteLength`.
    const kept = Math.floor(byteLength / stepByteLength) * stepByteLength;
    for (const block of this.#free) {
      const surplus = this.#reservedByteLength - kept;
      if (surplus <= 0) return;
      if (block.freed === undefined) this.#release(block, surplus);
    }
  }

  /** Releases the whole units within a free block, at most `byteLength` bytes. The rest of the block stays free. */
  #release(block: PoolBlock, byteLength: number): void {
    const detached = this.#detachUnits(block, byteLength);
    if (detached !== undefined) this.#discard(detached);
  }

  /**
   * Splits off whole units within a free block, at most `byteLength` bytes in total. These units no longer count as
   * reserved.
   */
  #detachUnits(block: PoolBlock, byteLength: number): PoolBlock | undefined {
    const { begin, end } = PoolSpace.wholeUnits({ begin: block.offset, end: block.offset + block.byteLength });
    const length = Math.min(end - begin, byteLength);
    if (length === 0) return undefined;
    const detached = begin > block.offset ? this.#split(block, begin - block.offset) : block;
    if (detached.byteLength > length) this.#split(detached, length);
    this.#free.delete(detached);
    if (detached.previous !== undefined) detached.previous.next = undefined;
    if (detached.next !== undefined) detached.next.previous = undefined;
    this.#setReserved(this.#reservedByteLength - length);
    return detached;
  }

  /** Releases detached units from linear memory, and frees them in the pool's address space. */
  #discard({ begin, offset, byteLength }: PoolBlock): void {
    this.#services.linearMemory.discardAndRelease(begin, byteLength, { isShared: this.file !== undefined });
    this.#space.free({ begin: offset, end: offset + byteLength });
  }
}
