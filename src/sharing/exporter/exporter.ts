import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../../objects/streams/cuda_stream.ts";
import { optionsOf, type OrStream } from "../../objects/streams/stream_option.ts";
import { countOf, printAs, refuseUsing } from "../../support/printing.ts";
import { DeviceArray } from "../../memory/device_array.ts";
import { allocationOf, DeviceBuffer } from "../../memory/device_buffer.ts";
import { DeviceWatch, hasFired, ReadyEvents, whenFired } from "./ready_events.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { messageForPeers } from "../../support/driver_errors.ts";
import { noteUnseen } from "../../support/lost_devices.ts";
import { runEach, type SharingError } from "../../support/errors.ts";
import { type HeldMemory, heldMemory } from "../../memory/pools/memory_registry.ts";
import { MemoryPool } from "../../memory/pools/memory_pool.ts";
import {
  checkByteLength,
  checkMilliseconds,
  checkOptions,
  didYouMean,
  type KnownOptions,
  shown,
  whatIs,
} from "../../support/validation.ts";
import { Lease, type SentOffer } from "./lease.ts";
import { type ChannelOptions, channelOptions, ChannelProducer } from "../channel/channel_producer.ts";
import { absorbLingering, ConnectedImporter } from "./connected_importer.ts";
import { checkShareable, ExportedMemory, IdentifierAllocator } from "./exported_memory.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { badMessage, maximumIdentifiers, maximumSlots } from "../protocol/messages.ts";
import { checkOfferName, encodeMetadata, type JsonValue, textByteLength } from "../protocol/metadata.ts";
import { Offer, type OfferOwner, OfferRecord } from "./offer.ts";
import { EventBudget } from "../events/event_waits.ts";
import { type LocalEvent, LocalEvents } from "../events/local_events.ts";
import { ConditionVariable } from "../transport/abortable.ts";
import { UnixListener } from "../transport/unix_listener.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { allowedUsers, listenFor } from "../transport/users.ts";
import { Acceptor, logConnection } from "./acceptor.ts";
import { Operators } from "../operator/operators.ts";
import { type CompleteOptions, completeOptions } from "./exporter_options.ts";
import { type ExporterStatistics, ExporterTotals, statisticsOf } from "./exporter_statistics.ts";
import { exporterStatusOf } from "./exporter_status.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of `Exporter.listen`. */
export interface ExporterOptions {
  /**
   * IDs of other users whose processes may connect. None by default; then only this process's user can open the
   * socket's file (mode 0600). Otherwise every user can open it (mode 0666), and the exporter checks the user of each
   * connecting process.
   */
  users?: readonly number[];
  /** The maximum number of connected importers and operators together: 1024 by default. */
  maximumImporters?: number;
  /**
   * The maximum number of connected importers of one user: by default `maximumImporters` divided by the number of users
   * that may connect, which are this process's user and `users`.
   */
  maximumImportersPerUser?: number;
  /**
   * The maximum number of connections that have not completed the handshake: 128 by default. When the maximum is
   * exceeded, each new connection closes an older one: the oldest incomplete connection of the process with the most
   * incomplete connections.
   */
  maximumHandshakes?: number;
  /**
   * The maximum total size in bytes of the names and metadata of all current offers: 64 MiB by default. Importers have
   * the same limit: a larger maximum must also be passed to `Importer.connect`.
   */
  maximumMetadata?: number;
  /** Milliseconds within which an importer must complete the handshake: 5000 by default. */
  handshakeTimeout?: number;
  /** Milliseconds from the first byte of a message within which the whole message must arrive: 5000 by default. */
  messageTimeout?: number;
  /**
   * Milliseconds, after the exporter is disposed, within which importers must release all memory: 5000 by default.
   * Importers that have not released it by then are cut off.
   */
  closeTimeout?: number;
  /** Called for each importer that has connected, once its handshake is complete. */
  onConnect?: (peer: Peer) => void;
  /** Called for each connection that was closed. The error is undefined if the connection was closed normally. */
  onDisconnect?: (peer: Peer, error: SharingError | undefined) => void;
  /**
   * Called when connections cannot be accepted, for example with a `SharingError` "out-of-descriptors"; at most once
   * until they can be accepted again. Until then, connecting processes wait or are refused, and the exporter keeps
   * trying.
   */
  onError?: (error: Error) => void;
}

