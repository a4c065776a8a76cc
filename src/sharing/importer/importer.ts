import { Cuda, sessionOf } from "../../objects/cuda.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { optionsOf, type OrStream } from "../../objects/streams/stream_option.ts";
import type { OpenedObject, OpenedObjects } from "../../objects/opened_objects.ts";
import { finishedWithoutErrors } from "../../objects/device_sessions.ts";
import { countOf, escapeControls, printAs, refuseUsing } from "../../support/printing.ts";
import { Allocation, type AllocationOwner } from "../../memory/allocation.ts";
import { allocationOf, DeviceBuffer } from "../../memory/device_buffer.ts";
import { errorsOf, runEach, SharingError } from "../../support/errors.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { shareableAdvice } from "../../memory/handles/export_data.ts";
import { FreedStreams } from "../../memory/freed_streams.ts";
import {
  type ImportedMemoryPool,
  setLenderEnd,
  whenImportedPoolDisposed,
} from "../../memory/handles/imported_memory_pool.ts";
import {
  checkMaximum,
  checkMilliseconds,
  checkOptions,
  type KnownOptions,
  type OptionNames,
  shown,
  whatIs,
} from "../../support/validation.ts";
import { disposedMeanwhile, throwIfAborted, type WaitOptions, waitOptionsOf } from "../../support/waiting/waiting.ts";
import { ChannelConsumer, type ConsumerOptions, consumerOptions } from "../channel/channel_consumer.ts";
import { MessageStream } from "../protocol/message_stream.ts";
import {
  badMessage,
  type ChannelMessage,
  defaultMaximumMetadata,
  type ForgetMessage,
  maximumIdentifiers,
  type Message,
  type OfferMessage,
  requestHandleVersion,
} from "../protocol/messages.ts";
import { checkOfferName, type JsonValue } from "../protocol/metadata.ts";
import { type LocalEvent, type MemoryRelease, ReleaseEvents, type SendRelease } from "../events/local_events.ts";
import { RemoteEvents } from "../events/remote_events.ts";
import { EndingPools } from "./ending_pools.ts";
import { PoolHandles } from "./pool_handles.ts";
import { RemoteMemory } from "./remote_memory.ts";
import { type MapOptions, RemoteOffer, type RemoteOfferOwner, type RemoteOfferState } from "./remote_offer.ts";
import { RemoteOffers } from "./remote_offers.ts";
import { abortable, ConditionVariable } from "../transport/abortable.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { connectToExporter } from "./connect_to_exporter.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of `Importer.connect`. */
export interface ImporterOptions extends WaitOptions {
  /** IDs of other users whose exporters are trusted. By default, only exporters of this process's user are trusted. */
  users?: readonly number[];
  /**
   * Whether to wait for an exporter if none listens at the path yet, or if the exporter stops listening before the
   * handshake is complete. A signal can abort the wait. Errors that waiting cannot fix still reject immediately: access
   * to the path is not permitted, the path is too long, the file at the path is not a socket, or an exporter refuses
   * the connection, has another version, or exceeds `handshakeTimeout`. False by default: connecting then fails with
   * `not-found` or `not-listening`.
   */
  wait?: boolean;
  /**
   * Milliseconds within which an exporter that listens must accept the connection and complete the handshake: 5000 by
   * default.
   */
  handshakeTimeout?: number;
  /** Milliseconds from the first byte of a message within which the whole message must arrive: 5000 by default. */
  messageTimeout?: number;
  /**
   * The maximum total size in bytes of the names and metadata of all current offers of the exporter: 64 MiB by default.
   */
  maximumMetadata?: number;
  /**
   * Milliseconds for which disposing of the importer waits for the exporter to acknowledge releases: 5000 by default.
   */
  closeTimeout?: number;
  /**
   * The kinds of memory that may be mapped: `"any"` by default. With `"virtual"`, only virtual memory can be mapped,
   * that is, memory that the exporter allocated with `CudaDevice.allocate` and handleType "posix-fd", and no event of
   * the exporter is opened. Use `"virtual"` for exporters of untrusted users: virtual memory is imported through a file
   * descriptor alone, without any data from the exporter that CUDA's driver would have to trust.
   */
  memory?: "any" | "virtual";
}

/** The names of all importer options, for validation. */
export const importerOptionNames: OptionNames<ImporterOptions> = {
  users: true,
  handshakeTimeout: true,
  messageTimeout: true,
  maximumMetadata: true,
  closeTimeout: true,
  memory: true,
  wait: true,
  signal: true,
};

const importerOptions: KnownOptions<ImporterOptions> = {
  action: "connect to an exporter",
  names: importerOptionNames,
  instead: { timeout: "to limit the whole wait, give signal: AbortSignal.timeout(1000)" },
};
const offersOptions = waitOptionsOf("wait for an offer");
const mapOptions: KnownOptions<MapOptions> = { action: "map an offer", names: { stream: true, signal: true } };

