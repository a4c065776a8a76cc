/**
 * The free blocks of a caching allocator, merged with their neighbours or not yet merged.
 *
 * @module
 */
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import type { Session } from "../../session.ts";
import type { SlabBlock } from "./block.ts";
import { blockAlignment, SizeClasses } from "./allocator_options.ts";

/** A buffer gets a free block of a dedicated slab only if it uses at least this fraction of the block. */
const leastUse = 7 / 8;

/**
 * The free blocks of one stream, available to that stream at once. A list without a stream has blocks that any stream
 * may use, because all work that used them is complete.
 *
 * A freed block stays unmerged at first, because programs request the same sizes again and again. If the list has no
 * unmerged block of a requested size, it takes the best fit among its merged blocks. If none fits, it first merges all
 * unmerged blocks with their neighbours.
 */
export class FreeList {
  /** The stream of the blocks. Undefined if any stream may take them, and after the stream was disposed. */
  stream: CudaStream | undefined;
  /** Bytes of the buffers that were allocated on the stream and are not freed. */
  used = 0;
  /** The maximum of `used`. */
  usedHigh = 0;
  /** The number of times that the stream has taken a block that another stream had freed. */
  takenFromOthers = 0;
  readonly #session: Session;
  readonly #unmerged = new UnmergedBlocks();
  /** The merged blocks of slabs that buffers share. */
  readonly #shared = new SizeClasses();
  /** The merged blocks of slabs that were allocated for single large buffers; undefined until there are any. */
  #dedicated: SizeClasses | undefined;
  /** The number of times that the marker was recorded. Frees between two records belong to one epoch. */
  #epoch = 0;
  /**
   * An event that is recorded on the stream after frees. It shows when the freed blocks can be used by other streams.
   */
  #marker: bigint | undefined;
  /**
   * The epoch of the marker's last record: when the marker is complete, so are the frees of this epoch and of earlier
   * epochs. -1 if the marker was not recorded, or is no longer polled.
   */
  #markedEpoch = -1;

  constructor(session: Session, stream: CudaStream | undefined) {
    this.#session = session;
    this.stream = stream;
  }

  /** Adds a block that a buffer has released. */
  add(block: SlabBlock): void {
    block.freeList = this;
    block.isUnmerged = true;
    block.epoch = this.#epoch;
    this.#unmerged.add(block);
  }

  /** Removes and returns an unmerged block of exactly `byteLength` bytes. */
  takeUnmerged(byteLength: number): SlabBlock | undefined {
    const block = this.#unmerged.take(byteLength);
    if (block === undefined) return undefined;
    block.freeList = undefined;
    block.isUnmerged = false;
    return block;
  }

  /**
   * Removes and returns the smallest block that is large enough, split to size. Merges unmerged blocks only if none
   * fits. Takes a block of a dedicated slab only for a buffer that uses almost all of it: a smaller buffer would keep
   * the slab from being released.
   */
  takeBestFit(byteLength: number): SlabBlock | undefined {
    const block = this.#bestFit(byteLength);
    if (block !== undefined) this.#cut(block, byteLength);
    return block;
  }

  /** Like `takeBestFit`, but takes blocks of dedicated slabs for smaller buffers, too. */
  takeAnyFit(byteLength: number): SlabBlock | undefined {
    const block = this.#bestFit(byteLength) ?? this.#dedicated?.bestFit(byteLength);
    if (block !== undefined) this.#cut(block, byteLength);
    return block;
  }

  /** Like `takeBestFit`, but for another stream, which is made to wait for the work that preceded the block's free. */
  takeBestFitFor(stream: CudaStream, byteLength: number): SlabBlock | undefined {
    const block = this.#bestFit(byteLength);
    if (block === undefined) return undefined;
    this.#makeStreamWait(stream, block.epoch);
    this.#cut(block, byteLength);
    return block;
  }

  /**
   * Adds a block that was not just freed, such as one of a new slab or of another list. Merges it with its neighbours.
   */
  insert(block: SlabBlock): void {
    this.#insert(block, this.#epoch);
  }

  /** Removes a block, which must not be in `#unmerged`. */
  remove(block: SlabBlock): void {
    this.#classesOf(block).remove(block);
    block.freeList = undefined;
  }

