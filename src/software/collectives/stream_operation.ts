/**
 * An operation of a communicator as work on a stream: the rank posts its input, waits for the input of the other ranks,
 * and completes the operation. An error ends the communicator's work; the device stays usable.
 *
 * A collective operation waits until all ranks have posted their input. A send completes when the receiver has the message,
 * as NCCL's do with larger messages: ranks that all send before they receive deadlock, unless they do both in a group.
 *
 * @module
 */
import type { Awaited, Stream, Work } from "../execution/streams.ts";
import type { AwaitedPosts, SoftwareCommunicator } from "./software_communicator.ts";
import {
  agree,
  commonRings,
  describe,
  type Mailbox,
  type MailboxEntry,
  nameIn,
  type OperationName,
  operationNumbers,
  receivedFrom,
  ringLength,
  sentTo,
} from "./mailbox.ts";
import type { Membership } from "./membership.ts";
import { ElementReduction, type ElementType, elementType } from "./reduction.ts";

/** The maximum number of bytes that an operation copies or reduces before other streams get a turn. */
const sliceByteLength: number = 2 ** 20;

/** A phase of an operation (posting or completion): a generator that yields after each slice of bytes. */
type Slices = Generator<undefined, void>;

/**
 * An operation on a stream. It posts an entry in this rank's mailbox, and completes after the other participating ranks
 * have posted their entries.
 */
export abstract class StreamOperation {
  readonly communicator: SoftwareCommunicator;
  readonly stream: Stream;
  /** The sequence number of the operation's entries. Assigned when the operation is enqueued. */
  protected number = 0;
  /** The time at which the operation began, as `performance.now()`, if that is asked for. */
  #begin: number | undefined;

  constructor(communicator: SoftwareCommunicator, stream: Stream) {
    this.communicator = communicator;
    this.stream = stream;
  }

  /** The index of the mailbox ring in which the operation posts its entry. */
  abstract readonly ring: number;
  protected abstract get postsAfter(): readonly Awaited[];
  protected abstract get completesAfter(): readonly Awaited[];
  protected abstract post(): Slices;
  protected abstract complete(): Slices;
  /** The name of the call, for traces. */
  protected abstract readonly name: OperationName;

  protected get membership(): Membership {
    return this.communicator.membershipFor("do the work of the communicator");
  }

  /**
   * Enqueues the posting of the operation's entry, after the `earlier` work. Must be called for all operations of a
   * group before `enqueueCompletion` is called for any of them, because a completion waits for other ranks.
   */
  enqueuePost(earlier: readonly Work[]): void {
    this.number = this.communicator.nextNumber(this.ring);
    this.#enqueue(this.post(), [...earlier, ...this.postsAfter]);
  }

  enqueueCompletion(): void {
    const { communicator } = this;
    const collective = this.ring === commonRings.collectives ? this.number : undefined;
    if (collective === undefined) communicator.onMessageEnqueued();
    const done = () => communicator.onComplete(collective);
    communicator.onWorkEnqueued(
      this.#enqueue(this.complete(), this.completesAfter, { done, ended: () => this.#reportTime() }),
    );
  }

