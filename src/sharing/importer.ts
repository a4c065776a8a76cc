import type { Cuda } from "../cuda.ts";
import type { CudaStream } from "../cuda_stream.ts";
import { printAs } from "../custom_inspect.ts";
import { DeviceBuffer, partsOf } from "../device_buffer.ts";
import { SharingError } from "../errors.ts";
import { giveBack } from "../explain.ts";
import { FreedStreams } from "../freed_streams.ts";
import { type ImportedMemoryPool, whenGivenUp } from "../imported_memory_pool.ts";
import { shim } from "../../ffi/shim/shim.ts";
import { checkMilliseconds } from "../validation.ts";
import { type WaitOptions, whenDone } from "../waiting.ts";
import { ChannelConsumer, type ConsumerHub, type ConsumerOptions } from "./channel_consumer.ts";
import { greet } from "./handshake.ts";
import { MessageStream } from "./message_stream.ts";
import type { ChannelMessage, ForgetMessage, Message, OfferMessage } from "./messages.ts";
import { type OwnEvent, OwnEvents } from "./own_events.ts";
import { badMessage, PeerEvents } from "./peer_events.ts";
import { RemoteMemory } from "./remote_memory.ts";
import { type MapOptions, RemoteOffer, RemoteOfferState } from "./remote_offer.ts";
import { type Peer, UnixSocket } from "./unix_socket.ts";
import { until } from "./until.ts";
import { checkUser } from "./users.ts";

/** Options of `Importer.connect`. */
export interface ImporterOptions extends WaitOptions {
  /** Numbers of other users whose exporters may be connected to; none but this user's own unless given. */
  users?: readonly number[];
  /** Milliseconds that the exporter has to answer: 5000 unless given. */
  handshakeTimeout?: number;
  /** Milliseconds in which a message must be complete once it has begun: 5000 unless given. */
  messageTimeout?: number;
  /** Milliseconds that the exporter has to acknowledge releases when this is disposed: 5000 unless given. */
  closeTimeout?: number;
}

/** As many as an exporter may have at once. */
const maximumOffers = 65_536;

/**
 * A connection to an exporter: what it offers, and what of that is mapped here.
 *
 * When the exporter dies, what is mapped stays readable until it is freed; every wait is rejected.
 *
 * @example
 * ```ts ignore
 * await using importer = await Importer.connect(cuda, "/run/user/1000/frames.sock");
 * for await (const offer of importer.offers()) console.log(offer.name, offer.metadata);
 * ```
 */
export class Importer implements AsyncDisposable {
  /** The exporter's process. */
  readonly peer: Peer;
  readonly #cuda: Cuda;
  readonly #stream: MessageStream;
  readonly #closeTimeout: number;
  readonly #memory: RemoteMemory;
  readonly #peerEvents: PeerEvents;
  readonly #ownEvents = new OwnEvents();
  /** Own events that the exporter was told of. */
  readonly #told = new Set<number>();
  /** Own events that the exporter looks at. */
  readonly #lent = new Set<number>();
  readonly #offers = new Map<number, RemoteOfferState>();
  readonly #byName = new Map<string, RemoteOfferState>();
  /** How often each is held. */
  readonly #holds = new Map<number, number>();
  /** Those that were withdrawn while they were held: they may still be asked for. */
  readonly #withdrawn = new Map<number, RemoteOfferState>();
  /** A channel of which the second message is to come. */
  #incomplete: RemoteOfferState | undefined;
  /** Answers that wait because the exporter reads nothing. */
  #unreadAnswers = 0;
  /** Iterations, with the offers that each has yet to give. */
  readonly #iterations = new Set<Iteration>();
  readonly #mapped = new Set<DeviceBuffer | ImportedMemoryPool>();
  /** By the number of their offer. */
  readonly #consumers = new Map<number, ConsumerHub>();
  /** Channels that were joined, or are being joined, by the number of their offer. */
  readonly #joining = new Set<number>();
  readonly #joined = new Set<ChannelConsumer>();
  /** Releases that the exporter is told of when they are done. */
  #releasing = 0;
  readonly #freedOn = new FreedStreams();
  /** Ends waits for events of the exporter's. */
  readonly #waits = new Set<() => void>();
  /** Offers that are about to be mapped. */
  #mapping = 0;
  /** Whether something could not be released: the device is lost, or its `Cuda` object was disposed. */
  #isStuck = false;
  readonly #onEnd = new Set<() => void>();
  readonly #onReturn = new Set<() => void>();
  /** Set when the connection is at its end: why, where that is not the exporter's own wish. */
  #end: { readonly error: SharingError | undefined } | undefined;
  #isDisposed = false;
  #closed: Promise<void> | undefined;