  /** Merges adjacent free blocks. */
  mergeAll(): void {
    for (let block = this.#unmerged.takeAny(); block !== undefined; block = this.#unmerged.takeAny()) {
      this.#insert(block, block.epoch);
    }
  }

  /** Moves all blocks to another list. `#unmerged` must be empty. */
  moveTo(other: FreeList): void {
    for (const block of this.#mergedBlocks()) {
      this.#classesOf(block).remove(block);
      other.insert(block);
    }
  }

  /**
   * Moves to another list the blocks whose uses before the free are known to be complete. Queries the stream, and the
   * marker recorded on it.
   */
  moveCompletedTo(other: FreeList): void {
    const { stream } = this;
    // A stream that is being captured can neither be queried nor marked.
    if (this.isEmpty || stream?.isCapturing) return;
    const { driver } = this.#session;
    if (stream !== undefined && driver.streamQuery(stream.device.ordinal, stream.unsafeHandle)) {
      this.#markedEpoch = -1;
      return this.moveTo(other);
    }
    if (this.#markedEpoch < 0) {
      // Records the marker: it completes after the work so far, even if the stream is never idle because more work
      // follows.
      if (stream !== undefined) this.#mark();
      return;
    }
    if (!driver.eventQuery(this.#marker!)) return;
    const done = this.#markedEpoch;
    this.#markedEpoch = -1;
    for (const block of this.#mergedBlocks()) {
      if (block.epoch > done) continue;
      this.#classesOf(block).remove(block);
      other.insert(block);
    }
    if (stream !== undefined && !this.isEmpty) this.#mark();
  }

  /** Makes a stream wait for the work that preceded the free of every block in this list. */
  makeStreamWait(stream: CudaStream): void {
    this.#makeStreamWait(stream, this.#epoch);
  }

  /**
   * Records the marker, which is queried from now on instead of the stream, because the stream is about to be
   * destroyed. Changes nothing if recording throws.
   */
  detachStream(): void {
    ignoreLoss(() => {
      if (!this.isEmpty) this.#mark();
    });
    this.stream = undefined;
  }

  /** Whether the list has no blocks. Merges unmerged blocks. */
  get isEmpty(): boolean {
    this.mergeAll();
    return this.#shared.isEmpty && this.#dedicated?.isEmpty !== false;
  }

  /** Destroys the marker. The list must be empty. */
  close(): void {
    if (this.#marker !== undefined) this.#session.destroyMarker(this.#marker);
    this.#marker = undefined;
  }

  #bestFit(byteLength: number): SlabBlock | undefined {
    const block = this.#bestMergedFit(byteLength);
    if (block !== undefined || this.#unmerged.isUnused) return block;
    this.mergeAll();
    return this.#bestMergedFit(byteLength);
  }

  #bestMergedFit(byteLength: number): SlabBlock | undefined {
    const dedicated = this.#dedicated?.bestFit(byteLength);
    const isFilled = dedicated !== undefined && byteLength >= leastUse * dedicated.byteLength;
    return isFilled ? dedicated : this.#shared.bestFit(byteLength);
  }

  #classesOf({ slab }: SlabBlock): SizeClasses {
    return slab.isDedicated ? this.#dedicated ??= new SizeClasses() : this.#shared;
  }

  *#mergedBlocks(): Generator<SlabBlock> {
    yield* this.#shared;
    if (this.#dedicated !== undefined) yield* this.#dedicated;
  }

  #cut(block: SlabBlock, byteLength: number): void {
    this.remove(block);
    if (block.byteLength === byteLength) return;
    const rest = block.split(byteLength);
    rest.freeList = this;
    rest.epoch = block.epoch;
    // `rest` need not be merged with the next block: if the next block were a merged block of this list, it would have
    // been merged with `block` before.
    this.#classesOf(rest).add(rest);
  }

  #makeStreamWait(stream: CudaStream, epoch: number): void {
    if (this.stream !== undefined && epoch > this.#markedEpoch) this.#mark();
    if (this.#marker === undefined) return;
    this.#session.driver.streamWaitEvent(stream.device.ordinal, stream.unsafeHandle, this.#marker);
  }

  /** Records the marker after the frees so far. */
  #mark(): void {
    const { device: { ordinal }, unsafeHandle } = this.stream!;
    this.#marker ??= this.#session.createMarker(ordinal);
    this.#session.driver.eventRecord(ordinal, this.#marker, unsafeHandle);
    this.#markedEpoch = this.#epoch++;
  }

