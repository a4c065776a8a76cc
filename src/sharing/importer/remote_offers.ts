/**
 * The offers that an importer has received from its exporter, and the limit on the size of their metadata.
 *
 * @module
 */
import { runEach, SharingError } from "../../support/errors.ts";
import { escapeControls } from "../../support/printing.ts";
import type { ConsumerHub } from "../channel/channel_consumer.ts";
import {
  badMessage,
  type ChannelMessage,
  type FrameMessage,
  limitExceeded,
  maximumIdentifiers,
  type Message,
  type OfferMessage,
  type OfferNotice,
} from "../protocol/messages.ts";
import type { RemoteEvents } from "../events/remote_events.ts";
import type { RemoteMemory } from "./remote_memory.ts";
import { knownNames } from "../protocol/known_names.ts";
import { textByteLength } from "../protocol/metadata.ts";
import { RemoteOfferState } from "./remote_offer.ts";
import { TypeError } from "../../support/program_errors.ts";

/**
 * The maximum size of `#left`, the set of the channels that this importer has left and whose frames may still arrive.
 */
const maximumLeftChannels = 1024;

/** The dependencies of `RemoteOffers`, which its importer provides. */
export interface RemoteOffersParts {
  readonly memory: RemoteMemory;
  readonly events: RemoteEvents;
  /** Sends a message, unless the connection is closed. */
  send(message: Message): void;
  /** Returns whether messages are queued because the exporter reads them more slowly than they are sent. */
  isBacklogged(): boolean;
  /** The maximum number of bytes of the names and metadata of all offers. */
  readonly maximumMetadata: number;
}

/** The offers of an exporter, and the channels that the importer has joined. */
export class RemoteOffers {
  readonly #parts: RemoteOffersParts;
  readonly #offers = new Map<number, RemoteOfferState>();
  readonly #byName = new Map<string, RemoteOfferState>();
  /** Offers that were withdrawn while mapped, keyed by number. RECALL may still arrive for them. */
  readonly #withdrawn = new Map<number, RemoteOfferState>();
  /** The offer of a channel whose CHANNEL message has not arrived yet. */
  #incomplete: RemoteOfferState | undefined;
  /** The number of WITHDRAWN messages sent since the connection became backlogged. */
  #unreadAnswers = 0;
  readonly #iterations = new Set<OfferIteration>();
  /**
   * The consumers of joined channels, keyed by the number of the offer. Undefined while the channel is being joined.
   */
  readonly #joined = new Map<number, ConsumerHub | undefined>();
  /** The numbers of the channels that this importer has left most recently, whose frames may still arrive. */
  readonly #left = new Set<number>();
  readonly #budget: MetadataBudget;

  constructor(parts: RemoteOffersParts) {
    this.#parts = parts;
    this.#budget = new MetadataBudget(parts.maximumMetadata);
  }

  /** The number of offers that can be mapped. */
  get size(): number {
    return this.#offers.size;
  }