  static {
    printAs(this, (importer) => {
      const state = importer.#isDisposed ? ", disposed" : importer.#end !== undefined ? ", disconnected" : "";
      return `Importer { process ${importer.peer.pid}, ${importer.#offers.size} offers, ` +
        `${importer.#mapped.size} mapped${state} }`;
    });
  }

  private constructor(cuda: Cuda, stream: MessageStream, closeTimeout: number) {
    this.#cuda = cuda;
    this.#stream = stream;
    this.#closeTimeout = closeTimeout;
    this.peer = stream.peer;
    this.#memory = new RemoteMemory(cuda);
    this.#peerEvents = new PeerEvents((uuid) => cuda.devices.find((device) => device.uuid === uuid));
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain: () => this.#unreadAnswers = 0,
      onEnd: (error) => this.#disconnected(error),
    });
  }

  /**
   * Connects to the exporter that listens at a path.
   *
   * @throws {SharingError} as `UnixSocket.connect` does; `not-permitted` where either does not serve the other's user,
   * `version-mismatch`, `timed-out`, `bad-message` where something else listens there, `peer-gone`
   */
  static async connect(cuda: Cuda, path: string, options: ImporterOptions = {}): Promise<Importer> {
    const { signal, users = [] } = options;
    const handshakeTimeout = checkMilliseconds(options.handshakeTimeout ?? 5000, "handshakeTimeout");
    const messageTimeout = checkMilliseconds(options.messageTimeout ?? 5000, "messageTimeout");
    const closeTimeout = checkMilliseconds(options.closeTimeout ?? 5000, "closeTimeout");
    const socket = await UnixSocket.connect(path, { signal: signal! });
    let stream: MessageStream;
    try {
      checkUser(`use what process ${socket.peer.pid} offers at ${path}`, socket.peer, users);
      stream = new MessageStream(socket, { messageTimeout });
    } catch (error) {
      await socket[Symbol.asyncDispose]();
      throw error;
    }
    try {
      await greet(stream, { handshakeTimeout, signal: signal! });
    } catch (error) {
      stream.process[Symbol.dispose]();
      throw error;
    }
    return new Importer(cuda, stream, closeTimeout);
  }

  /** Whether the exporter is still there. */
  get isConnected(): boolean {
    return this.#end === undefined && !this.#isDisposed;
  }

  /**
   * The offers that there are and those to come, until the exporter closes; withdrawn ones are left out.
   *
   * @throws {SharingError} `peer-gone` and others, when the connection ends otherwise
   */
  async *offers(options: WaitOptions = {}): AsyncGenerator<RemoteOffer, void> {
    this.#check("see what is offered");
    const iteration = new Iteration();
    for (const state of this.#offers.values()) iteration.add(state);
    this.#iterations.add(iteration);
    try {
      for (;;) {
        options.signal?.throwIfAborted();
        const state = iteration.take();
        if (state !== undefined) {
          yield this.#offerOf(state);
        } else {
          if (this.#end?.error !== undefined) throw this.#end.error;
          if (this.#end !== undefined) return;
          await until((resolve) => iteration.whenAdded(resolve), options);
        }
      }
    } finally {
      this.#iterations.delete(iteration);
    }
  }

  /** `offers()`. */
  [Symbol.asyncIterator](): AsyncGenerator<RemoteOffer, void> {
    return this.offers();
  }

  /**
   * The offer of a name: at once, or as soon as it is made.
   *
   * @throws {SharingError} `not-found` when the exporter closes before it is, `peer-gone` and others
   */
  async offer(name: string, options: WaitOptions = {}): Promise<RemoteOffer> {
    this.#check(`wait for "${name}"`);
    const known = this.#byName.get(name);
    if (known !== undefined) {
      options.signal?.throwIfAborted();
      return this.#offerOf(known);
    }
    for await (const offer of this.offers(options)) if (offer.name === name) return offer;
    this.#check(`wait for "${name}"`);
    throw new SharingError("not-found", `Cannot get "${name}": the exporter has closed without offering it`);
  }

  /**
   * Joins the channel of a name: at once, or as soon as it is made. Frames that are sent from then on come here too.
   *
   * @throws {TypeError} where a buffer or a pool has the name
   * @throws {SharingError} as `offer` and `RemoteOffer.map` do
   */
  async channel(name: string, options: ConsumerOptions = {}): Promise<ChannelConsumer> {
    await this.offer(name, options);
    const state = this.#byName.get(name);
    if (state === undefined) throw new SharingError("not-found", `Cannot join "${name}": it was withdrawn`);
    const { message, channel } = state;
    if (channel === undefined) {
      throw new TypeError(`Cannot join "${name}": it is a ${message.kind}; use Importer.offer`);
    }
    this.#checkOffered(state);
    if (this.#joining.has(message.offer)) {
      throw new TypeError(`Cannot join "${name}": this importer has joined it; connect again`);
    }
    this.#joining.add(message.offer);
    this.#hold(message);
    this.#mapping++;
    try {
      if (!state.isReady) await this.#ready(state, options.signal);
      this.#check(`join "${name}"`);
      return this.#join(state, channel, options.stream);
    } catch (error) {
      this.#joining.delete(message.offer);
      this.#letGo(message, 0);
      throw error;
    } finally {
      this.#mapping--;
      this.#checkReturned();
    }
  }

  /**
   * Releases what is still mapped, each buffer on its stream, and ends the connection. Resolves when the work with all of
   * it is done and the exporter knows; an exporter that does not answer is waited for as long as `closeTimeout` says.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    this.#isDisposed = true;
    for (const endWait of [...this.#waits]) endWait();
    const releases = [...this.#joined].map((consumer) => consumer[Symbol.asyncDispose]());
    for (const mapped of [...this.#mapped]) releases.push(this.#dispose(mapped));
    const results = await Promise.allSettled(releases);
    if (this.#end === undefined) await this.#returned();
    if (this.#end === undefined) {
      if (this.#isStuck) this.#stream.end("failed", "what was mapped could not be released");
      else this.#stream.end("done");
    }
    this.#disconnected(undefined);
    await this.#freedOn.finished();
    const pools = this.#memory.close();
    // What could not be released keeps its pool.
    if (!this.#isStuck) { for (const pool of pools) giveBack(() => pool[Symbol.dispose]()); }
    this.#peerEvents.close();
    this.#endEvents();
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }

  /** Releases what the application has not. */
  async #dispose(mapped: DeviceBuffer | ImportedMemoryPool): Promise<void> {
    try {
      if (mapped instanceof DeviceBuffer && mapped.stream.disposed) {
        // Its work goes on, and nothing less can be waited for.
        await mapped.device.finished();
        mapped.stream = mapped.device.defaultStream;
      }
      giveBack(() => mapped[Symbol.dispose]());
    } catch (error) {
      this.#mapped.delete(mapped);
      this.#isStuck = true;
      throw error;
    }
  }

  /** What the exporter may still look at stays until it is gone. */
  #endEvents(): void {
    const { process } = this.#stream;
    const end = (): void => {
      this.#ownEvents.close();
      process[Symbol.dispose]();
    };
    if (this.#lent.size === 0 || process.hasEnded) return end();
    process.keepAlive(false);
    process.whenEnded(end);
  }

  /** Waits for reads of what was freed, and for the exporter to give back what it looks at. */
  #returned(): Promise<void> {
    const isOver = (): boolean =>
      this.#lent.size === 0 && this.#mapped.size === 0 && this.#releasing === 0 && this.#mapping === 0;
    if (isOver()) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#onReturn.delete(check);
        this.#onEnd.delete(done);
        resolve();
      };
      const check = (): void => {
        if (isOver()) done();
      };
      const timer = setTimeout(done, this.#closeTimeout);
      this.#onReturn.add(check);
      this.#onEnd.add(done);
    });
  }

  #offerOf(state: RemoteOfferState): RemoteOffer {
    return new RemoteOffer(state, {
      map: (each, options) => this.#map(each, options),
      importPool: (each) => this.#importPool(each),
    });
  }

  async #map(state: RemoteOfferState, { stream, signal }: MapOptions): Promise<DeviceBuffer> {
    signal?.throwIfAborted();
    const { message } = state;
    if (message.kind !== "buffer") {
      throw new TypeError(
        message.kind === "pool"
          ? `Cannot map "${message.name}": it is a whole pool; use importPool`
          : `Cannot map "${message.name}": it is a channel; use Importer.channel`,
      );
    }
    this.#checkOffered(state);
    this.#hold(message);
    this.#mapping++;
    let inner: { whole: DeviceBuffer; pool: ImportedMemoryPool } | undefined;
    try {
      inner = this.#memory.map(message.allocation);
      if (!state.isReady) await this.#ready(state, signal);
      this.#check(`map "${message.name}"`);
      return this.#bufferOf(state, inner, stream ?? inner.whole.device.defaultStream);
    } catch (error) {
      if (inner === undefined) this.#letGo(message, 0);
      else this.#unmap(inner.whole, message);
      throw error;
    } finally {
      this.#mapping--;
      this.#checkReturned();
    }
  }

  /** Gives up what the application did not get. The exporter is told once it is unmapped. */
  #unmap(whole: DeviceBuffer, message: OfferMessage): void {
    const { stream } = whole;
    this.#freedOn.note(stream);
    giveBack(() => whole.free());
    this.#tellLater(stream, () => this.#letGo(message, 0));
  }

  #join(state: RemoteOfferState, channel: ChannelMessage, stream: CudaStream | undefined): ChannelConsumer {
    const { offer, allocation } = state.message;
    const { whole, pool } = this.#memory.map(allocation);
    try {
      const events: OwnEvent[] = [];
      const consumer: ChannelConsumer = new ChannelConsumer({
        offer: state.message,
        channel,
        whole,
        stream: stream ?? whole.device.defaultStream,
        recalled: () => state.recalled,
        openEvent: (event) => this.#peerEvents.open(event),
        send: (message) => this.#send(message),
        release: (onto, slot, tell) => {
          const isSeen = onto.device === pool.device;
          this.#release(onto, isSeen, () => events[slot] ??= this.#ownEvents.take(onto.device), tell);
        },
        close: () => {
          this.#joined.delete(consumer);
          this.#freedOn.note(whole.stream);
          for (const event of channel.readyEvents) if (this.#end === undefined) this.#peerEvents.leave(event);
          this.#letGo(state.message, 0);
          // The slots were released after the same work: the exporter has seen, or need not see, their events.
          for (const event of events) if (event !== undefined) this.#ownEvents.giveBack(event);
        },
      }, (hub) => this.#consumers.set(offer, hub));
      for (const event of channel.readyEvents) this.#peerEvents.use(event);
      this.#joined.add(consumer);
      return consumer;
    } catch (error) {
      this.#consumers.delete(offer);
      this.#freedOn.note(whole.stream);
      giveBack(() => whole.free());
      throw error;
    }
  }

  #bufferOf(
    state: RemoteOfferState,
    { whole, pool }: { whole: DeviceBuffer; pool: ImportedMemoryPool },
    stream: CudaStream,
  ): DeviceBuffer {
    const { byteOffset, byteLength, pool: poolIdentifier } = state.message;
    const [session, owner, , address] = partsOf(whole, byteOffset, byteOffset + byteLength);
    const isHostMemory = this.#memory.isHostMemory(poolIdentifier);
    const buffer = new DeviceBuffer(
      session,
      {
        isHostMemory: owner.isHostMemory ?? false,
        release: (_address, _byteLength, onto) => {
          this.#mapped.delete(buffer);
          try {
            whole.free(onto);
            this.#freedOn.note(onto);
            const isSeen = onto.device === pool.device && !isHostMemory;
            this.#release(onto, isSeen, () => this.#ownEvents.take(onto.device), (event) => {
              if (event !== 0 && this.#end === undefined) this.#lent.add(event);
              this.#letGo(state.message, event);
            });
          } catch (error) {
            // The exporter is not told: this process has the memory mapped until it ends.
            this.#isStuck = true;
            throw error;
          }
          this.#checkReturned();
        },
      },
      pool,
      address,
      byteLength,
      stream,
    );
    this.#mapped.add(buffer);
    return buffer;
  }

  #importPool(state: RemoteOfferState): ImportedMemoryPool {
    const { message } = state;
    if (message.kind !== "pool") {
      throw new TypeError(`Cannot import the pool of "${message.name}": a buffer is offered; use map`);
    }
    this.#checkOffered(state);
    const pool = this.#memory.importPool(message.pool);
    this.#hold(message);
    this.#mapped.add(pool);
    whenGivenUp(pool, () => {
      this.#mapped.delete(pool);
      this.#letGo(message, 0);
    });
    return pool;
  }

  /** Waits until an offer may be read, or its exporter is gone. */
  async #ready(state: RemoteOfferState, signal: AbortSignal | undefined): Promise<void> {
    const event = this.#peerEvents.open(state.message.readyEvent);
    state.waiting++;
    try {
      await this.#fired(() => event.query(), signal);
      state.isReady = true;
    } finally {
      state.waiting--;
      if (state.isWithdrawn && state.waiting === 0) this.#giveUp(state);
    }
  }

  /** Waits for an event of the exporter's, no longer than there is an exporter: an event of a dead process never fires. */
  #fired(hasFired: () => boolean, signal: AbortSignal | undefined): Promise<void> {
    return until<void>((resolve, reject) => {
      const forget = (): void => {
        cancel();
        this.#waits.delete(onEnd);
      };
      const onEnd = (): void => {
        forget();
        // What fired before the exporter died stays so.
        try {
          if (hasFired()) resolve();
          else reject(this.#gone("wait for it to be ready"));
        } catch (error) {
          reject(error);
        }
      };
      this.#waits.add(onEnd);
      const cancel = whenDone(hasFired, (error) => {
        this.#waits.delete(onEnd);
        if (error === undefined) resolve();
        else reject(error);
      });
      return forget;
    }, { signal: signal! });
  }

  /**
   * Tells the exporter how far a stream must get: by an event that it can look at, or, where it may not see the stream's
   * device, once the stream has got there.
   *
   * @param eventOf gives an event of the stream's device
   */
  #release(stream: CudaStream, isSeen: boolean, eventOf: () => OwnEvent, tell: (event: number) => void): void {
    if (this.#end !== undefined) return;
    const isOwnProcess = this.peer.pid === shim().poolpass_getpid();
    if (!isSeen || isOwnProcess) return stream.query() ? tell(0) : this.#tellLater(stream, tell);
    const { event, message } = eventOf();
    stream.record(event);
    if (!this.#told.has(message.event)) {
      this.#told.add(message.event);
      this.#stream.send(message);
    }
    tell(message.event);
  }

  #tellLater(stream: CudaStream, tell: (event: number) => void): void {
    this.#releasing++;
    // Where the device is lost, its work is done with, too.
    const done = (): void => {
      this.#releasing--;
      tell(0);
      this.#checkReturned();
    };
    stream.finished().then(done, done);
  }

  #send(message: Message): void {
    if (this.#end === undefined) this.#stream.send(message);
  }

  #onMessage(message: Message): void {
    if (this.#incomplete !== undefined && message.type !== "channel") {
      throw badMessage(`offer ${this.#incomplete.message.offer} is a channel, and "${message.type}" comes next`);
    }
    switch (message.type) {
      case "pool":
        return this.#memory.definePool(message);
      case "allocation":
        return this.#memory.defineAllocation(message);
      case "event":
        return this.#peerEvents.define(message);
      case "offer":
        return this.#onOffer(message);
      case "withdraw":
        return this.#onWithdraw(this.#state(message.offer));
      case "recall":
        // One that is unknown was released while this was on its way.
        return this.#onRecall(this.#offers.get(message.offer) ?? this.#withdrawn.get(message.offer));
      case "forget":
        return this.#onForget(message);
      case "event-free":
        return this.#onEventFree(message.event);
      case "channel":
        return this.#onChannel(message);
      case "frame":
      case "end":
        return this.#consumer(message.offer).onMessage(message);
      default:
        throw badMessage(`a message "${message.type}" comes from an exporter`);
    }
  }

  #onOffer(message: OfferMessage): void {
    if (this.#offers.has(message.offer)) throw badMessage(`offer ${message.offer} is made twice`);
    if (this.#byName.has(message.name)) throw badMessage(`two offers have the name ${JSON.stringify(message.name)}`);
    if (this.#offers.size >= maximumOffers) throw badMessage(`more than ${maximumOffers} offers are made`);
    this.#memory.check(message);
    if (message.readyEvent !== 0) this.#peerEvents.use(message.readyEvent);
    this.#memory.use(message);
    const state = new RemoteOfferState(message);
    if (message.kind === "channel") this.#incomplete = state;
    else this.#add(state);
  }

  #onChannel(message: ChannelMessage): void {
    const state = this.#incomplete;
    if (state?.message.offer !== message.offer) throw badMessage(`offer ${message.offer} is no new channel`);
    const { byteLength } = state.message;
    const { readyEvents, slotStride } = message;
    if (readyEvents.length * slotStride !== byteLength) {
      throw badMessage(`a channel has ${readyEvents.length} slots of ${slotStride} bytes in a ring of ${byteLength}`);
    }
    for (const event of readyEvents) this.#peerEvents.use(event);
    state.channel = message;
    this.#incomplete = undefined;
    this.#add(state);
  }

  /** From now on it may be mapped. */
  #add(state: RemoteOfferState): void {
    const { offer, name } = state.message;
    this.#offers.set(offer, state);
    this.#byName.set(name, state);
    for (const iteration of this.#iterations) iteration.add(state);
  }

  #consumer(offer: number): ConsumerHub {
    const consumer = this.#consumers.get(offer);
    if (consumer === undefined) throw badMessage(`offer ${offer} was not joined`);
    return consumer;
  }

  #onRecall(state: RemoteOfferState | undefined): void {
    if (state === undefined) return;
    const { name } = state.message;
    state.recall(new SharingError("cut-off", `The exporter asks for "${name}" back: release it, or be cut off`));
  }

  #onWithdraw(state: RemoteOfferState): void {
    state.isWithdrawn = true;
    this.#offers.delete(state.message.offer);
    if (this.#holds.has(state.message.offer)) this.#withdrawn.set(state.message.offer, state);
    else this.#forgetChannel(state.message.offer);
    this.#byName.delete(state.message.name);
    for (const iteration of this.#iterations) iteration.remove(state);
    if (state.waiting === 0) this.#giveUp(state);
    if (!this.#stream.isBacklogged || ++this.#unreadAnswers <= maximumOffers) return;
    throw badMessage(`more than ${maximumOffers} offers are withdrawn, and what is answered is not read`);
  }

  /** An offer is not mapped any more, nor is its ready event looked at. */
  #giveUp({ message, channel }: RemoteOfferState): void {
    if (this.#end !== undefined) return;
    this.#memory.leave(message);
    if (message.readyEvent !== 0) this.#peerEvents.leave(message.readyEvent);
    for (const event of channel?.readyEvents ?? []) this.#peerEvents.leave(event);
    this.#stream.send({ type: "withdrawn", offer: message.offer });
  }

  /** The number of an offer may come again with another meaning. */
  #forgetChannel(offer: number): void {
    this.#consumers.delete(offer);
    this.#joining.delete(offer);
  }

  #hold(message: OfferMessage): void {
    const { offer } = message;
    this.#holds.set(offer, (this.#holds.get(offer) ?? 0) + 1);
    this.#memory.use(message);
    this.#stream.send({ type: "held", offer: message.offer });
  }

  #letGo(message: OfferMessage, event: number): void {
    if (this.#end !== undefined) return;
    const { offer } = message;
    const holds = this.#holds.get(offer)! - 1;
    if (holds > 0) {
      this.#holds.set(offer, holds);
    } else {
      this.#holds.delete(offer);
      // Who maps it again has not been asked for it yet.
      this.#offers.get(offer)?.forgetRecall();
      if (this.#withdrawn.delete(offer)) this.#forgetChannel(offer);
    }
    this.#memory.leave(message);
    this.#stream.send({ type: "released", offer: message.offer, event });
  }

  #onForget({ kind, identifier }: ForgetMessage): void {
    switch (kind) {
      case "event":
        return this.#peerEvents.forget(identifier);
      case "allocation":
        return this.#memory.forgetAllocation(identifier);
      case "pool": {
        const imported = this.#memory.forgetPool(identifier);
        if (imported === undefined) return;
        // Its dispose waits for the frees: here they are done before.
        void this.#freedOn.finished().then(() => giveBack(() => imported[Symbol.dispose]()));
      }
    }
  }

  #onEventFree(event: number): void {
    if (!this.#lent.delete(event)) throw badMessage(`event ${event} is given back and was not lent`);
    this.#ownEvents.giveBack(this.#ownEvents.get(event)!);
    this.#checkReturned();
  }

  #state(offer: number): RemoteOfferState {
    const state = this.#offers.get(offer);
    if (state === undefined) throw badMessage(`offer ${offer} was not made`);
    return state;
  }

  #disconnected(error: SharingError | undefined): void {
    if (this.#end !== undefined) return;
    this.#end = { error };
    const reason = error ?? new SharingError("peer-gone", "The exporter has closed");
    for (const state of [...this.#offers.values(), ...this.#withdrawn.values()]) state.recall(reason);
    for (const iteration of this.#iterations) iteration.wake();
    for (const callback of [...this.#waits, ...this.#onEnd]) callback();
    for (const consumer of this.#consumers.values()) consumer.onEnd(error);
  }

  #checkReturned(): void {
    for (const check of this.#onReturn) check();
  }

  #gone(action: string): Error {
    if (this.#isDisposed) return new ReferenceError(`Cannot ${action}: the importer was disposed`);
    return this.#end?.error ?? new SharingError("peer-gone", `Cannot ${action}: the exporter has closed`);
  }

  #checkOffered(state: RemoteOfferState): void {
    const { name } = state.message;
    this.#check(`map "${name}"`);
    if (this.#end !== undefined) throw this.#gone(`map "${name}"`);
    if (state.isWithdrawn) {
      throw new SharingError("not-found", `Cannot map "${name}": the exporter has withdrawn it`);
    }
  }

  #check(action: string): void {
    if (this.#isDisposed) throw new ReferenceError(`Cannot ${action}: the importer was disposed`);
  }
}

/** One iteration over offers: those that it has yet to give. */
class Iteration {
  readonly #pending = new Set<RemoteOfferState>();
  #onAdded: (() => void) | undefined;

  add(state: RemoteOfferState): void {
    this.#pending.add(state);
    this.wake();
  }

  remove(state: RemoteOfferState): void {
    this.#pending.delete(state);
  }

  take(): RemoteOfferState | undefined {
    const [state] = this.#pending;
    if (state !== undefined) this.#pending.delete(state);
    return state;
  }

  /** There is something to look at. */
  wake(): void {
    const onAdded = this.#onAdded;
    this.#onAdded = undefined;
    onAdded?.();
  }

  whenAdded(callback: () => void): () => void {
    this.#onAdded = callback;
    return () => this.#onAdded = undefined;
  }
}
