/**
 * The events after which offered memory may be used, and the detection of devices that are lost while importers wait
 * for an event.
 *
 * @module
 */
import { type CudaStream, whenStreamDisposed } from "../../objects/streams/cuda_stream.ts";
import { whenDone } from "../../support/waiting/waiting.ts";
import type { OfferRecord } from "./offer.ts";
import type { LocalEvent, LocalEvents } from "../events/local_events.ts";
import { withoutCollectiveErrors } from "../../objects/device_sessions.ts";
import { Timer } from "../../support/waiting/timer.ts";

/** An event that must fire before importers may read the memory of the offers that use the event. */
export interface ReadyEvent {
  readonly localEvent: LocalEvent;
  readonly stream: CudaStream;
  /** The number of offers that use the event and have not ended. */
  users: number;
  /** Whether the event is known to have fired. Once true, stays true. */
  hasFired: boolean;
  /** Whether a query in the current microtask found the event unfired. */
  isKnownPending: boolean;
}

/** The callbacks of `ReadyEvents`. */
export interface ReadyEventsHandlers {
  /**
   * Called when the ready event of an offer has been determined. `record.ready` is that event, or undefined if the
   * memory may be read already.
   */
  onKnown(record: OfferRecord): void;
  /** Called when no ready event can be determined, because the device is lost. */
  onFailure(error: unknown): void;
}

/** The offers on one stream that are made in the same synchronous code and share a ready event. */
interface Batch {
  /** The number of offers in the batch so far. */
  count: number;
  /** The ready event of the batch, which is recorded again whenever a query finds the stream busy. */
  readyEvent: ReadyEvent | undefined;
  /** The offers that use `readyEvent`. They are passed to `onKnown` when the batch ends. */
  readonly awaiting: OfferRecord[];
  /** The offers for which the stream has not been queried yet. */
  unqueried: OfferRecord[];
  /** Removes the callback that runs when the stream is disposed of. */
  stopWatchingStream: (() => void) | undefined;
}

/**
 * The number of offers at the start of a batch for which the stream is queried immediately, once per offer, so that
 * these offers do not wait for work that is enqueued on the stream later.
 */
const individualOffers = 8;
/**
 * After the first `individualOffers` offers of a batch, the stream is queried only once for every 32 offers, because
 * querying a GPU's stream takes as long as all the other steps of making an offer combined.
 */
const offersPerQuery = 32;

/**
 * Determines the ready event of each offer. Offers on one stream that are made in the same synchronous code share an
 * event, which is not announced to importers before the next microtask. Offers on an idle stream need no event.
 */
export class ReadyEvents {
  readonly #events: LocalEvents;
  readonly #handlers: ReadyEventsHandlers;
  readonly #batches = new Map<CudaStream, Batch>();

  constructor(events: LocalEvents, handlers: ReadyEventsHandlers) {
    this.#events = events;
    this.#handlers = handlers;
  }

  /**
   * Determines the ready event of a new offer. The event fires when the stream has finished its current work. `onKnown`
   * may be called before this function returns. If this throws, no callback is called for the offer.
   */
  assign(record: OfferRecord, stream: CudaStream): void {
    const batch = this.#batchOf(stream);
    batch.count++;
    if (batch.count > individualOffers && batch.count % offersPerQuery !== 0) {
      // Reading the handle throws if the stream was disposed of.
      void stream.unsafeHandle;
      batch.unqueried.push(record);
      batch.stopWatchingStream ??= whenStreamDisposed(stream, () => this.#queryAgain(stream, batch));
    } else {
      const readyEvent = this.#eventBehind(stream, batch);
      this.#assignUnqueried(batch, readyEvent);
      this.#assign(record, { batch, readyEvent });
    }
  }

  /** Decrements the number of offers that use a ready event. Called when such an offer has ended for all importers. */
  release(readyEvent: ReadyEvent): void {
    readyEvent.users--;
    if (readyEvent.users > 0) return;
    const batch = this.#batches.get(readyEvent.stream);
    if (batch?.readyEvent === readyEvent) batch.readyEvent = undefined;
    this.#events.release(readyEvent.localEvent);
  }

  #batchOf(stream: CudaStream): Batch {
    let batch = this.#batches.get(stream);
    if (batch === undefined) {
      if (this.#batches.size === 0) queueMicrotask(() => this.#endBatches());
      batch = { count: 0, readyEvent: undefined, awaiting: [], unqueried: [], stopWatchingStream: undefined };
      this.#batches.set(stream, batch);
    }
    return batch;
  }

  /** Ends the batches of all streams. */
  #endBatches(): void {
    const batches = [...this.#batches];
    for (const [stream, batch] of batches) this.#queryAgain(stream, batch);
    this.#batches.clear();
    for (const [, { stopWatchingStream }] of batches) stopWatchingStream?.();
    for (const [, { awaiting }] of batches) {
      for (const record of awaiting) if (!record.isWithdrawn) this.#handlers.onKnown(record);
    }
  }

  /** Queries the stream, and assigns a ready event to the offers in `batch.unqueried`. */
  #queryAgain(stream: CudaStream, batch: Batch): void {
    if (batch.unqueried.every(({ isWithdrawn }) => isWithdrawn)) return;
    let readyEvent: ReadyEvent | undefined;
    try {
      readyEvent = this.#eventBehind(stream, batch);
    } catch (error) {
      batch.unqueried = [];
      return this.#handlers.onFailure(error);
    }
    this.#assignUnqueried(batch, readyEvent);
  }

