/**
 * An operation of a communicator as work of a stream: at first the rank posts what it gives, and then it waits for what
 * others give, and completes the operation. An error ends the communicator's work, and loses no device.
 *
 * @module
 */
import type { Awaited, Stream, Work } from "../execution/streams/streams.ts";
import type { AwaitedPosts, Communicator } from "./communicator.ts";
import { commonRings, type Entry, type Mailbox, ringLength } from "./mailbox.ts";
import type { Membership } from "./membership.ts";

/** The bytes that are read, written or sent in one turn of a stream. */
export const sliceByteLength: number = 2 ** 20;

/** A part of an operation, which yields between slices. */
export type Slices = Generator<undefined, void>;

/** An operation, from its call until it is on its stream. */
export abstract class StreamOperation {
  readonly communicator: Communicator;
  readonly stream: Stream;
  /** The number of its entries, counted when it goes to its stream. */
  protected number = 0;

  constructor(communicator: Communicator, stream: Stream) {
    this.communicator = communicator;
    this.stream = stream;
  }

  /** The ring whose entries are of such operations, with such a peer. */
  abstract readonly ring: number;
  protected abstract get postsAfter(): readonly Awaited[];
  protected abstract get completesAfter(): readonly Awaited[];
  protected abstract post(): Slices;
  protected abstract complete(): Slices;

  protected get membership(): Membership {
    return this.communicator.membershipFor("do the work of the communicator");
  }

  /** Adds the work that posts. The operations of a group all post before one of them waits for another rank. */
  enqueuePost(earlier: readonly Work[]): void {
    this.number = this.communicator.nextNumber(this.ring);
    this.#enqueue(this.post(), [...earlier, ...this.postsAfter]);
  }

  enqueueCompletion(): void {
    const { communicator } = this;
    const collective = this.ring === commonRings.collectives ? this.number : undefined;
    if (collective === undefined) communicator.noteMessage();
    const done = () => communicator.noteDone(collective);
    communicator.noteWork(this.#enqueue(this.complete(), this.completesAfter, done));
  }

  /** @param done is called when it is done, and was not ended */
  #enqueue(slices: Slices, after: readonly Awaited[], done?: () => void): Work {
    const { communicator } = this;
    let isDone = false;
    const run = (): boolean => {
      isDone = communicator.hasEnded || finishes(slices, communicator);
      if (isDone && !communicator.hasEnded) done?.();
      return isDone;
    };
    // Work that is dropped was on a device that was lost.
    const release = (): void => {
      if (!isDone && !communicator.hasEnded) communicator.failOfLoss();
    };
    return communicator.services.scheduler.enqueue(this.stream, run, { after, release });
  }

  /** Writes bytes to the rank's own mailbox, and posts an entry for them. */
  protected *postBytes(bytes: Uint8Array, entry: Omit<Entry, "offset" | "byteLength">): Generator<undefined, Entry> {
    const { own } = this.membership;
    const { byteLength } = bytes;
    const posted = { ...entry, offset: own.reserve(byteLength), byteLength };
    for (let at = 0; at < byteLength; at += sliceByteLength) {
      own.write(bytes.subarray(at, at + sliceByteLength), posted.offset + at);
      yield;
    }
    own.post(this.ring, this.number, posted);
    return posted;
  }

  /** Reads what a rank has posted to linear memory. */
  protected *copy(to: Uint8Array, from: Source): Slices {
    for (let at = 0; at < to.byteLength; at += sliceByteLength) {
      const part = to.subarray(at, at + sliceByteLength);
      readExactly(part, from, at);
      this.wrote(part);
      yield;
    }
  }

  /** Notes that bytes of linear memory are initialized. */
  protected wrote(bytes: Uint8Array): void {
    this.communicator.services.shadow?.noteCopy(bytes, undefined);
  }

  /** Waits until ranks have posted an entry of this operation's number. */
  protected whenPosted(ranks: readonly number[], ring: number): Awaited {
    return new Posts(this.communicator, { ranks, ring, number: this.number });
  }
}

/** Bytes that a rank has posted. */
export interface Source {
  readonly rank: number;
  readonly mailbox: Mailbox;
  readonly entry: Entry;
  /** Where the bytes begin that are meant, among those that were posted. */
  readonly begin: number;
}

/** Fills `bytes` with those from a place of what a rank has posted. Throws if the rank has posted fewer. */
export function readExactly(bytes: Uint8Array, { rank, mailbox, entry, begin }: Source, at: number): void {
  const end = begin + at + bytes.byteLength;
  if (end <= entry.byteLength && mailbox.read(bytes, entry.offset + begin + at)) return;
  throw new Error(`Cannot read what rank ${rank} gives: it has posted less than it says`);
}

/** How many operations of a kind a group can have: their entries must fit in a ring. */
export const groupLimit: number = ringLength;

/** Does a slice. Returns whether it was the last one, also if it failed. */
function finishes(slices: Slices, communicator: Communicator): boolean {
  try {
    return slices.next().done === true;
  } catch (error) {
    communicator.failHere(error);
    return true;
  }
}

/** Entries of other ranks. The wait is over, too, when the communicator's work has ended. */
class Posts implements Awaited {
  readonly #communicator: Communicator;
  readonly #posts: AwaitedPosts;
  #seen = 0;

  constructor(communicator: Communicator, posts: AwaitedPosts) {
    this.#communicator = communicator;
    this.#posts = posts;
  }

  get done(): boolean {
    try {
      while (!this.#communicator.hasEnded && this.#seen < this.#posts.ranks.length) {
        if (!this.#hasNext()) return false;
        this.#seen++;
      }
    } catch (error) {
      this.#communicator.failHere(error);
    }
    return true;
  }

  #hasNext(): boolean {
    const { ranks, ring, number } = this.#posts;
    const rank = ranks[this.#seen]!;
    const membership = this.#communicator.membershipFor("wait for the other ranks");
    const mailbox = membership.mailbox(rank);
    if (mailbox.has(ring, number)) return true;
    const gone = membership.findGone(rank);
    if (gone === undefined) {
      this.#communicator.noteAwaited(this.#posts);
      return false;
    }
    // It may have posted before it left.
    if (mailbox.has(ring, number)) return true;
    this.#communicator.fail(gone);
    return true;
  }
}
