/**
 * An operation of a communicator as work on a stream: the rank posts its input, waits for the input of the other ranks,
 * and completes the operation. An error ends the communicator's work; the device stays usable.
 *
 * @module
 */
import type { Awaited, Stream, Work } from "../execution/streams.ts";
import type { AwaitedPosts, SoftwareCommunicator } from "./software_communicator.ts";
import { commonRings, type Mailbox, type MailboxEntry, ringLength } from "./mailbox.ts";
import type { Membership } from "./membership.ts";

/** The bytes that are read, written or sent before an operation yields to other streams. */
export const sliceByteLength: number = 2 ** 20;

/** A phase of an operation, which yields after each slice. */
export type Slices = Generator<undefined, void>;

/** An operation that is about to be enqueued on its stream. */
export abstract class StreamOperation {
  readonly communicator: SoftwareCommunicator;
  readonly stream: Stream;
  /** The number of its entries, counted when it is enqueued. */
  protected number = 0;

  constructor(communicator: SoftwareCommunicator, stream: Stream) {
    this.communicator = communicator;
    this.stream = stream;
  }

  /** The ring of its entries. */
  abstract readonly ring: number;
  protected abstract get postsAfter(): readonly Awaited[];
  protected abstract get completesAfter(): readonly Awaited[];
  protected abstract post(): Slices;
  protected abstract complete(): Slices;

  protected get membership(): Membership {
    return this.communicator.membershipFor("do the work of the communicator");
  }

  /** Enqueues the post. All operations of a group post before one of them waits for another rank. */
  enqueuePost(earlier: readonly Work[]): void {
    this.number = this.communicator.nextNumber(this.ring);
    this.#enqueue(this.post(), [...earlier, ...this.postsAfter]);
  }

  enqueueCompletion(): void {
    const { communicator } = this;
    const collective = this.ring === commonRings.collectives ? this.number : undefined;
    if (collective === undefined) communicator.onMessageEnqueued();
    const done = () => communicator.onComplete(collective);
    communicator.onWorkEnqueued(this.#enqueue(this.complete(), this.completesAfter, done));
  }

  /** @param done called when the work is complete, and not when it was revoked */
  #enqueue(slices: Slices, after: readonly Awaited[], done?: () => void): Work {
    const { communicator } = this;
    let isDone = false;
    const run = (): boolean => {
      isDone = communicator.hasEnded || finishes(slices, communicator);
      if (isDone && !communicator.hasEnded) done?.();
      return isDone;
    };
    // Work is released unfinished only if the device was lost.
    const release = (): void => {
      if (!isDone && !communicator.hasEnded) communicator.failByDeviceLoss();
    };
    return communicator.services.scheduler.enqueue(this.stream, run, { after, release });
  }

  /** Writes bytes to the rank's own mailbox, and posts an entry for them. */
  protected *postBytes(
    bytes: Uint8Array,
    entry: Omit<MailboxEntry, "offset" | "byteLength">,
  ): Generator<undefined, MailboxEntry> {
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

  /** Copies what a rank has posted to linear memory. */
  protected *copy(to: Uint8Array, from: PostedBytes): Slices {
    for (let at = 0; at < to.byteLength; at += sliceByteLength) {
      const part = to.subarray(at, at + sliceByteLength);
      readExactly(part, from, at);
      this.wrote(part);
      yield;
    }
  }

  /** Marks bytes of linear memory as initialized. */
  protected wrote(bytes: Uint8Array): void {
    this.communicator.services.shadow?.noteCopy(bytes, undefined);
  }

  /** Done when ranks have posted an entry of this operation's number. */
  protected whenPosted(ranks: readonly number[], ring: number): Awaited {
    return new Posts(this.communicator, { ranks, ring, number: this.number });
  }
}

/** Bytes that a rank has posted. */
export interface PostedBytes {
  readonly rank: number;
  readonly mailbox: Mailbox;
  readonly entry: MailboxEntry;
  /** Where the part to read begins in the posted bytes. */
  readonly begin: number;
}

/** Fills `bytes` from an offset in what a rank has posted. Throws if the rank has posted fewer bytes. */
export function readExactly(bytes: Uint8Array, { rank, mailbox, entry, begin }: PostedBytes, at: number): void {
  const end = begin + at + bytes.byteLength;
  if (end <= entry.byteLength && mailbox.read(bytes, entry.offset + begin + at)) return;
  throw new Error(`Cannot read what rank ${rank} gives: it has posted less than it says`);
}

/** The most operations of a kind in a group: their entries must fit in a ring. */
export const groupLimit: number = ringLength;

/** Runs one slice. Returns whether it was the last one, which it is if it throws. */
function finishes(slices: Slices, communicator: SoftwareCommunicator): boolean {
  try {
    return slices.next().done === true;
  } catch (error) {
    communicator.failAndPublish(error);
    return true;
  }
}

/** A wait for entries of other ranks. It ends, too, when the communicator's work is revoked or fails. */
class Posts implements Awaited {
  readonly #communicator: SoftwareCommunicator;
  readonly #posts: AwaitedPosts;
  #seen = 0;

  constructor(communicator: SoftwareCommunicator, posts: AwaitedPosts) {
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
      this.#communicator.failAndPublish(error);
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
      this.#communicator.setAwaited(this.#posts);
      return false;
    }
    // It may have posted before it left.
    if (mailbox.has(ring, number)) return true;
    this.#communicator.fail(gone);
    return true;
  }
}