/** Options of `Exporter.offer`. */
export interface OfferOptions {
  /**
   * Metadata for importers: any JSON value of at most 32 KiB. For a `DeviceArray`, the element type and the shape are
   * added as the members `dtype` and `shape` if the metadata is an object without these members or is absent: see
   * `RemoteOffer.mapArray`.
   */
  metadata?: JsonValue;
  /** The stream whose current work must be done before the memory may be read. Defaults to the buffer's own stream. */
  stream?: CudaStream;
}

const offerOptions: KnownOptions<OfferOptions> = {
  action: "offer memory",
  names: { metadata: true, stream: true },
};

/** The maximum length in characters of the failure description that is sent to importers. */
const maximumTextLength = 300;
/** The alignment of a channel's slots in bytes. */
const slotAlignment = 512;

/**
 * Offers memory to other processes until it is disposed: buffers, parts of buffers and whole pools, at any time, to any
 * number of importers.
 *
 * The unit of access is the pool: a process that maps one buffer of a pool can access the whole pool. Allocate memory
 * that an importer must not see from another pool.
 *
 * @example
 * ```ts ignore
 * using pool = gpu.createPool({ handleType: "posix-fd" });
 * await using exporter = Exporter.listen("/run/user/1000/frames.sock");
 * using weights = pool.allocateArray(Float32Array, 1024, stream);
 * exporter.offer("weights", weights, { metadata: { shape: [32, 32] } }); // and dtype: "float32"
 * ```
 */