  /** Returns an event recorded after all work enqueued on the stream so far. Undefined if the stream is idle. */
  #eventBehind(stream: CudaStream, batch: Batch): ReadyEvent | undefined {
    if (stream.query()) return undefined;
    if (batch.readyEvent !== undefined) {
      stream.record(batch.readyEvent.localEvent.event);
      return batch.readyEvent;
    }
    const localEvent = this.#events.take(stream.device);
    try {
      stream.record(localEvent.event);
    } catch (error) {
      this.#events.release(localEvent);
      throw error;
    }
    return batch.readyEvent = { localEvent, stream, users: 0, hasFired: false, isKnownPending: false };
  }

  /** Assigns a ready event to the offers in `batch.unqueried`. `readyEvent` is undefined if the stream was idle. */
  #assignUnqueried(batch: Batch, readyEvent: ReadyEvent | undefined): void {
    if (batch.unqueried.length === 0) return;
    const { unqueried } = batch;
    batch.unqueried = [];
    for (const record of unqueried) if (!record.isWithdrawn) this.#assign(record, { batch, readyEvent });
  }

  #assign(record: OfferRecord, { batch, readyEvent }: { batch: Batch; readyEvent: ReadyEvent | undefined }): void {
    if (readyEvent === undefined) return this.#handlers.onKnown(record);
    readyEvent.users++;
    record.ready = readyEvent;
    batch.awaiting.push(record);
  }
}

/** Returns whether a ready event has fired. Returns false if the device is lost. */
export function hasFired(readyEvent: ReadyEvent): boolean {
  try {
    return query(readyEvent);
  } catch {
    return false;
  }
}

/**
 * Calls `callback` once a ready event has fired, or with the error if querying the event fails. Returns a function that
 * cancels the callback.
 */
export function whenFired(readyEvent: ReadyEvent, callback: (error?: unknown) => void): () => void {
  return whenDone(() => query(readyEvent), callback);
}

/** Returns whether a ready event has fired. Queries the driver at most once per microtask. */
function query(readyEvent: ReadyEvent): boolean {
  if (readyEvent.hasFired || readyEvent.isKnownPending) return readyEvent.hasFired;
  readyEvent.hasFired = readyEvent.localEvent.event.query();
  if (!readyEvent.hasFired) {
    readyEvent.isKnownPending = true;
    queueMicrotask(() => readyEvent.isKnownPending = false);
  }
  return readyEvent.hasFired;
}

/** Milliseconds between two polls of a `DeviceWatch`. */
const pollInterval = 100;

/**
 * Polls the exporter's devices for errors while importers wait for events. If a kernel faults, the device's context is
 * destroyed, and the events never fire although the process is still running.
 */
export class DeviceWatch {
  /** Returns at most one unfired event of each device. */
  readonly #pending: () => Iterable<LocalEvent>;
  readonly #onLost: (error: unknown) => void;
  readonly #timer = new Timer(() => this.#poll(), pollInterval, { unref: true });

  constructor(pending: () => Iterable<LocalEvent>, onLost: (error: unknown) => void) {
    this.#pending = pending;
    this.#onLost = onLost;
  }

  /** Starts polling. Called when an importer may wait for an event. */
  start(): void {
    this.#timer.start();
  }

  stop(): void {
    this.#timer.stop();
  }

  #poll(): void {
    let isPending = false;
    try {
      for (const { device, event } of this.#pending()) {
        isPending = true;
        withoutCollectiveErrors(device, () => event.query());
      }
    } catch (error) {
      return this.#onLost(error);
    }
    if (isPending) this.start();
  }
}