  /**
   * Returns the part of the error message for an unknown offer name: it lists the offered names that are similar, or
   * the first offered names if none is similar.
   */
  insteadOf(name: string): string {
    if (this.#byName.size === 0) return "the exporter offers nothing now";
    return knownNames(name, this.#byName, "the exporter offers");
  }

  find(name: string): RemoteOfferState | undefined {
    return this.#byName.get(name);
  }

  /** Starts an iteration over all current and future offers. */
  iterate(): OfferIteration {
    const iteration = new OfferIteration((ended) => this.#iterations.delete(ended));
    for (const state of this.#offers.values()) iteration.add(state);
    this.#iterations.add(iteration);
    return iteration;
  }

  /** Throws `bad-message` unless the OFFER of a channel is directly followed by its CHANNEL message. */
  checkOrder({ type }: Message): void {
    if (this.#incomplete === undefined || type === "channel") return;
    throw badMessage(`offer ${this.#incomplete.message.offer} is a channel, and "${type}" comes next`);
  }

  onOffer(message: OfferMessage): void {
    const { memory, events } = this.#parts;
    if (this.#offers.has(message.offer) || this.#withdrawn.has(message.offer)) {
      throw badMessage(`offer ${message.offer} is made twice`);
    }
    if (this.#byName.has(message.name)) throw badMessage(`two offers have the name ${JSON.stringify(message.name)}`);
    if (this.#offers.size >= maximumIdentifiers) {
      throw limitExceeded("accept another offer", `${maximumIdentifiers} offers of an exporter`);
    }
    memory.checkRange(message);
    this.#budget.add(textByteLength(message));
    if (message.readyEvent !== 0) events.retain(message.readyEvent);
    memory.retain(message);
    if (this.#left.size > 0) this.#left.delete(message.offer);
    const state = new RemoteOfferState(message);
    if (message.kind === "channel") this.#incomplete = state;
    else this.#add(state);
  }

  onChannel(message: ChannelMessage): void {
    const state = this.#incomplete;
    if (state?.message.offer !== message.offer) throw badMessage(`offer ${message.offer} is not a new channel`);
    const { byteLength } = state.message;
    const { readyEvents, slotStride } = message;
    if (readyEvents.length * slotStride !== byteLength) {
      throw badMessage(`a channel has ${readyEvents.length} slots of ${slotStride} bytes in a ring of ${byteLength}`);
    }
    for (const event of readyEvents) this.#parts.events.retain(event);
    state.channel = message;
    this.#incomplete = undefined;
    this.#add(state);
  }

  onWithdraw(offer: number): void {
    const state = this.#offers.get(offer);
    if (state === undefined) throw badMessage(`offer ${offer} was not made`);
    state.isWithdrawn = true;
    this.#offers.delete(offer);
    this.#byName.delete(state.message.name);
    this.#budget.remove(textByteLength(state.message));
    if (state.holds > 0) this.#withdrawn.set(offer, state);
    else this.#leaveChannel(offer);
    for (const iteration of this.#iterations) iteration.onWithdrawn();
    if (state.waiting === 0) this.answerWithdraw(state);
    if (!this.#parts.isBacklogged() || ++this.#unreadAnswers <= maximumIdentifiers) return;
    throw limitExceeded("answer another WITHDRAW", `${maximumIdentifiers} answers that the exporter does not read`);
  }

  /** Called when the connection to the exporter is no longer backlogged. */
  onDrain(): void {
    this.#unreadAnswers = 0;
  }

  onRecall(offer: number): void {
    // An offer is unknown if it was released while RECALL was in transit.
    const state = this.#offers.get(offer) ?? this.#withdrawn.get(offer);
    if (state === undefined) return;
    const { name } = state.message;
    state.recall(new SharingError("cut-off", `The exporter asks for "${name}" back: release it, or be cut off`));
  }

  /**
   * Sends WITHDRAWN, which states that this importer will neither map the withdrawn offer nor query its events again.
   */
  answerWithdraw({ message, channel }: RemoteOfferState): void {
    const { memory, events, send } = this.#parts;
    memory.release(message);
    if (message.readyEvent !== 0) events.release(message.readyEvent);
    for (const event of channel?.readyEvents ?? []) events.release(event);
    send({ type: "withdrawn", offer: message.offer });
  }

  hold(state: RemoteOfferState): void {
    const { message } = state;
    state.holds++;
    this.#parts.memory.retain(message);
    this.#parts.send({ type: "held", offer: message.offer });
  }

  release(state: RemoteOfferState, event: number): void {
    const { message } = state;
    const { offer } = message;
    state.holds--;
    if (state.holds === 0) {
      // The recall applied only to the mappings that are now released. Later mappings get a new signal.
      if (!state.isWithdrawn) state.clearRecall();
      // The exporter may now reuse the number of the offer.
      else if (this.#withdrawn.delete(offer)) this.#leaveChannel(offer);
    }
    this.#parts.memory.release(message);
    this.#parts.send({ type: "released", offer, event });
  }

  /**
   * Marks a channel as being joined. Throws a `TypeError` if the channel has already been joined in this connection. A
   * failed attempt does not count.
   */
  beginJoin({ offer, name }: OfferMessage): void {
    if (this.#joined.has(offer)) {
      throw new TypeError(`Cannot join "${escapeControls(name)}": this importer has joined it; connect again`);
    }
    this.#joined.set(offer, undefined);
  }

  /** Records the consumer of a joined channel. `consumer` is undefined if joining failed. */
  endJoin(offer: number, consumer: ConsumerHub | undefined): void {
    if (consumer === undefined) this.#joined.delete(offer);
    else this.#joined.set(offer, consumer);
  }

  /** Handles a FRAME or END message of a joined channel. */
  onFrame(message: FrameMessage | OfferNotice): void {
    const { offer } = message;
    const consumer = this.#joined.get(offer);
    if (consumer !== undefined) consumer.onMessage(message);
    else if (!this.#left.has(offer)) throw badMessage(`offer ${offer} was not joined`);
  }

  /** Handles the end of the connection. */
  onEnd(error: SharingError | undefined): void {
    const reason = error ?? new SharingError("peer-gone", "The exporter has closed");
    this.#budget.close();
    const offers = [...this.#offers.values(), ...this.#withdrawn.values()];
    runEach(
      ...[...this.#iterations].map((iteration) => () => iteration.wake()),
      ...offers.map((state) => () => state.recall(reason)),
      ...[...this.#joined.values()].map((consumer) => () => consumer?.onEnd(error)),
    );
  }

  #leaveChannel(offer: number): void {
    if (!this.#joined.delete(offer)) return;
    this.#left.add(offer);
    const [oldest] = this.#left;
    if (this.#left.size > maximumLeftChannels) this.#left.delete(oldest!);
  }

  /** Makes an offer available for mapping. */
  #add(state: RemoteOfferState): void {
    this.#offers.set(state.message.offer, state);
    this.#byName.set(state.message.name, state);
    for (const iteration of this.#iterations) iteration.add(state);
  }
}

/**
 * An iteration over the current and future offers of an exporter. Contains the offers that have not been returned yet.
 */
export class OfferIteration implements Disposable {
  /** The offers that have been added. May contain offers that were returned or withdrawn since the last `#sweep`. */
  #pending: RemoteOfferState[] = [];
  /** The number of offers at the start of `#pending` that `take` has returned or skipped. */
  #taken = 0;
  /** The number of offers withdrawn since the last `#sweep`. */
  #withdrawn = 0;
  readonly #onDispose: (iteration: OfferIteration) => void;
  #onAdded: (() => void) | undefined;

  constructor(onDispose: (iteration: OfferIteration) => void) {
    this.#onDispose = onDispose;
  }

  add(state: RemoteOfferState): void {
    this.#pending.push(state);
    this.wake();
  }

  /** Called when any offer was withdrawn. */
  onWithdrawn(): void {
    this.#withdrawn++;
    if (this.#withdrawn * 2 > this.#pending.length) this.#sweep();
  }

  take(): RemoteOfferState | undefined {
    while (this.#taken < this.#pending.length) {
      const state = this.#pending[this.#taken++]!;
      if (!state.isWithdrawn) return state;
    }
    this.#sweep();
    return undefined;
  }

  /** Removes the offers that were returned or withdrawn from `#pending`. */
  #sweep(): void {
    if (this.#pending.length === 0) return;
    this.#pending = this.#pending.slice(this.#taken).filter(({ isWithdrawn }) => !isWithdrawn);
    this.#taken = 0;
    this.#withdrawn = 0;
  }

  /** Calls the callback of `whenAdded`, because there is a new offer or the connection was closed. */
  wake(): void {
    const onAdded = this.#onAdded;
    this.#onAdded = undefined;
    onAdded?.();
  }

  /** Calls `callback` at the next `wake`. Returns a function that cancels the callback. */
  whenAdded(callback: () => void): () => void {
    this.#onAdded = callback;
    return () => this.#onAdded = undefined;
  }

  /** Ends the iteration. */
  [Symbol.dispose](): void {
    this.#pending = [];
    this.#onDispose(this);
  }
}

/**
 * The maximum number of bytes of names and metadata of the offers of all exporters together. A larger `maximumMetadata`
 * of an importer replaces this limit.
 */
const maximumInAll = 256 * 2 ** 20;

/** The number of bytes of names and metadata that all importers of this thread hold. */
let inAll = 0;

/**
 * Limits the bytes of names and metadata that the offers of one exporter occupy in this process, because the exporter
 * decides how many offers there are.
 */
export class MetadataBudget {
  readonly #maximum: number;
  #used = 0;
  #isClosed = false;

  /** @param maximum the maximum number of bytes for this exporter */
  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  /**
   * Counts the bytes of the name and metadata of a new offer.
   *
   * @throws {SharingError} `limit-exceeded` if the offers of this exporter or of all exporters would have too many
   * bytes
   */
  add(byteLength: number): void {
    const exceeding = `accept another offer, with ${byteLength} bytes of name and metadata`;
    if (this.#used + byteLength > this.#maximum) {
      const limit = `${this.#maximum} bytes for all offers of an exporter (maximumMetadata)`;
      throw limitExceeded(exceeding, `${limit}, of which ${this.#used} are used`);
    }
    const maximum = Math.max(maximumInAll, this.#maximum);
    if (inAll + byteLength > maximum) {
      throw limitExceeded(exceeding, `${maximum} bytes for the offers of all exporters, of which ${inAll} are used`);
    }
    this.#used += byteLength;
    if (!this.#isClosed) inAll += byteLength;
  }

  /** Stops counting the bytes of the name and metadata of a withdrawn offer. */
  remove(byteLength: number): void {
    this.#used -= byteLength;
    if (!this.#isClosed) inAll -= byteLength;
  }

  /** Stops counting the remaining offers toward the total of all exporters, because the connection was closed. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    inAll -= this.#used;
  }
}