/** The reason stated by the error when a buffer is used after its importer was disposed of. */
const importerEnd = "its importer was disposed; use it before";

/**
 * A connection to an exporter: its offers, and the memory of these offers that this process has mapped.
 *
 * If the exporter dies, mapped memory stays readable until it is freed, and every pending wait rejects.
 *
 * @example
 * ```ts ignore
 * await using importer = await Importer.connect(cuda, "/run/user/1000/frames.sock");
 * for await (const offer of importer.offers()) console.log(offer);
 * ```
 */
export class Importer implements AsyncDisposable {
  /** The process of the exporter. */
  readonly peer: Peer;
  readonly #stream: MessageStream;
  readonly #opened: OpenedObject;
  readonly #openedObjects: OpenedObjects;
  readonly #closeTimeout: number;
  /** Whether memory of pools may be mapped and events may be opened: false with `memory: "virtual"`. */
  readonly #mapsPools: boolean;
  readonly #memory: RemoteMemory;
  readonly #handles: PoolHandles;
  readonly #remoteEvents: RemoteEvents;
  readonly #offers: RemoteOffers;
  readonly #releases: ReleaseEvents;
  /** Whether the exporter runs in the importer's own process, where CUDA cannot open the importer's events. */
  readonly #isOwnProcess: boolean;
  readonly #mapped = new Set<DeviceBuffer | ImportedMemoryPool>();
  readonly #consumers = new Set<ChannelConsumer<unknown, unknown>>();
  readonly #freedOn = new FreedStreams();
  readonly #ending = new EndingPools({ finished: () => this.#freedOn.finished(), isStuck: () => this.#isStuck });
  /** The number of calls that wait for an offer to be ready before they map it. */
  #mapping = 0;
  /** Functions that settle the pending waits for the exporter's events when the connection is closed. */
  readonly #waits = new Set<() => void>();
  /** Notified when the condition that disposal waits for may have changed. */
  readonly #condition = new ConditionVariable();
  /** The operations that `RemoteOffer` objects call. */
  readonly #owner: RemoteOfferOwner = {
    map: (state, options) => this.#map(state, options),
    importPool: (state) => this.#importPool(state),
  };
  /** Returns why the connection has ended; undefined while the connection is open. */
  readonly #lenderEnd = (): string | undefined => this.#end && (this.#end.error?.message ?? "the exporter has closed");
  /** Whether some memory could not be released, because the device is lost or its `Cuda` object was disposed. */
  #isStuck = false;
  /** Set once the connection is closed. `error` is undefined if the connection was closed normally. */
  #end: { readonly error: SharingError | undefined } | undefined;
  #isDisposed = false;
  #closed: Promise<void> | undefined;

  static {
    printAs(this, "Importer", (importer) => {
      if (importer.#isDisposed) return `Importer { process ${importer.peer.pid}, disposed }`;
      const state = importer.#end === undefined ? "" : ", disconnected";
      return `Importer { process ${importer.peer.pid}, ${countOf(importer.#offers.size, "offer")}, ` +
        `${importer.#mapped.size} mapped${state} }`;
    }, ["peer", "isConnected", ["offers", (importer) => importer.#offers.size], [
      "mapped",
      (importer) => importer.#mapped.size,
    ], ["disposed", (importer) => importer.#isDisposed]]);
    refuseUsing(this, "Importer");
  }

  private constructor(
    cuda: Cuda,
    stream: MessageStream,
    { closeTimeout, maximumMetadata, mapsPools }: {
      readonly closeTimeout: number;
      readonly maximumMetadata: number;
      readonly mapsPools: boolean;
    },
  ) {
    if (!(stream instanceof MessageStream)) {
      throw new TypeError("Cannot construct an Importer directly: use Importer.connect");
    }
    this.#stream = stream;
    this.#closeTimeout = closeTimeout;
    this.#mapsPools = mapsPools;
    this.peer = stream.peer;
    this.#isOwnProcess = stream.process.isOwn;
    this.#opened = {
      warning: () =>
        `the Cuda object was disposed before the importer of process ${this.peer.pid}, whose connection keeps this ` +
        "process running; declare the importer with `await using`, after the Cuda object",
      release: () => {},
    };
    this.#openedObjects = sessionOf(cuda).opened;
    this.#openedObjects.add(this.#opened);
    const send = (message: Message): void => this.#send(message);
    const canRequest = stream.version >= requestHandleVersion;
    const handles = new PoolHandles({ canRequest, send, onFewLeft: () => this.#releases.useFew() });
    const memory = new RemoteMemory(cuda, handles);
    const events = new RemoteEvents({
      findDevice: (uuid) => memory.findDevice(uuid),
      maximum: maximumIdentifiers,
      send,
      process: stream.process,
      mayOpen: mapsPools,
    });
    this.#memory = memory;
    this.#handles = handles;
    this.#remoteEvents = events;
    const isBacklogged = (): boolean => stream.isBacklogged;
    this.#offers = new RemoteOffers({ memory, events, send, isBacklogged, maximumMetadata });
    this.#releases = new ReleaseEvents({
      send,
      isBacklogged,
      onSettled: () => this.#condition.notify(),
      onStuck: () => this.#isStuck = true,
    });
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain: () => {
        this.#offers.onDrain();
        this.#releases.answers.pump();
      },
      onEnd: (error) => this.#disconnected(error === undefined ? undefined : withAdvice(error, stream.version)),
    });
  }

  /**
   * Connects to the exporter that listens at a path.
   *
   * @param cuda the result of `open`; the exporter's memory is mapped on its devices
   * @param path the exporter's path, at most 107 bytes in UTF-8
   * @param options whether to wait for an exporter, the users whose exporters are trusted, time limits, and a signal
   * that aborts the wait
   * @throws {TypeError} If `cuda` is not a `Cuda` object, if the path is empty, a URL or not a string, or if an option
   * has the wrong type
   * @throws {RangeError} If an option is out of range
   * @throws {SharingError} In the same cases as `UnixSocket.connect`; `not-permitted` if one process does not accept
   * the user of the other; `bad-message` if a program other than an exporter listens at the path; `version-mismatch`,
   * `timed-out` or `peer-gone`
   */
  static async connect(cuda: Cuda, path: string, options: ImporterOptions = {}): Promise<Importer> {
    if (!(cuda instanceof Cuda)) {
      throw new TypeError(
        `Cannot connect with ${whatIs(cuda, "Cuda")}: give what open() returned, and then the path of the exporter`,
      );
    }
    checkOptions(options, importerOptions);
    const { closeTimeout = 5000, maximumMetadata = defaultMaximumMetadata, memory = "any" } = options;
    if (memory !== "any" && memory !== "virtual") {
      throw new TypeError(`Cannot use ${shown(memory)} as memory: it must be "any" or "virtual"`);
    }
    const parts = {
      mapsPools: memory === "any",
      closeTimeout: checkMilliseconds(closeTimeout, "closeTimeout"),
      maximumMetadata: checkMaximum(maximumMetadata, "maximumMetadata"),
    };
    const session = sessionOf(cuda);
    if (session.hasEnded) throw new ReferenceError(`Cannot connect to ${path}: the Cuda object was disposed`);
    const stream = await connectToExporter(path, options, () => session.hasEnded);
    if (stream === undefined) throw disposedMeanwhile(`connect to ${path}`, "the Cuda object");
    if (isLogging) logEvent("importer-connect", { path, peer: stream.peer.pid, uid: stream.peer.uid });
    return new Importer(cuda, stream, parts);
  }

  /** Whether the exporter is still connected. */
  get isConnected(): boolean {
    return this.#end === undefined && !this.#isDisposed;
  }

  /**
   * Yields the current and future offers, until the exporter closes. Skips offers that were withdrawn.
   *
   * @param options a signal that aborts the wait for the next offer
   * @throws {ReferenceError} If the importer was disposed
   * @throws {SharingError} `peer-gone` and others, if the connection is lost before the exporter closes
   */
  offers<Metadata = JsonValue>(options: WaitOptions = {}): AsyncGenerator<RemoteOffer<Metadata>, void> {
    return this.#iterate(options, { awaited: `an offer of process ${this.peer.pid}` });
  }

  async *#iterate<Metadata>(
    options: WaitOptions,
    { awaited, name, why }: { awaited: string; name?: string; why?: () => string },
  ): AsyncGenerator<RemoteOffer<Metadata>, void> {
    this.#check("see what is offered");
    checkOptions(options, offersOptions);
    using iteration = this.#offers.iterate();
    for (;;) {
      throwIfAborted(options.signal, awaited, why);
      const state = iteration.take();
      if (state !== undefined) {
        if (name !== undefined && state.message.name !== name) continue;
        await this.#receivePool(state, options.signal);
        if (state.isWithdrawn) continue;
        yield this.#offerOf(state);
      } else {
        if (this.#end?.error !== undefined) throw this.#end.error;
        if (this.#end !== undefined) return;
        await abortable((resolve) => iteration.whenAdded(resolve), options, { awaited, why });
      }
    }
  }

  /** Same as `offers()`. */
  [Symbol.asyncIterator](): AsyncGenerator<RemoteOffer, void> {
    return this.offers();
  }

  /**
   * Returns the offer with the given name. If there is no such offer yet, waits for it.
   *
   * @typeParam Metadata the type of the offer's metadata, which is not checked: validate metadata from another program
   * @param name the name that the exporter gave the offer, 1 to 255 bytes in UTF-8
   * @param options a signal that aborts the wait
   * @throws {TypeError} If the name is not a string
   * @throws {RangeError} If no offer can have the name
   * @throws {ReferenceError} If the importer was disposed
   * @throws {SharingError} `not-found` if the exporter closes without making such an offer; `peer-gone` and others
   */
  async offer<Metadata = JsonValue>(name: string, options: WaitOptions = {}): Promise<RemoteOffer<Metadata>> {
    checkOfferName(name);
    checkOptions(options, offersOptions);
    this.#check(`wait for "${name}"`);
    const known = this.#offers.find(name);
    if (known !== undefined) {
      throwIfAborted(options.signal);
      await this.#receivePool(known, options.signal);
      return this.#offerOf(known);
    }
    const awaited = `offer "${name}" of process ${this.peer.pid}`;
    const why = (): string => this.#offers.insteadOf(name);
    for await (const offer of this.#iterate<Metadata>(options, { awaited, name, why })) return offer;
    if (this.#isDisposed) throw disposedMeanwhile(`wait for "${name}"`, "the importer");
    throw new SharingError("not-found", `Cannot get "${name}": the exporter has closed without offering it`);
  }

  /**
   * Joins the channel with the given name. If there is no such channel yet, waits for it. Once the importer has joined,
   * every further frame is also sent to it. A channel can be joined only once per connection; to join it again, create
   * a new connection.
   *
   * @typeParam Metadata the type of the channel's metadata, which is not checked
   * @typeParam FrameMetadata the type of the frames' metadata, which is not checked
   * @param name the name that the exporter gave the offer, 1 to 255 bytes in UTF-8
   * @param options the stream of the slots' buffers, and a signal that aborts the wait
   * @throws {TypeError} If the name belongs to a buffer or a pool, if this importer has joined the channel before, or
   * if `stream` is not a CudaStream of the same `Cuda` object
   * @throws {RangeError} If no offer can have the name
   * @throws {ReferenceError} If the importer or the stream was disposed
   * @throws {SharingError} In the same cases as `offer` and `RemoteOffer.map`
   * @throws {CudaError} If the driver cannot map the ring
   */
  async channel<Metadata = JsonValue, FrameMetadata = JsonValue>(
    name: string,
    options: OrStream<ConsumerOptions> = {},
  ): Promise<ChannelConsumer<Metadata, FrameMetadata>> {
    options = optionsOf(options);
    checkOptions(options, consumerOptions);
    const { stream, signal } = options;
    if (stream !== undefined) this.#memory.checkStream(stream);
    await this.offer(name, { signal: signal! });
    const state = this.#offers.find(name);
    if (state === undefined) throw new SharingError("not-found", `Cannot join "${name}": it was withdrawn`);
    const { message, channel } = state;
    if (channel === undefined) {
      throw new TypeError(`Cannot join "${escapeControls(name)}": it is a ${message.kind}; use Importer.offer`);
    }
    this.#checkMappable(state);
    this.#offers.beginJoin(message);
    try {
      return await this.#mapWhole(state, options, (whole) => {
        // The connection may have ended since the ready event was queried. The new consumer would then never be
        // notified of the end.
        if (this.#end !== undefined) throw this.#goneError(`join "${name}"`);
        return this.#join<Metadata, FrameMetadata>(state, channel, { whole, ...options });
      });
    } catch (error) {
      this.#offers.endJoin(message.offer, undefined);
      throw error;
    }
  }

  /**
   * Releases all memory that is still mapped, each buffer on its stream, and closes the connection. Resolves once all
   * work with the memory is done and the exporter has acknowledged the releases. Waits at most `closeTimeout` for an
   * exporter that does not answer.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    this.#isDisposed = true;
    this.#openedObjects.delete(this.#opened);
    runEach(...this.#waits);
    const releases = [...this.#consumers].map((consumer) => consumer[Symbol.asyncDispose]());
    for (const mapped of [...this.#mapped]) releases.push(this.#dispose(mapped));
    const results = await Promise.allSettled(releases);
    if (this.#end === undefined) await this.#waitUntil(() => !this.#hasPendingReleases());
    if (this.#end === undefined) await this.#waitUntil(() => !this.#releases.hasLentEvents, this.#closeTimeout);
    if (this.#end === undefined) {
      if (this.#isStuck) this.#stream.end("not-released", "what was mapped could not be released");
      else this.#stream.end("done");
    }
    this.#disconnected(undefined);
    results.push(...await Promise.allSettled([this.#freedOn.finished(), this.#ending.ended()]));
    const errors = results.flatMap((result) => result.status === "rejected" ? [result.reason] : []);
    const pools = this.#memory.close();
    errors.push(...errorsOf([
      // If memory could not be released, the pools that contain it must not be destroyed.
      ...this.#isStuck ? [] : pools.map((pool) => () => ignoreLoss(() => pool[Symbol.dispose]())),
      () => this.#remoteEvents.close(),
      () => this.#releases.close(this.#stream.process),
    ]));
    if (errors.length > 0) throw errors[0];
  }

  /** Releases a buffer or a pool that the application has not released. */
  async #dispose(mapped: DeviceBuffer | ImportedMemoryPool): Promise<void> {
    try {
      if (mapped instanceof DeviceBuffer) allocationOf(mapped).owner.useEnd = importerEnd;
      if (mapped instanceof DeviceBuffer && mapped.stream.disposed) {
        // The work of a destroyed stream continues and cannot be queried, so wait for the whole device.
        await finishedWithoutErrors(mapped.device);
        mapped.stream = mapped.device.defaultStream;
      }
      ignoreLoss(() => mapped[Symbol.dispose]());
    } catch (error) {
      this.#mapped.delete(mapped);
      this.#isStuck = true;
      throw error;
    }
  }

  /**
   * Whether some releases have not been sent to the exporter yet, because memory is still mapped or being mapped, or
   * because this process must first wait for work that uses the memory.
   */
  #hasPendingReleases(): boolean {
    return this.#releases.hasPendingReleases || this.#mapped.size > 0 || this.#mapping > 0;
  }

  /** Waits until `isSettled` returns true or the connection is closed. */
  #waitUntil(isSettled: () => boolean, milliseconds?: number): Promise<void> {
    return this.#condition.wait(() => isSettled() || this.#end !== undefined, milliseconds);
  }

  #offerOf<Metadata>(state: RemoteOfferState): RemoteOffer<Metadata> {
    return new RemoteOffer(state, this.#owner);
  }

  #map(state: RemoteOfferState, options: OrStream<MapOptions>): Promise<DeviceBuffer> {
    // Not an async function: when thousands of readable offers are mapped, the additional microtasks would be
    // noticeable.
    try {
      options = optionsOf(options);
      checkOptions(options, mapOptions);
      const { stream, signal } = options;
      throwIfAborted(signal);
      if (stream !== undefined) this.#memory.checkStream(stream);
      const { message } = state;
      if (message.kind !== "buffer") {
        const hint = message.kind === "pool" ? "a whole pool; use importPool" : "a channel; use Importer.channel";
        throw new TypeError(`Cannot map "${escapeControls(message.name)}": it is ${hint}`);
      }
      return Promise.resolve(
        this.#mapWhole(state, { signal: signal! }, (whole) => this.#bufferOf(state, whole, stream)),
      );
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Maps the whole allocation that contains an offer, and passes it to `make` once the offered memory may be read. If
   * the memory may be read already, calls `make` synchronously and returns its result.
   */
  #mapWhole<T>(state: RemoteOfferState, { signal }: WaitOptions, make: (whole: DeviceBuffer) => T): T | Promise<T> {
    this.#checkMappable(state);
    const hasRoom = !this.#handles.areFewLeft || !this.#ending.areMany;
    if (!hasRoom || !this.#memory.canMap(state.message)) return this.#mapWhenReceived(state, { signal: signal!, make });
    return this.#mapNow(state, { signal: signal!, make });
  }

  #mapNow<T>(
    state: RemoteOfferState,
    { signal, make }: WaitOptions & { make: (whole: DeviceBuffer) => T },
  ): T | Promise<T> {
    this.#offers.hold(state);
    let whole: DeviceBuffer | undefined;
    try {
      whole = this.#memory.map(state.message.allocation);
      allocationOf(whole).owner.lenderEnd = this.#lenderEnd;
      if (state.isReady || this.#remoteEvents.isKnownToHaveFired(state.message.readyEvent)) return make(whole);
    } catch (error) {
      this.#abandon(state, whole);
      throw error;
    }
    return this.#mapWhenReady(state, whole, { signal: signal!, make });
  }

  /**
   * Maps an offer when few descriptors are left: first waits until other pools are destroyed and the handle of the
   * offer's pool has arrived.
   */
  async #mapWhenReceived<T>(
    state: RemoteOfferState,
    { signal, make }: WaitOptions & { make: (whole: DeviceBuffer) => T },
  ): Promise<T> {
    this.#mapping++;
    try {
      await this.#waitForHandle(state, signal);
    } finally {
      this.#mapping--;
      this.#condition.notify();
    }
    this.#checkMappable(state);
    // The handle may have been closed in the meantime, to make room for another pool's handle.
    if (!this.#memory.canMap(state.message)) return await this.#mapWhenReceived(state, { signal: signal!, make });
    return await this.#mapNow(state, { signal: signal!, make });
  }

  /**
   * Requests the handle of an offered pool if this process has closed it, because `importPool` cannot wait. Does not
   * throw if the connection is closed.
   */
  async #receivePool(state: RemoteOfferState, signal: AbortSignal | null | undefined): Promise<void> {
    if (state.message.kind !== "pool" || this.#end !== undefined || this.#memory.canMap(state.message)) return;
    try {
      await this.#waitForHandle(state, signal);
    } catch (error) {
      if (this.#end === undefined && !this.#isDisposed) throw error;
    }
  }

  /**
   * Waits until other pools are destroyed, and until the exporter has sent the handle of an offer's pool again. Rejects
   * if the connection is closed first.
   */
  async #waitForHandle(state: RemoteOfferState, signal: AbortSignal | null | undefined): Promise<void> {
    const { message } = state;
    const options = {
      errorAtEnd: () => this.#goneError(`map "${message.name}"`),
      signal,
      awaited: `the descriptor of "${message.name}" of process ${this.peer.pid}`,
    };
    // While `waiting` is not 0, no WITHDRAWN is sent for the offer, so the exporter does not forget the pool.
    state.waiting++;
    try {
      if (this.#ending.areMany) await this.#waitFor((settle) => this.#ending.whenFewer(settle), options);
      while (!this.#memory.canMap(message)) {
        await this.#waitFor((settle) => this.#handles.request(message.pool, settle), options);
      }
    } finally {
      state.waiting--;
      if (state.isWithdrawn && state.waiting === 0) this.#offers.answerWithdraw(state);
    }
  }

  /**
   * Waits until `subscribe` calls its callback, which may pass an error. `subscribe` returns a function that cancels the
   * callback. If the connection is closed first, rejects with the error that `errorAtEnd` returns, or resolves if that is
   * undefined.
   */
  #waitFor(
    subscribe: (settle: (error?: unknown) => void) => () => void,
    { errorAtEnd, signal, awaited }: {
      readonly errorAtEnd: () => Error | undefined;
      readonly signal: AbortSignal | null | undefined;
      readonly awaited: string;
    },
  ): Promise<void> {
    return abortable<void>(
      (resolve, reject) => {
        let isOver = false;
        const settle = (error?: unknown): void => {
          isOver = true;
          this.#waits.delete(onEnd);
          if (error === undefined) resolve();
          else reject(error);
        };
        const stop = (): void => {
          cancel();
          this.#waits.delete(onEnd);
        };
        const onEnd = (): void => {
          stop();
          try {
            settle(errorAtEnd());
          } catch (error) {
            reject(error);
          }
        };
        const cancel = subscribe(settle);
        if (!isOver) this.#waits.add(onEnd);
        return stop;
      },
      { signal: signal! },
      { awaited },
    );
  }

  /**
   * If few descriptors are left, destroys the imported pools that have no mappings, except for the pool of the given
   * offer.
   */
  #endUnused({ pool }: OfferMessage): void {
    for (const unused of this.#memory.takeUnused(pool)) this.#ending.add(unused);
  }

  async #mapWhenReady<T>(
    state: RemoteOfferState,
    whole: DeviceBuffer,
    { signal, make }: WaitOptions & { make: (whole: DeviceBuffer) => T },
  ): Promise<T> {
    this.#mapping++;
    try {
      await this.#waitUntilReady(state, signal);
      this.#check(`map "${state.message.name}"`);
      return make(whole);
    } catch (error) {
      this.#abandon(state, whole);
      throw error;
    } finally {
      this.#mapping--;
      this.#condition.notify();
    }
  }

  /** Releases an offer whose mapping failed or was canceled. */
  #abandon(state: RemoteOfferState, whole: DeviceBuffer | undefined): void {
    if (whole === undefined) this.#offers.release(state, 0);
    else this.#unmap(whole, state);
  }

  /**
   * Frees a mapping of a whole allocation. If that fails, returns false, and the allocation stays mapped until the
   * process exits.
   */
  #free(whole: DeviceBuffer): boolean {
    try {
      this.#freedOn.add(whole.stream);
      whole.free();
      return true;
    } catch {
      this.#isStuck = true;
      return false;
    }
  }

  /**
   * Unmaps an offer whose buffer was not passed to the application. Sends the release to the exporter once the memory
   * is unmapped.
   */
  #unmap(whole: DeviceBuffer, state: RemoteOfferState): void {
    const { stream } = whole;
    if (!this.#free(whole)) return;
    this.#endUnused(state.message);
    this.#releases.sendWhenDone(stream, () => this.#offers.release(state, 0));
  }

  #join<Metadata, FrameMetadata>(
    state: RemoteOfferState,
    channel: ChannelMessage,
    { whole, stream = whole.device.defaultStream }: { whole: DeviceBuffer; stream?: CudaStream },
  ): ChannelConsumer<Metadata, FrameMetadata> {
    const { message } = state;
    const events: (LocalEvent | undefined)[] = [];
    const consumer: ChannelConsumer<Metadata, FrameMetadata> = new ChannelConsumer<Metadata, FrameMetadata>({
      offer: message,
      channel,
      whole,
      stream,
      recalled: () => state.recalled,
      openEvent: (event) => this.#remoteEvents.open(event),
      whenFired: (event, callback) => this.#remoteEvents.whenFired(event, callback),
      send: (each) => this.#send(each),
      release: (onto, slot, send) => {
        const eventOf = (): LocalEvent | undefined => events[slot] ??= this.#releases.tryTake(onto);
        this.#release({ stream: onto, canExporterQuery: onto.device === whole.device, eventOf }, send);
      },
      freeRing: () => this.#free(whole),
      close: (isFreed) => {
        this.#consumers.delete(consumer);
        for (const event of channel.readyEvents) this.#remoteEvents.release(event);
        if (isFreed) {
          this.#endUnused(message);
          this.#offers.release(state, 0);
          // The exporter no longer needs the slots' events, because releasing the ring also releases all slots.
          for (const event of events) if (event !== undefined) this.#releases.returnEvent(event);
        }
        this.#condition.notify();
      },
    }, (hub) => this.#offers.endJoin(message.offer, hub));
    for (const event of channel.readyEvents) this.#remoteEvents.retain(event);
    this.#consumers.add(consumer);
    return consumer;
  }

  #bufferOf(
    state: RemoteOfferState,
    whole: DeviceBuffer,
    stream: CudaStream = whole.device.defaultStream,
  ): DeviceBuffer {
    const { byteOffset, byteLength, pool: poolIdentifier } = state.message;
    const { session, owner, device, pool } = allocationOf(whole);
    const isHostMemory = this.#memory.isHostMemory(poolIdentifier);
    const ownerOfOffer: AllocationOwner = {
      isHostMemory: owner.isHostMemory ?? false,
      ...owner.accessOf === undefined ? {} : { accessOf: owner.accessOf },
      lenderEnd: this.#lenderEnd,
      release: (_address, _byteLength, onto) => {
        this.#mapped.delete(buffer);
        try {
          whole.free(onto);
          this.#freedOn.add(onto);
          this.#endUnused(state.message);
          const canExporterQuery = onto.device === device && !isHostMemory;
          this.#release({ stream: onto, canExporterQuery }, (event) => this.#offers.release(state, event));
        } catch (error) {
          // Send no release, because the memory stays mapped until this process exits.
          this.#isStuck = true;
          throw error;
        }
        this.#condition.notify();
      },
    };
    const address = whole.address + BigInt(byteOffset);
    const allocation = new Allocation(session, ownerOfOffer, pool, address, byteLength, device, stream);
    const buffer = new DeviceBuffer(allocation);
    this.#mapped.add(buffer);
    return buffer;
  }

  #importPool(state: RemoteOfferState): ImportedMemoryPool {
    const { message } = state;
    if (message.kind !== "pool") {
      const hint = message.kind === "buffer" ? "it is a buffer; use map" : "it is a channel; use Importer.channel";
      throw new TypeError(`Cannot import the pool of "${escapeControls(message.name)}": ${hint}`);
    }
    this.#checkMappable(state);
    if (!this.#memory.canMap(message)) {
      const name = escapeControls(message.name);
      throw new SharingError(
        "out-of-descriptors",
        `Cannot import the pool of "${name}": this process can open few more descriptors, and has closed that of the ` +
          "pool; get the offer again by Importer.offer and import it at once, or raise the limit (ulimit -n)",
      );
    }
    const pool = this.#memory.importPool(message.pool);
    this.#offers.hold(state);
    this.#mapped.add(pool);
    setLenderEnd(pool, this.#lenderEnd);
    whenImportedPoolDisposed(pool, () => {
      this.#mapped.delete(pool);
      this.#offers.release(state, 0);
      this.#condition.notify();
    });
    return pool;
  }

  /** Waits until an offer may be read. Rejects if the connection is closed first. */
  async #waitUntilReady(state: RemoteOfferState, signal: AbortSignal | undefined): Promise<void> {
    state.waiting++;
    try {
      await this.#waitForEvent(state.message, signal);
      state.isReady = true;
    } finally {
      state.waiting--;
      if (state.isWithdrawn && state.waiting === 0) this.#offers.answerWithdraw(state);
    }
  }

  /**
   * Waits for an offer's ready event. Rejects if the connection is closed first, since an event of a dead process never
   * fires.
   */
  #waitForEvent({ readyEvent: event, name }: OfferMessage, signal: AbortSignal | undefined): Promise<void> {
    const events = this.#remoteEvents;
    return this.#waitFor((settle) => events.whenReady(event, settle), {
      // The event can still be queried, and may have fired before the exporter died.
      errorAtEnd: () => events.hasFiredAtEnd(event) ? undefined : this.#goneError("wait for the memory to be ready"),
      signal,
      awaited: `"${name}" of process ${this.peer.pid} to be written`,
    });
  }

  /**
   * Sends a release that takes effect once the release's stream has finished its current work. If the connection is
   * closed, calls `send` immediately with event identifier 0.
   */
  #release(release: MemoryRelease, send: SendRelease): void {
    if (this.#end !== undefined) return send(0);
    this.#releases.release({ ...release, canExporterQuery: release.canExporterQuery && !this.#isOwnProcess }, send);
  }

  #send(message: Message): void {
    if (this.#end === undefined) this.#stream.send(message);
  }

  #onMessage(message: Message): void {
    this.#offers.checkOrder(message);
    switch (message.type) {
      case "pool":
        return this.#memory.definePool(message);
      case "pool-handle":
        return this.#handles.onHandle(message);
      case "allocation":
        return this.#memory.defineAllocation(message);
      case "event":
        return this.#remoteEvents.define(message);
      case "wait":
        return this.#releases.answers.onWait(message.event);
      case "fired":
        return this.#remoteEvents.onFired(message.event);
      case "offer":
        return this.#offers.onOffer(message);
      case "channel":
        return this.#offers.onChannel(message);
      case "withdraw":
        return this.#offers.onWithdraw(message.offer);
      case "recall":
        return this.#offers.onRecall(message.offer);
      case "forget":
        return this.#onForget(message);
      case "event-free":
        return this.#releases.onEventFree(message.event);
      case "frame":
      case "end":
        return this.#offers.onFrame(message);
      default:
        throw badMessage(`a message "${message.type}" comes from an exporter`);
    }
  }

  #onForget({ kind, identifier }: ForgetMessage): void {
    switch (kind) {
      case "event":
        return this.#remoteEvents.forget(identifier);
      case "allocation":
        return this.#memory.forgetAllocation(identifier);
      case "pool": {
        const imported = this.#memory.forgetPool(identifier);
        if (imported !== undefined) this.#ending.add(imported);
      }
    }
  }

  #disconnected(error: SharingError | undefined): void {
    if (this.#end !== undefined) return;
    this.#end = { error };
    if (isLogging) {
      const code = error?.code ?? "done";
      logEvent("importer-disconnect", { peer: this.peer.pid, code, error: error?.message });
    }
    this.#openedObjects.delete(this.#opened);
    runEach(
      () => this.#releases.answers.close(),
      ...this.#waits,
      () => this.#offers.onEnd(error),
      () => this.#condition.notify(),
    );
  }

  #goneError(action: string): Error {
    if (this.#isDisposed) return new ReferenceError(`Cannot ${escapeControls(action)}: the importer was disposed`);
    return this.#end?.error ?? new SharingError("peer-gone", `Cannot ${action}: the exporter has closed`);
  }

  #checkMappable(state: RemoteOfferState): void {
    const { name } = state.message;
    this.#check(`map "${name}"`);
    if (this.#end !== undefined) throw this.#goneError(`map "${name}"`);
    if (state.isWithdrawn) {
      throw new SharingError("not-found", `Cannot map "${name}": the exporter has withdrawn it`);
    }
    if (this.#mapsPools || this.#memory.isVirtual(state.message.pool)) return;
    throw new SharingError(
      "not-permitted",
      `Cannot map "${name}": it is memory of a pool, and this importer maps only virtual memory; the exporter must ` +
        `allocate it ${shareableAdvice}`,
    );
  }

  #check(action: string): void {
    if (this.#isDisposed) throw new ReferenceError(`Cannot ${escapeControls(action)}: the importer was disposed`);
  }
}

/**
 * If the exporter's version cannot send descriptors later, when they are needed, adds to an `out-of-descriptors` error
 * the advice to use a newer version.
 */
function withAdvice(error: SharingError, version: number): SharingError {
  const { code, message, cause } = error;
  if (code !== "out-of-descriptors" || version >= requestHandleVersion) return error;
  return new SharingError(
    code,
    `${message}; or use a newer poolpass in the exporter: it sends the descriptors that do not fit when they are needed`,
    cause === undefined ? undefined : { cause },
  );
}