export class Exporter implements AsyncDisposable {
  readonly #listener: UnixListener;
  readonly #options: CompleteOptions;
  readonly #closing = new AbortController();
  readonly #acceptor: Acceptor;
  readonly #totals = new ExporterTotals();
  readonly #importers = new Set<ConnectedImporter>();
  readonly #operators: Operators;
  /** The offers that have not been withdrawn, keyed by name. */
  readonly #offers = new Map<string, OfferRecord>();
  /** The number of bytes of the names and metadata of all offers that have not been withdrawn. */
  #textByteLength = 0;
  /** All offers that have not ended, including withdrawn offers that importers still hold. */
  readonly #records = new Set<OfferRecord>();
  readonly #memory: ExportedMemory;
  readonly #events = new LocalEvents();
  readonly #eventBudget: EventBudget;
  readonly #ready = new ReadyEvents(this.#events, {
    onKnown: (record) => this.#onReadyKnown(record),
    onFailure: (error) => this.#fail(error),
  });
  readonly #watch = new DeviceWatch(() => this.#pendingEvents(), (error) => this.#fail(error));
  /** The operations that `Offer` objects call. */
  readonly #owner: OfferOwner = {
    withdraw: (record) => this.#withdraw(record),
    sentOffersOf: (record) => this.#sentOffersOf(record),
  };
  /** The text of the GOODBYE message to importers, set once the device is lost. From then on, no importer is served. */
  #failure: string | undefined;
  readonly #identifiers = new IdentifierAllocator();
  /** Notified when the condition that disposal waits for may have changed. */
  readonly #condition = new ConditionVariable();
  #closed: Promise<void> | undefined;

  /** Lists the memory that importers hold, for snapshots. */
  readonly #listHeld = (): HeldMemory[] =>
    this.#leasedOffers().map(({ record, since, importer: { peer: { pid } } }) => {
      const { name: offer, pool: { source: pool }, buffer, byteLength } = record;
      const address = buffer && buffer.memory.address + BigInt(record.byteOffset - buffer.byteOffset);
      return { pool, pid, offer, since, range: address === undefined ? undefined : { address, byteLength } };
    });

  static {
    printAs(this, "Exporter", (exporter) => {
      const counts = `${countOf(exporter.#offers.size, "offer")}, ${countOf(exporter.#importers.size, "importer")}`;
      return `Exporter { ${exporter.path}, ${exporter.#closing.signal.aborted ? "disposed" : counts} }`;
    }, ["path", "offers", "importers", ["disposed", (exporter) => exporter.#closing.signal.aborted]]);
    refuseUsing(this, "Exporter");
  }

  private constructor(listener: UnixListener, options: CompleteOptions) {
    if (!(listener instanceof UnixListener)) {
      throw new TypeError("Cannot construct an Exporter directly: use Exporter.listen");
    }
    this.#listener = listener;
    this.#options = options;
    this.#eventBudget = new EventBudget(allowedUsers(options.users).length);
    this.#operators = new Operators({
      path: listener.path,
      answerTimeout: options.messageTimeout,
      status: () =>
        exporterStatusOf({ statistics: this.statistics(), records: this.#records, importers: this.#importers }),
    });
    heldMemory.add(this.#listHeld);
    this.#memory = new ExportedMemory({
      onForget: (message) => {
        for (const importer of this.#importers) importer.sendForget(message);
      },
      onFree: ({ offers }) => {
        for (const record of [...offers]) this.#withdraw(record);
      },
      onPoolDisposed: (pool) => {
        for (const record of this.#records) if (record.kind === "pool" && record.pool === pool) this.#withdraw(record);
      },
    });
    this.#acceptor = new Acceptor({
      listener,
      options,
      totals: this.#totals,
      closing: this.#closing.signal,
      places: () => [...this.#importers, ...this.#operators],
      failure: () => this.#failure,
      checkRole: (role) => {
        if (role === undefined || role === "operator") return;
        throw badMessage(`${this.path} is an exporter's, and serves no ${role}; connect with Importer.connect`);
      },
      adopt: (stream, role) => role === "operator" ? this.#operators.adopt(stream) : this.#adopt(stream),
    });
  }

  /**
   * Listens at a path.
   *
   * @param path the socket's path, at most 107 bytes in UTF-8, in a folder that no other user can change
   * @param options the users that may connect, limits on connections, and time limits
   * @throws {TypeError} If the path is empty, a URL or not a string, or if an option has the wrong type
   * @throws {RangeError} If an option is out of range
   * @throws {SharingError} In the same cases as `UnixListener.listen`, and `not-permitted` if another user could
   * replace the socket
   */
  static listen(path: string, options: ExporterOptions = {}): Exporter {
    if (typeof path !== "string") {
      throw new TypeError(`Cannot listen at ${whatIs(path)}: give the socket's path, a string, and then the options`);
    }
    const complete = completeOptions(options);
    return new Exporter(listenFor(path, complete.users), complete);
  }

  /** The path at which the exporter listens. */
  get path(): string {
    return this.#listener.path;
  }

  /** The offers that importers can map. */
  get offers(): readonly Offer[] {
    return [...this.#offers.values()].map((record) => this.#offerOf(record));
  }

  /**
   * The leases of all importers, as far as known to this process. The list follows the importers' messages: a lease
   * appears or ends when the message about it arrives. This happens after the importer has called `map` or `free`, and
   * not before this process returns to its event loop.
   */
  get leases(): readonly Lease[] {
    return this.#leasedOffers().map((sentOffer) => new Lease(sentOffer));
  }

  #leasedOffers(): SentOffer[] {
    return [...this.#importers].flatMap(({ sentOffers }) => [...sentOffers.values()]).filter(({ isLease }) => isLease);
  }

  /** The processes of the connected importers. */
  get importers(): readonly Peer[] {
    return [...this.#importers].filter(({ isConnected }) => isConnected).map(({ peer }) => peer);
  }

  /**
   * Returns statistics for monitoring: connections, offers, leases, traffic and channels. The object is a snapshot of
   * plain data that `JSON.stringify` can represent. Takes time proportional to the number of offers sent to importers.
   */
  statistics(): ExporterStatistics {
    return statisticsOf({
      path: this.path,
      totals: this.#totals,
      handshakes: this.#acceptor.handshakes,
      importers: this.#importers,
      operators: this.#operators.count,
      records: this.#records,
    });
  }

  /**
   * Offers a buffer, a part of one, or a whole pool to all importers, present and future. Importers can read the memory
   * once the stream has finished its current work. Offers made in the same synchronous code before that work is done
   * become readable together. If more than eight offers are made, importers may also have to wait for work that the
   * same synchronous code enqueues on the stream after the offer.
   *
   * @param name a name that no other offer uses, 1 to 255 bytes in UTF-8
   * @param source a buffer in a pool that was created with handleType "posix-fd", allocated directly or through an
   * allocator; such a pool as a whole; or memory of any size from `CudaDevice.allocate` with handleType "posix-fd"
   * @param options metadata for importers, and the stream that writes the memory
   * @throws {TypeError} If the memory belongs to another kind of pool or to none, if JSON cannot represent the
   * metadata, or if `stream` is not a CudaStream of the same `Cuda` object
   * @throws {RangeError} If the name is taken, if this offer's metadata is too long, or if the metadata of all offers
   * together is too long
   * @throws {ReferenceError} If the exporter or the pool was disposed, or the buffer freed
   * @throws {SharingError} `too-large` if the buffer's allocation in the pool is too large for any process to import
   * @throws {CudaError} If the driver cannot export the memory, or the device was lost
   */
  offer(name: string, source: DeviceBuffer | MemoryPool, options: OrStream<OfferOptions> = {}): Offer {
    this.#checkNew(name);
    options = optionsOf(options);
    checkOptions(options, offerOptions);
    if (options.stream !== undefined && source instanceof MemoryPool) {
      throw new TypeError(`Cannot offer "${name}": a whole pool has no ready event; offer its buffers instead`);
    }
    const metadata = this.#encodeMetadata(name, describedMetadata(options.metadata, source));
    if (source instanceof MemoryPool) {
      const record = this.#recordOfPool(name, source, metadata);
      this.#add(record);
      this.#totals.offersMade++;
      if (isLogging) logOffer("offer", record);
      this.#sendToImporters(record);
      return this.#offerOf(record);
    }
    const record = this.#recordOfBuffer(name, source, { metadata, kind: "buffer" });
    try {
      if (options.stream !== undefined) checkStream(options.stream, allocationOf(source).session);
      this.#publish(record, options.stream ?? source.stream);
    } catch (error) {
      this.#releaseResources(record);
      throw error;
    }
    return this.#offerOf(record);
  }

  /**
   * Offers a channel: a ring of slots that this process allocates and writes, and that other processes read. The caller
   * must dispose of the channel, since disposing of the exporter does not free the ring.
   *
   * @param name a name that no other offer uses, 1 to 255 bytes in UTF-8
   * @param options the ring's pool, the number and size of its slots, and what happens when all slots are in use
   * @throws {TypeError} If the pool is in host memory or was not created with handleType "posix-fd", if `window` is
   * given although the channel does not drop frames, or in the same cases as `offer`
   * @throws {RangeError} If an option is out of range, or in the same cases as `offer`
   * @throws {ReferenceError} If the exporter, the pool or the stream was disposed
   * @throws {CudaError} `cudaErrorMemoryAllocation` if there is not enough memory for the ring
   */
  createChannel(name: string, options: ChannelOptions): ChannelProducer {
    this.#checkNew(name);
    checkChannelOptions(name, options);
    const { pool, slots, slotByteLength } = options;
    const device = pool.device!;
    const metadata = this.#encodeMetadata(name, options.metadata);
    const stride = strideOf(slotByteLength);
    using undo = new DisposableStack();
    const ring = undo.use(pool.allocate(slots * stride, options.stream));
    const record = this.#recordOfBuffer(name, ring, { metadata, kind: "channel" });
    undo.defer(() => this.#releaseResources(record));
    const events = Array.from({ length: slots }, () => {
      const event = this.#events.take(device);
      undo.defer(() => this.#events.release(event));
      return event;
    });
    const producer = new ChannelProducer({
      name,
      offer: record.identifier,
      ring,
      stride,
      options,
      events,
      closeTimeout: this.#options.closeTimeout,
      onSend: () => this.#watch.start(),
      withdraw: () => {
        this.#withdraw(record);
        releaseEvents();
      },
    }, (hub) => record.channel = hub);
    this.#publish(record, ring.stream);
    undo.move();
    // Importers use the ready events until the offer has ended. The producer uses them until it is disposed of. Release
    // the events once neither uses them.
    let users = 2;
    const releaseEvents = (): void => {
      users--;
      if (users === 0) events.forEach((event) => this.#events.release(event));
    };
    record.whenEnded(releaseEvents);
    return producer;
  }

  /**
   * Stops listening, withdraws all offers and asks importers to release the memory they hold. Importers that have not
   * released it within `closeTimeout` are cut off: the memory they hold stays allocated until their processes have
   * exited.
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    if (isLogging) logEvent("close", { path: this.path, offers: this.#offers.size, importers: this.importers.length });
    this.#closing.abort(new ReferenceError(`The exporter at ${this.path} was disposed`));
    await this.#listener[Symbol.asyncDispose]();
    await this.#acceptor.finished;
    this.#operators.close("the exporter was closed");
    this.#watch.stop();
    for (const record of this.#offers.values()) this.#withdraw(record);
    this.#memory.close();
    for (const { sentOffers } of this.#importers) {
      for (const sentOffer of sentOffers.values()) void new Lease(sentOffer).recall().catch(() => {});
    }
    await this.#condition.wait(() => this.#isIdle(), this.#options.closeTimeout);
    for (const importer of this.#importers) {
      if (importer.sentOffers.size === 0) importer.cutOff("done", "the exporter was closed");
      else importer.cutOff("cut-off", "the exporter was closed, and this process still holds memory of it");
      importer.abandon();
    }
    this.#closeEvents();
    heldMemory.delete(this.#listHeld);
  }

  #recordOfPool(name: string, pool: MemoryPool, metadata: string): OfferRecord {
    const exported = this.#memory.retainPool(pool);
    return new OfferRecord({
      identifier: this.#identifiers.take(),
      name,
      kind: "pool",
      metadata,
      pool: exported,
      buffer: undefined,
      byteOffset: 0,
      byteLength: 0,
    });
  }

  #recordOfBuffer(
    name: string,
    buffer: DeviceBuffer,
    { metadata, kind }: { metadata: string; kind: "buffer" | "channel" },
  ): OfferRecord {
    if (!(buffer instanceof DeviceBuffer)) {
      throw new TypeError(
        `Cannot offer ${
          whatIs(buffer, "DeviceBuffer", "DeviceArray", "MemoryPool")
        } as "${name}": it must be a DeviceBuffer or a MemoryPool`,
      );
    }
    const allocation = allocationOf(buffer);
    const byteOffset = Number(buffer.address - allocation.address);
    const exported = this.#memory.exportBuffer(allocation);
    const record = new OfferRecord({
      identifier: this.#identifiers.take(),
      name,
      kind,
      metadata,
      pool: exported.allocation.pool,
      buffer: exported,
      byteOffset: exported.byteOffset + byteOffset,
      byteLength: buffer.byteLength,
    });
    this.#memory.addOffer(exported, record);
    return record;
  }

  /** Adds an offer, and determines its ready event. The offer is sent to importers once the ready event is known. */
  #publish(record: OfferRecord, stream: CudaStream): void {
    this.#add(record);
    try {
      this.#ready.assign(record, stream);
    } catch (error) {
      this.#remove(record);
      throw error;
    }
    this.#totals.offersMade++;
    if (isLogging) logOffer("offer", record);
  }

  #add(record: OfferRecord): void {
    this.#offers.set(record.name, record);
    this.#textByteLength += record.textByteLength;
    this.#records.add(record);
  }

  #remove(record: OfferRecord): void {
    this.#offers.delete(record.name);
    this.#textByteLength -= record.textByteLength;
    this.#records.delete(record);
  }

  #onReadyKnown(record: OfferRecord): void {
    const { ready, pool } = record;
    if (ready === undefined) return this.#sendToImporters(record);
    if (ready.localEvent.device === pool.device) {
      this.#watch.start();
      return this.#sendToImporters(record);
    }
    // The stream's device may not be visible to importers, in which case they cannot wait for its events. Send the
    // offer only once the stream's work is done.
    whenFired(ready, (error) => {
      if (error !== undefined) this.#fail(error);
      else this.#sendToImporters(record);
    });
  }

  #sendToImporters(record: OfferRecord): void {
    if (record.isWithdrawn) return;
    record.isPublic = true;
    for (const importer of this.#importers) importer.sendChange(record);
  }

  /** Returns, for each device, at most one unfired event that importers may be waiting for. */
  #pendingEvents(): Iterable<LocalEvent> {
    const pending = new Map<CudaDevice, LocalEvent>();
    for (const { ready, channel } of this.#records) {
      const localEvent = ready === undefined || hasFired(ready) ? channel?.pendingEvent() : ready.localEvent;
      if (localEvent !== undefined) pending.set(localEvent.device, localEvent);
    }
    return pending.values();
  }

  /**
   * Handles the loss of the device: disconnects all importers, so that they do not wait for the device's work, and
   * refuses new importers.
   */
  #fail(error: unknown): void {
    const text = `the exporter has lost its device: ${messageForPeers(error)}`;
    noteUnseen(error);
    this.#failure = text.slice(0, maximumTextLength);
    // Unlike the message for peers, the log of this process may contain the full error.
    if (isLogging) logEvent("device-lost", { path: this.path, error: (error as Error).message });
    for (const importer of this.#importers) importer.cutOff("device-lost", this.#failure);
    runEach(...[...this.#records].map(({ channel }) => () => channel?.onLost(error)));
  }

  #withdraw(record: OfferRecord): void {
    if (record.isWithdrawn) return;
    // Withdrawing the offer of a channel ends the channel: no frames may be sent any longer.
    record.channel?.close();
    record.isWithdrawn = true;
    if (isLogging) logOffer("withdraw", record);
    this.#offers.delete(record.name);
    this.#textByteLength -= record.textByteLength;
    for (const importer of [...this.#importers]) importer.sendChange(record);
    this.#endIfOver(record);
  }

  #endIfOver(record: OfferRecord): void {
    if (!record.isWithdrawn || record.sentCount > 0 || record.hasEnded) return;
    this.#records.delete(record);
    this.#releaseResources(record);
    record.end();
    if (isLogging) logOffer("offer-end", record);
    if (this.#closing.signal.aborted) this.#closeEvents();
  }

  /** Releases the ready event, the identifier and the memory of an offer that has ended. */
  #releaseResources(record: OfferRecord): void {
    if (record.ready !== undefined) this.#ready.release(record.ready);
    record.ready = undefined;
    this.#identifiers.release(record.identifier);
    if (record.buffer === undefined) this.#memory.releasePool(record.pool);
    else this.#memory.removeOffer(record.buffer, record);
  }

  /** Destroys the events if all offers have ended. Importers no longer query the events then. */
  #closeEvents(): void {
    if (this.#records.size === 0) this.#events.close();
  }

  #offerOf(record: OfferRecord): Offer {
    return new Offer(record, this.#owner);
  }

  #sentOffersOf(record: OfferRecord): SentOffer[] {
    return [...this.#importers].flatMap(({ sentOffers }) => sentOffers.get(record.identifier) ?? [])
      // Exclude an earlier offer that had the same identifier.
      .filter((sentOffer) => sentOffer.record === record);
  }

  #adopt(stream: MessageStream): void {
    const importer = new ConnectedImporter(stream, {
      findDevice: (uuid) => this.#memory.findDevice(uuid),
      events: this.#events,
      eventBudget: this.#eventBudget,
      onOver: ({ record }) =>
        runEach(
          () => this.#endIfOver(record),
          () => this.#condition.notify(),
        ),
      // Call the application in a microtask, so that an error that the application throws does not affect the
      // connection.
      onDisconnect: ({ peer }, error) => {
        this.#totals.countEnded(error);
        if (isLogging) logConnection("disconnect", { path: this.path, peer, error });
        queueMicrotask(() => this.#options.onDisconnect?.(peer, error));
        this.#condition.notify();
      },
      onLinger: (lingering) => absorbLingering(this.#importers, lingering),
      onGone: (gone) => this.#importers.delete(gone),
    });
    this.#importers.add(importer);
    if (this.#failure !== undefined) return importer.cutOff("device-lost", this.#failure);
    if (isLogging) logConnection("connect", { path: this.path, peer: importer.peer });
    queueMicrotask(() => this.#options.onConnect?.(importer.peer));
    for (const record of this.#offers.values()) if (record.isPublic) importer.sendChange(record);
  }

  /** Whether no connected importer can use any offer. */
  #isIdle(): boolean {
    for (const { isConnected, sentOffers } of this.#importers) {
      if (isConnected && sentOffers.size > 0) return false;
    }
    return true;
  }

  #checkNew(name: string): void {
    checkOfferName(name);
    if (this.#closing.signal.aborted) {
      throw new ReferenceError(`Cannot offer "${name}" at ${this.path}: the exporter was disposed`);
    }
    if (this.#records.size >= maximumIdentifiers) {
      throw new RangeError(
        `Cannot offer "${name}": there are ${this.#records.size} offers, the maximum; withdraw some`,
      );
    }
    if (this.#offers.has(name)) {
      throw new RangeError(`Cannot offer "${name}": there is an offer of this name; withdraw it, or use another name`);
    }
  }

  /**
   * Encodes the metadata of a new offer. Throws a `RangeError` if the names and metadata of all offers together would
   * exceed `maximumMetadata`, because importers would then close their connections.
   */
  #encodeMetadata(name: string, value: JsonValue | undefined): string {
    const metadata = encodeMetadata(value);
    const byteLength = this.#textByteLength + textByteLength({ name, metadata });
    const { maximumMetadata } = this.#options;
    if (byteLength <= maximumMetadata) return metadata;
    throw new RangeError(
      `Cannot offer "${name}": all offers would have ${byteLength} bytes of names and metadata, and the limit is ` +
        `${maximumMetadata} (maximumMetadata); withdraw some, or send the data in a buffer`,
    );
  }
}

/**
 * Returns metadata with the element type and the shape of an array. Metadata that is not a plain object is returned
 * unchanged.
 */
function describedMetadata(metadata: JsonValue | undefined, source: unknown): JsonValue | undefined {
  if (!(source instanceof DeviceArray)) return metadata;
  const { dtype } = source;
  const shape = [...source.shape];
  if (metadata === undefined) return { dtype, shape };
  const prototype: unknown = typeof metadata === "object" && metadata !== null ? Object.getPrototypeOf(metadata) : null;
  return prototype === Object.prototype ? { dtype, shape, ...metadata as object } : metadata;
}

function logOffer(event: "offer" | "withdraw" | "offer-end", { name, kind, byteLength }: OfferRecord): void {
  logEvent(event, { name, kind, bytes: byteLength });
}

function checkChannelOptions(name: string, options: ChannelOptions): void {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`Cannot create channel "${name}" without options: give its pool, slots and slotByteLength`);
  }
  checkOptions(options, channelOptions);
  const { pool, slots, slotByteLength, overflow = "wait", window = 1, minimumConsumers = 0, holdTimeout } = options;
  if (overflow !== "wait" && overflow !== "drop-oldest") {
    throw new TypeError(
      `Cannot create channel "${name}": overflow is ${shown(overflow)}, and must be "wait" or "drop-oldest"` +
        didYouMean(overflow, ["wait", "drop-oldest"]),
    );
  }
  if (!(pool instanceof MemoryPool) || pool.device === undefined) {
    throw new TypeError(`Cannot create channel "${name}": its pool must be a MemoryPool of a device`);
  }
  checkShareable(pool, `create channel "${name}"`);
  const channel = `channel "${name}"`;
  checkInteger(channel, { value: slots, what: "slots", minimum: 1, maximum: maximumSlots });
  checkByteLength(slotByteLength, `slotByteLength of ${channel}`, 1);
  checkByteLength(slots * strideOf(slotByteLength), `the size of the ${slots} slots of ${channel}`);
  checkInteger(channel, { value: window, what: "window", minimum: 1, maximum: slots });
  if (options.window !== undefined && overflow !== "drop-oldest") {
    throw new TypeError(
      `Cannot create ${channel}: window has no effect without overflow: "drop-oldest"; leave it out, or add that`,
    );
  }
  checkInteger(channel, { value: minimumConsumers, what: "minimumConsumers", minimum: 0 });
  if (holdTimeout !== undefined) checkMilliseconds(holdTimeout, `holdTimeout of ${channel}`);
}

/** Returns the distance between the starts of consecutive slots in bytes. */
function strideOf(slotByteLength: number): number {
  return Math.ceil(slotByteLength / slotAlignment) * slotAlignment;
}

function checkInteger(
  of: string,
  { value, what, minimum, maximum = Infinity }: { value: number; what: string; minimum: number; maximum?: number },
): void {
  if (Number.isSafeInteger(value) && value >= minimum && value <= maximum) return;
  const needed = `a whole number ${maximum === Infinity ? `of at least ${minimum}` : `from ${minimum} to ${maximum}`}`;
  const isNumber = typeof value === "number";
  const message = `Cannot create ${of}: ${what} is ${isNumber ? value : whatIs(value)}, and must be ${needed}`;
  throw isNumber ? new RangeError(message) : new TypeError(message);
}