  /** Reports the time from the first slice to the end, with the wait for the other ranks. */
  #reportTime(): void {
    const { stream: { device, handle }, communicator: { hasEnded, services } } = this;
    if (this.#begin === undefined) return;
    const name = hasEnded ? `${this.name} (failed)` : this.name;
    services.scheduler.onKernel?.({ name, device, stream: handle, begin: this.#begin, end: performance.now() });
  }

  /**
   * @param slices the phase to run
   * @param after the conditions and work to wait for
   * @param handlers.done called when the phase is complete, but not if it was revoked
   * @param handlers.ended called when the phase is complete or was revoked
   */
  #enqueue(
    slices: Slices,
    after: readonly Awaited[],
    { done, ended }: { readonly done?: () => void; readonly ended?: () => void } = {},
  ): Work {
    const { communicator } = this;
    const { scheduler } = communicator.services;
    let isDone = false;
    const run = (): boolean => {
      if (scheduler.onKernel !== undefined) this.#begin ??= performance.now();
      isDone = communicator.hasEnded || runSlice(slices, communicator);
      if (isDone && !communicator.hasEnded) done?.();
      if (isDone) ended?.();
      return isDone;
    };
    // Called when the scheduler drops the work. If the work is incomplete, the device was lost.
    const release = (): void => {
      if (!isDone && !communicator.hasEnded) communicator.failByDeviceLoss();
    };
    return scheduler.enqueue(this.stream, run, { after, release });
  }

  /** Writes bytes to this rank's mailbox, and posts the operation's entry, which refers to these bytes. */
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

  /** Copies a rank's posted bytes to linear memory. */
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

  /**
   * Returns a condition to wait for: all of `ranks` have posted the entry with this operation's sequence number in
   * `ring`.
   */
  protected whenPosted(ranks: readonly number[], ring: number): Awaited {
    return new Posts(this.communicator, { ranks, ring, number: this.number });
  }
}

/** The bytes that a rank has posted for a call, or a part of them. */
interface PostedBytes {
  readonly rank: number;
  readonly mailbox: Mailbox;
  readonly entry: MailboxEntry;
  /** The offset in the posted bytes at which the part begins. */
  readonly begin: number;
}

/**
 * Fills `bytes` with a part of a rank's posted bytes, beginning at offset `at` of the part. Throws if the rank has
 * posted too few bytes.
 */
function readExactly(bytes: Uint8Array, { rank, mailbox, entry, begin }: PostedBytes, at: number): void {
  const end = begin + at + bytes.byteLength;
  if (end <= entry.byteLength && mailbox.read(bytes, entry.offset + begin + at)) return;
  throw new Error(`Cannot read what rank ${rank} gives: it has posted less than it says`);
}

/** The maximum number of operations of a group that may use the same ring: the number of entries in the ring. */
export const groupLimit: number = ringLength;

/** Runs the next slice of a phase. Returns whether the phase is complete or has failed. */
function runSlice(slices: Slices, communicator: SoftwareCommunicator): boolean {
  try {
    return slices.next().done === true;
  } catch (error) {
    communicator.failAndPublish(error);
    return true;
  }
}

/** A wait until other ranks have posted certain entries, or the communicator's work is revoked or fails. */
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
    // Check again: the rank may have posted its entry just before it left.
    if (mailbox.has(ring, number)) return true;
    this.#communicator.fail(gone);
    return true;
  }
}

/** The parameters of a `CollectiveOperation`: the call, its stream, and its memory. */
interface CollectiveParameters {
  readonly call: Omit<MailboxEntry, "offset" | "byteLength">;
  readonly type: ElementType;
  readonly stream: Stream;
  /** The memory of this rank's input. Empty if this rank has no input. */
  readonly source: Uint8Array;
  /** The memory for this rank's result. Empty if this rank receives no result. */
  readonly target: Uint8Array;
}

/** Returns the sizes of a rank's input (`gives`) and result (`gets`), as multiples of the call's element count. */
export function sharesOf(
  { operation, root }: { readonly operation: number; readonly root: number },
  { rank, size }: { readonly rank: number; readonly size: number },
): { gives: number; gets: number } {
  const { broadcast, reduce, allGather, reduceScatter, allToAll } = operationNumbers;
  if (operation === broadcast) return { gives: rank === root ? 1 : 0, gets: 1 };
  if (operation === reduce) return { gives: 1, gets: rank === root ? 1 : 0 };
  return {
    gives: operation === reduceScatter || operation === allToAll ? size : 1,
    gets: operation === allGather || operation === allToAll ? size : 1,
  };
}

/** Performs a collective, in which all ranks of a communicator take part. */
export class CollectiveOperation extends StreamOperation {
  readonly ring: number = commonRings.collectives;
  readonly #call: CollectiveParameters["call"];
  readonly #type: ElementType;
  readonly #source: Uint8Array;
  readonly #target: Uint8Array;

