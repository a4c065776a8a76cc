import type { CudaStream } from "../../objects/cuda_stream.ts";
import { ignoreLoss } from "../../support/error_wording.ts";
import type { Session } from "../../session.ts";
import type { Block } from "./block.ts";
import { blockAlignment, SizeClasses } from "./size_classes.ts";

/** Up to how many bytes unmerged blocks are found without a search. */
const smallByteLength = 256 * 1024;

/**
 * Blocks that are free in one order: that of a stream, or any where what they were used for is known to be done.
 *
 * A block that was freed is unmerged at first: programs ask for the same sizes again and again. Only where there is none of
 * the size are unmerged blocks merged with their neighbours, and the best fit is looked for.
 */
export class FreeList {
  /** Undefined where any stream may have the blocks, and once the stream was disposed. */
  stream: CudaStream | undefined;
  /** Bytes of buffers that were allocated on the stream, and the most that there have been. */
  used = 0;
  usedHigh = 0;
  /** How often the stream was given what others had freed. */
  takenFromOthers = 0;
  readonly #session: Session;
  /** By size, in units; each the last that was freed, which knows the one before. */
  readonly #small: (Block | undefined)[] = new Array<Block | undefined>(smallByteLength / blockAlignment + 1)
    .fill(undefined);
  /** By size, in bytes; a list stays when it is empty, until all are merged. */
  readonly #large = new Map<number, { last: Block | undefined }>();
  readonly #merged = new SizeClasses();
  #hasUnmerged = false;
  /** How often an event was recorded behind the frees so far. */
  #epoch = 0;
  /** Such an event. */
  #marker: bigint | undefined;
  /** What it was last recorded behind: frees of this epoch and of earlier ones; -1 where it is not looked at. */
  #markedEpoch = -1;

  constructor(session: Session, stream: CudaStream | undefined) {
    this.#session = session;
    this.stream = stream;
  }

  /** Keeps a block that a buffer has given back. */
  add(block: Block): void {
    const { byteLength } = block;
    block.home = this;
    block.isUnmerged = true;
    block.epoch = this.#epoch;
    this.#hasUnmerged = true;
    if (byteLength <= smallByteLength) {
      const units = byteLength / blockAlignment;
      block.next = this.#small[units];
      this.#small[units] = block;
    } else {
      const list = this.#large.get(byteLength);
      if (list === undefined) this.#large.set(byteLength, { last: block });
      else {
        block.next = list.last;
        list.last = block;
      }
    }
  }

  /** A block of exactly so many bytes that was freed here and is as it was. */
  takeUnmerged(byteLength: number): Block | undefined {
    let block: Block | undefined;
    if (byteLength <= smallByteLength) {
      const units = byteLength / blockAlignment;
      block = this.#small[units];
      if (block === undefined) return undefined;
      this.#small[units] = block.next;
    } else {
      const list = this.#large.get(byteLength);
      block = list?.last;
      if (block === undefined) return undefined;
      list!.last = block.next;
    }
    block.home = undefined;
    block.isUnmerged = false;
    block.next = undefined;
    return block;
  }

  /** The smallest block that is large enough, cut to size; unmerged blocks are merged only where there is none. */
  takeBestFit(byteLength: number): Block | undefined {
    const block = this.#bestFit(byteLength);
    if (block !== undefined) this.#cut(block, byteLength);
    return block;
  }

  /** The same for another stream, which waits for the work that came before the block was freed. */
  takeBestFitFor(stream: CudaStream, byteLength: number): Block | undefined {
    const block = this.#bestFit(byteLength);
    if (block === undefined) return undefined;
    this.#letWait(stream, block.epoch);
    this.#cut(block, byteLength);
    return block;
  }

  /** Adds a block that nobody has used since it was merged, or cut off. */
  insert(block: Block): void {
    this.#insert(block, this.#epoch);
  }

  /** Takes a block out, to be free elsewhere or not at all. All of them have been merged. */
  remove(block: Block): void {
    this.#merged.remove(block);
    block.home = undefined;
  }

