import { SharingError } from "../../support/errors.ts";
import type { ConsumerHub } from "../channel/channel_consumer.ts";
import {
  badMessage,
  type ChannelMessage,
  type FrameMessage,
  maximumIdentifiers,
  type Message,
  type OfferMessage,
  type OfferNotice,
} from "../protocol/messages.ts";
import type { RemoteEvents } from "../events/remote_events.ts";
import type { RemoteMemory } from "./remote_memory.ts";
import { RemoteOfferState } from "./remote_offer.ts";

/** Channels that were left and may still be spoken of. */
const rememberedChannels = 1024;

/** What the offers of an exporter lie in, and how it is told of them. */
export interface RemoteOffersParts {
  readonly memory: RemoteMemory;
  readonly events: RemoteEvents;
  /** Sends, unless the connection is at its end. */
  send(message: Message): void;
  /** Whether the exporter reads more slowly than it is answered. */
  isBacklogged(): boolean;
}

/** The offers of an exporter, as it has told of them. */
export class RemoteOffers {
  readonly #parts: RemoteOffersParts;
  readonly #offers = new Map<number, RemoteOfferState>();
  readonly #byName = new Map<string, RemoteOfferState>();
  /** Those that were withdrawn while they were held: they may still be asked for. */
  readonly #withdrawn = new Map<number, RemoteOfferState>();
  /** A channel of which the second message is to come. */
  #incomplete: RemoteOfferState | undefined;
  /** Answers that wait because the exporter reads nothing. */
  #unreadAnswers = 0;
  readonly #iterations = new Set<OfferIteration>();
  /** Channels that were joined, or are being joined, by the number of their offer. */
  readonly #joined = new Map<number, ConsumerHub | undefined>();
  /** Channels that were left, the latest: frames of theirs may be on their way. */
  readonly #left = new Set<number>();

  constructor(parts: RemoteOffersParts) {
    this.#parts = parts;
  }

  /** How many can be mapped. */
  get size(): number {
    return this.#offers.size;
  }

  named(name: string): RemoteOfferState | undefined {
    return this.#byName.get(name);
  }