  #insert(block: SlabBlock, epoch: number): void {
    block.epoch = epoch;
    block.isUnmerged = false;
    const classes = this.#classesOf(block);
    let merged = block;
    const { before, after } = block;
    if (this.#isMerged(after)) {
      classes.remove(after!);
      merged.merge();
    }
    if (this.#isMerged(before)) {
      merged = before!;
      classes.remove(merged);
      merged.merge();
    }
    merged.freeList = this;
    classes.add(merged);
  }

  #isMerged(block: SlabBlock | undefined): boolean {
    return block !== undefined && block.freeList === this && !block.isUnmerged;
  }
}

/** The block size, in units of `blockAlignment`, below which there is one bucket per size. */
const exactBuckets = 1024;
/** The binary logarithm of the number of buckets that larger blocks share. */
const hashBits = 10;
const bucketCount = exactBuckets + 2 ** hashBits;
/** The maximum number of blocks examined in a bucket, which may have blocks of different sizes. */
const searchLimit = 8;

/**
 * Unmerged blocks by exact size, in a hash table. Each bucket is a linked list whose head is the most recently added
 * block.
 *
 * `takeAny` needs no search: it uses a list of the buckets that may have blocks.
 */
export class UnmergedBlocks {
  readonly #buckets: (SlabBlock | undefined)[] = new Array<SlabBlock | undefined>(bucketCount).fill(undefined);
  /** Indexes of all buckets that have blocks, and of some that have become empty. */
  readonly #listed = new Uint16Array(bucketCount);
  #listedCount = 0;
  readonly #isListed = new Uint8Array(bucketCount);

  /** Whether no block was added since `takeAny` last returned undefined. */
  get isUnused(): boolean {
    return this.#listedCount === 0;
  }

  add(block: SlabBlock): void {
    const index = bucketOf(block.byteLength);
    const first = this.#buckets[index];
    block.next = first;
    this.#buckets[index] = block;
    if (first !== undefined || this.#isListed[index] !== 0) return;
    this.#isListed[index] = 1;
    this.#listed[this.#listedCount++] = index;
  }

  /**
   * Removes and returns a block of exactly `byteLength` bytes. Examines only the first `searchLimit` blocks of the
   * bucket, so it may miss one.
   */
  take(byteLength: number): SlabBlock | undefined {
    const index = bucketOf(byteLength);
    const block = this.#buckets[index];
    if (block === undefined) return undefined;
    if (block.byteLength !== byteLength) return takeBehind(block, byteLength);
    this.#buckets[index] = block.next;
    block.next = undefined;
    return block;
  }

  /** Removes and returns any block; undefined if there is none. */
  takeAny(): SlabBlock | undefined {
    while (this.#listedCount > 0) {
      const index = this.#listed[this.#listedCount - 1]!;
      const block = this.#buckets[index];
      if (block !== undefined) {
        this.#buckets[index] = block.next;
        block.next = undefined;
        return block;
      }
      this.#isListed[index] = 0;
      this.#listedCount--;
    }
    return undefined;
  }
}

/** Removes and returns a block of exactly `byteLength` bytes from a linked list, starting at the second block. */
function takeBehind(first: SlabBlock, byteLength: number): SlabBlock | undefined {
  let before = first;
  for (let examined = 1; examined < searchLimit && before.next !== undefined; examined++) {
    const block = before.next;
    if (block.byteLength === byteLength) {
      before.next = block.next;
      block.next = undefined;
      return block;
    }
    before = block;
  }
  return undefined;
}

function bucketOf(byteLength: number): number {
  // `| 0` tells the JavaScript engine that the result is an integer; otherwise, JavaScriptCore computes in floating
  // point.
  const units = byteLength / blockAlignment | 0;
  if (units < exactBuckets) return units;
  // Fibonacci hashing spreads sizes that differ by a power of two.
  return exactBuckets + (Math.imul(units, 0x9e3779b1) >>> (32 - hashBits));
}