  /** Merges what is free side by side. */
  mergeAll(): void {
    if (!this.#hasUnmerged) return;
    this.#hasUnmerged = false;
    for (let units = 1; units < this.#small.length; units++) {
      const last = this.#small[units];
      if (last === undefined) continue;
      this.#small[units] = undefined;
      for (const block of chainOf(last)) this.#insert(block, block.epoch);
    }
    for (const { last } of this.#large.values()) for (const block of chainOf(last)) this.#insert(block, block.epoch);
    this.#large.clear();
  }

  /** Gives all blocks to another. All of them have been merged. */
  moveTo(other: FreeList): void {
    for (const block of this.#merged) {
      this.#merged.remove(block);
      other.insert(block);
    }
  }

  /** Gives those blocks to another whose work is known to be done, by a look at the stream and at an event behind it. */
  moveDoneTo(other: FreeList): void {
    if (this.isEmpty) return;
    const { driver } = this.#session;
    const { stream } = this;
    if (stream !== undefined && driver.streamQuery(stream.device.ordinal, stream.unsafeHandle)) {
      this.#markedEpoch = -1;
      return this.moveTo(other);
    }
    if (this.#markedEpoch < 0) {
      // Once the work so far is done, the event tells, however much has followed.
      if (stream !== undefined) this.#mark();
      return;
    }
    if (!driver.eventQuery(this.#marker!)) return;
    const done = this.#markedEpoch;
    this.#markedEpoch = -1;
    for (const block of this.#merged) {
      if (block.epoch > done) continue;
      this.#merged.remove(block);
      other.insert(block);
    }
    if (stream !== undefined && !this.isEmpty) this.#mark();
  }

  /** Lets a stream wait for the work that came before any block was freed here. */
  letWait(stream: CudaStream): void {
    this.#letWait(stream, this.#epoch);
  }

  /** The stream is about to be destroyed: from now on an event stands for it. Nothing has changed where this throws. */
  retire(): void {
    ignoreLoss(() => {
      if (!this.isEmpty) this.#mark();
    });
    this.stream = undefined;
  }

  /** Whether there is no block. */
  get isEmpty(): boolean {
    this.mergeAll();
    return this.#merged.isEmpty;
  }

  /** Gives back what it holds itself. It has no block any more. */
  close(): void {
    if (this.#marker !== undefined) this.#session.destroyMarker(this.#marker);
    this.#marker = undefined;
  }

  #bestFit(byteLength: number): Block | undefined {
    const block = this.#merged.bestFit(byteLength);
    if (block !== undefined || !this.#hasUnmerged) return block;
    this.mergeAll();
    return this.#merged.bestFit(byteLength);
  }

  #cut(block: Block, byteLength: number): void {
    this.remove(block);
    if (block.byteLength > byteLength) this.#insert(block.split(byteLength), block.epoch);
  }

  #letWait(stream: CudaStream, epoch: number): void {
    if (this.stream !== undefined && epoch > this.#markedEpoch) this.#mark();
    if (this.#marker === undefined) return;
    this.#session.driver.streamWaitEvent(stream.device.ordinal, stream.unsafeHandle, this.#marker);
  }

  /** Records an event behind the frees so far. */
  #mark(): void {
    const { device: { ordinal }, unsafeHandle } = this.stream!;
    this.#marker ??= this.#session.createMarker(ordinal);
    this.#session.driver.eventRecord(ordinal, this.#marker, unsafeHandle);
    this.#markedEpoch = this.#epoch++;
  }

  #insert(block: Block, epoch: number): void {
    block.epoch = epoch;
    block.isUnmerged = false;
    let merged = block;
    const { before, after } = block;
    if (this.#isMerged(after)) {
      this.#merged.remove(after!);
      merged.merge();
    }
    if (this.#isMerged(before)) {
      merged = before!;
      this.#merged.remove(merged);
      merged.merge();
    }
    merged.home = this;
    this.#merged.add(merged);
  }

  #isMerged(block: Block | undefined): boolean {
    return block !== undefined && block.home === this && !block.isUnmerged;
  }
}

function* chainOf(last: Block | undefined): Generator<Block> {
  let next: Block | undefined;
  for (let block = last; block !== undefined; block = next) {
    next = block.next;
    yield block;
  }
}