  /** Begins to go through all that there are and those to come. */
  iterate(): OfferIteration {
    const iteration = new OfferIteration((ended) => this.#iterations.delete(ended));
    for (const state of this.#offers.values()) iteration.add(state);
    this.#iterations.add(iteration);
    return iteration;
  }

  /** What comes next must be the rest of a channel, if that is not complete. */
  checkOrder({ type }: Message): void {
    if (this.#incomplete === undefined || type === "channel") return;
    throw badMessage(`offer ${this.#incomplete.message.offer} is a channel, and "${type}" comes next`);
  }

  onOffer(message: OfferMessage): void {
    const { memory, events } = this.#parts;
    if (this.#offers.has(message.offer)) throw badMessage(`offer ${message.offer} is made twice`);
    if (this.#byName.has(message.name)) throw badMessage(`two offers have the name ${JSON.stringify(message.name)}`);
    if (this.#offers.size >= maximumIdentifiers) throw badMessage(`more than ${maximumIdentifiers} offers are made`);
    memory.check(message);
    if (message.readyEvent !== 0) events.use(message.readyEvent);
    memory.use(message);
    if (this.#left.size > 0) this.#left.delete(message.offer);
    const state = new RemoteOfferState(message);
    if (message.kind === "channel") this.#incomplete = state;
    else this.#add(state);
  }

  onChannel(message: ChannelMessage): void {
    const state = this.#incomplete;
    if (state?.message.offer !== message.offer) throw badMessage(`offer ${message.offer} is no new channel`);
    const { byteLength } = state.message;
    const { readyEvents, slotStride } = message;
    if (readyEvents.length * slotStride !== byteLength) {
      throw badMessage(`a channel has ${readyEvents.length} slots of ${slotStride} bytes in a ring of ${byteLength}`);
    }
    for (const event of readyEvents) this.#parts.events.use(event);
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
    if (state.holds > 0) this.#withdrawn.set(offer, state);
    else this.#forgetChannel(offer);
    for (const iteration of this.#iterations) iteration.onWithdrawn();
    if (state.waiting === 0) this.giveUp(state);
    if (!this.#parts.isBacklogged() || ++this.#unreadAnswers <= maximumIdentifiers) return;
    throw badMessage(`more than ${maximumIdentifiers} offers are withdrawn, and what is answered is not read`);
  }

  /** What was answered is read. */
  onDrain(): void {
    this.#unreadAnswers = 0;
  }

  onRecall(offer: number): void {
    // One that is unknown was released while this was on its way.
    const state = this.#offers.get(offer) ?? this.#withdrawn.get(offer);
    if (state === undefined) return;
    const { name } = state.message;
    state.recall(new SharingError("cut-off", `The exporter asks for "${name}" back: release it, or be cut off`));
  }

  /** An offer that was withdrawn is not mapped any more, nor is its ready event looked at. */
  giveUp({ message, channel }: RemoteOfferState): void {
    const { memory, events, send } = this.#parts;
    memory.leave(message);
    if (message.readyEvent !== 0) events.leave(message.readyEvent);
    for (const event of channel?.readyEvents ?? []) events.leave(event);
    send({ type: "withdrawn", offer: message.offer });
  }

  hold(state: RemoteOfferState): void {
    const { message } = state;
    state.holds++;
    this.#parts.memory.use(message);
    this.#parts.send({ type: "held", offer: message.offer });
  }

  letGo(state: RemoteOfferState, event: number): void {
    const { message } = state;
    const { offer } = message;
    state.holds--;
    if (state.holds === 0) {
      // Who maps it again has not been asked for it yet.
      if (!state.isWithdrawn) state.forgetRecall();
      // The number of an offer may come again with another meaning.
      else if (this.#withdrawn.delete(offer)) this.#forgetChannel(offer);
    }
    this.#parts.memory.leave(message);
    this.#parts.send({ type: "released", offer, event });
  }

  /** Begins to join a channel: once in a connection, unless it fails. */
  beginJoin({ offer, name }: OfferMessage): void {
    if (this.#joined.has(offer)) {
      throw new TypeError(`Cannot join "${name}": this importer has joined it; connect again`);
    }
    this.#joined.set(offer, undefined);
  }

  /** The channel is joined; or is not, where it has no consumer. */
  endJoin(offer: number, consumer: ConsumerHub | undefined): void {
    if (consumer === undefined) this.#joined.delete(offer);
    else this.#joined.set(offer, consumer);
  }

  /** A frame has come, or the last has. */
  onFrame(message: FrameMessage | OfferNotice): void {
    const { offer } = message;
    const consumer = this.#joined.get(offer);
    if (consumer !== undefined) consumer.onMessage(message);
    else if (!this.#left.has(offer)) throw badMessage(`offer ${offer} was not joined`);
  }

  /** The connection is at its end. */
  onEnd(error: SharingError | undefined): void {
    const reason = error ?? new SharingError("peer-gone", "The exporter has closed");
    for (const iteration of this.#iterations) iteration.wake();
    for (const state of [...this.#offers.values(), ...this.#withdrawn.values()]) state.recall(reason);
    for (const consumer of [...this.#joined.values()]) consumer?.onEnd(error);
  }

  #forgetChannel(offer: number): void {
    if (!this.#joined.delete(offer)) return;
    this.#left.add(offer);
    const [oldest] = this.#left;
    if (this.#left.size > rememberedChannels) this.#left.delete(oldest!);
  }

  /** From now on it may be mapped. */
  #add(state: RemoteOfferState): void {
    this.#offers.set(state.message.offer, state);
    this.#byName.set(state.message.name, state);
    for (const iteration of this.#iterations) iteration.add(state);
  }
}

/** One iteration over offers: those that it has yet to give. */
export class OfferIteration implements Disposable {
  /** Some of them may have been withdrawn. */
  #pending: RemoteOfferState[] = [];
  /** Of these, so many were taken. */
  #taken = 0;
  /** So many were withdrawn since they were looked through. */
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

  /** One of those that were added is withdrawn. */
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

  /** Keeps no more than what is yet to be given. */
  #sweep(): void {
    if (this.#pending.length === 0) return;
    this.#pending = this.#pending.slice(this.#taken).filter(({ isWithdrawn }) => !isWithdrawn);
    this.#taken = 0;
    this.#withdrawn = 0;
  }

  /** There is something to look at. */
  wake(): void {
    const onAdded = this.#onAdded;
    this.#onAdded = undefined;
    onAdded?.();
  }

  /** Calls back at the next wake. Returns what ends that. */
  whenAdded(callback: () => void): () => void {
    this.#onAdded = callback;
    return () => this.#onAdded = undefined;
  }

  /** Nothing more is given. */
  [Symbol.dispose](): void {
    this.#pending = [];
    this.#onDispose(this);
  }
}
