/**
 * Sends and receives. A send completes when the receiver has the message, as NCCL's do with larger messages: ranks that
 * all send before they receive deadlock, unless they do both in a group.
 *
 * @module
 */
import type { Awaited, Stream } from "../execution/streams.ts";
import type { SoftwareCommunicator } from "./software_communicator.ts";
import { type ElementType, elementType } from "./element_types.ts";
import { type MailboxEntry, operationNumbers, receivedFrom, sentTo } from "./mailbox.ts";
import { type Slices, StreamOperation } from "./stream_operation.ts";

/** A call that sends or receives a message. */
export interface MessageWork {
  /** The other rank. */
  readonly peer: number;
  readonly count: number;
  /** The number of the type in `dataType`. */
  readonly typeNumber: number;
  readonly type: ElementType;
  readonly stream: Stream;
  /** The bytes to send, or where the received ones go. */
  readonly bytes: Uint8Array;
}

abstract class MessageOperation extends StreamOperation {
  protected readonly peer: number;
  protected readonly bytes: Uint8Array;
  readonly #options: MessageWork;

  constructor(communicator: SoftwareCommunicator, options: MessageWork) {
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

  /** The entry of the other rank. */
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

/** A send to another rank, or to this one. */
export class SendOperation extends MessageOperation {
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
    // The receiver finds the same mismatch.
    if (!this.isLike(received)) {
      this.communicator.fail(mismatch(rank, this.describe(), this.peer, describeEntry(received)));
    }
  }
}

/** A receive from another rank, or from this one. */
export class ReceiveOperation extends MessageOperation {
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