  constructor(communicator: SoftwareCommunicator, { call, type, stream, source, target }: CollectiveParameters) {
    super(communicator, stream);
    this.#call = call;
    this.#type = type;
    this.#source = source;
    this.#target = target;
  }

  protected get name(): OperationName {
    return nameIn(operationNumbers, this.#call.operation) as OperationName;
  }

  protected get postsAfter(): readonly Awaited[] {
    return [this.communicator.room];
  }

  protected get completesAfter(): readonly Awaited[] {
    return [this.whenPosted(Array.from({ length: this.membership.size }, (_, rank) => rank), this.ring)];
  }

  protected *post(): Slices {
    const entry = yield* this.postBytes(this.#source, this.#call);
    this.communicator.keep({ number: this.number, entry });
  }

  protected *complete(): Slices {
    const { rank, size, own } = this.membership;
    const sources = this.#findSources();
    const disagreement = this.#findDisagreement(sources);
    // Do not publish the error, because the other ranks detect the same disagreement by themselves.
    if (disagreement !== undefined) return this.communicator.fail(disagreement);
    this.#checkLengths(sources);
    const { allReduce, broadcast, allGather, reduceScatter, allToAll } = operationNumbers;
    const { operation, root, count } = this.#call;
    const byteLength = count * this.#type.byteLength;
    // The offset at which this rank's part begins in the input of every rank.
    const begin = operation === reduceScatter || operation === allToAll ? rank * byteLength : 0;
    const parts = sources.map((source) => ({ ...source, begin }));
    if (this.#target.byteLength > 0) {
      if (operation === broadcast) {
        yield* this.copy(this.#target, parts[root]!);
      } else if (operation === allGather || operation === allToAll) {
        for (let from = 0; from < size; from++) {
          yield* this.copy(this.#target.subarray(from * byteLength, (from + 1) * byteLength), parts[from]!);
        }
      } else if (operation === allReduce || operation === reduceScatter || rank === root) {
        yield* this.#reduce(parts);
      }
    }
    own.post(commonRings.finished, this.number, { ...this.#call, offset: 0, byteLength: 0 });
    this.communicator.releaseRead();
  }

  /** Returns the inputs that the ranks have posted for this collective, indexed by rank. */
  #findSources(): PostedBytes[] {
    return Array.from({ length: this.membership.size }, (_, rank) => {
      const mailbox = this.membership.mailbox(rank);
      return { rank, mailbox, entry: mailbox.entry(this.ring, this.number), begin: 0 };
    });
  }

  /** Returns an error if the ranks have made different calls. All ranks return an equal error. */
  #findDisagreement(sources: readonly PostedBytes[]): Error | undefined {
    const first = sources[0]!.entry;
    const other = sources.find(({ entry }) => !agree(entry, first));
    return other && new Error(
      `Cannot do collective ${this.number} of the communicator: rank 0 calls ${describe(first)}, and rank ` +
        `${other.rank} ${describe(other.entry)}; all ranks must make the same calls in the same order`,
    );
  }

  #checkLengths(sources: readonly PostedBytes[]): void {
    const { size } = this.membership;
    for (const { rank, entry } of sources) {
      const expected = sharesOf(this.#call, { rank, size }).gives * this.#call.count * this.#type.byteLength;
      if (entry.byteLength === expected) continue;
      throw new Error(`Cannot use what rank ${rank} gives: it has ${entry.byteLength} bytes and not ${expected}`);
    }
  }

  *#reduce(parts: readonly PostedBytes[]): Slices {
    for (let at = 0; at < this.#target.byteLength; at += sliceByteLength) {
      const target = this.#target.subarray(at, at + sliceByteLength);
      const reduction = new ElementReduction(this.#type, this.#call.reduction);
      const bytes = new Uint8Array(target.byteLength);
      for (const [index, part] of parts.entries()) {
        const read = index === 0 ? bytes : new Uint8Array(target.byteLength);
        readExactly(read, part, at);
        reduction.add(read);
        yield;
      }
      reduction.finish(bytes);
      target.set(bytes);
      this.wrote(target);
    }
  }
}

/** The parameters of a `MessageOperation`, which sends or receives a message. */
interface MessageParameters {
  /** The other rank: the receiver of a send, or the sender of a receive. */
  readonly peer: number;
  readonly count: number;
  /** The number of the element type, as in `dataType`. */
  readonly typeNumber: number;
  readonly type: ElementType;
  readonly stream: Stream;
  /** The memory of the bytes to send, or the memory for the received bytes. */
  readonly bytes: Uint8Array;
}

abstract class MessageOperation extends StreamOperation {
  protected readonly peer: number;
  protected readonly bytes: Uint8Array;
  readonly #options: MessageParameters;

  constructor(communicator: SoftwareCommunicator, options: MessageParameters) {
    super(communicator, options.stream);
    this.peer = options.peer;
    this.bytes = options.bytes;
    this.#options = options;
  }

  protected get postsAfter(): readonly Awaited[] {
    return [];
  }

  protected entryFor(operation: number): Omit<MailboxEntry, "offset" | "byteLength"> {
    const { typeNumber, count, peer } = this.#options;
    return { operation, type: typeNumber, reduction: 0, root: peer, count };
  }

  /** Returns the peer's entry for this operation, from a ring of the peer's mailbox. */
  protected peerEntry(ring: number): MailboxEntry {
    return this.membership.mailbox(this.peer).entry(ring, this.number);
  }

  protected isLike({ count, type }: MailboxEntry): boolean {
    return count === this.#options.count && type === this.#options.typeNumber;
  }

  protected describe(): string {
    return `${this.#options.count} ${this.#options.type.name}`;
  }
}

/** Sends a message to any rank of the communicator, including this rank. */
export class SendOperation extends MessageOperation {
  protected readonly name = "send";
  #posted: MailboxEntry | undefined;

  get ring(): number {
    return sentTo(this.peer);
  }

  protected get completesAfter(): readonly Awaited[] {
    return [this.whenPosted([this.peer], receivedFrom(this.membership.rank))];
  }

  protected *post(): Slices {
    this.#posted = yield* this.postBytes(this.bytes, this.entryFor(operationNumbers.send));
  }

  // deno-lint-ignore require-yield
  protected *complete(): Slices {
    const { own, rank } = this.membership;
    own.release(this.#posted!);
    const received = this.peerEntry(receivedFrom(rank));
    // Do not publish the error, because the receiver detects the same mismatch by itself.
    if (!this.isLike(received)) {
      this.communicator.fail(mismatch(rank, this.describe(), this.peer, describeEntry(received)));
    }
  }
}

/** Receives a message from any rank of the communicator, including this rank. */
export class ReceiveOperation extends MessageOperation {
  protected readonly name = "recv";

  get ring(): number {
    return receivedFrom(this.peer);
  }

  protected get completesAfter(): readonly Awaited[] {
    return [this.whenPosted([this.peer], sentTo(this.membership.rank))];
  }

  protected *post(): Slices {}

  protected *complete(): Slices {
    const { own, rank } = this.membership;
    const entry = this.peerEntry(sentTo(rank));
    const isLike = this.isLike(entry);
    if (isLike) {
      const mailbox = this.membership.mailbox(this.peer);
      yield* this.copy(this.bytes, { rank: this.peer, mailbox, entry, begin: 0 });
    }
    own.post(this.ring, this.number, { ...this.entryFor(operationNumbers.recv), offset: 0, byteLength: 0 });
    if (!isLike) this.communicator.fail(mismatch(this.peer, describeEntry(entry), rank, this.describe()));
  }
}

function mismatch(sender: number, sent: string, receiver: number, received: string): Error {
  return new Error(
    `Cannot pass a message: rank ${sender} sends ${sent} to rank ${receiver}, which receives ${received} from it; both ` +
      `must give the same count and type`,
  );
}

function describeEntry({ count, type }: MailboxEntry): string {
  return `${count} ${elementType(type)?.name ?? `elements of type ${type}`}`;
}
