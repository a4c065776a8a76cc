/**
 * The events after which offered memory may be used, and a watch over devices that are lost while an event is awaited.
 *
 * @module
 */
import { type CudaStream, whenStreamDisposed } from "../../objects/streams/cuda_stream.ts";
import { whenDone } from "../../support/waiting/waiting.ts";
import type { OfferRecord } from "./offer.ts";
import type { LocalEvent, LocalEvents } from "../events/local_events.ts";
import { withoutCollectiveErrors } from "../../objects/device_sessions.ts";
import { Timer } from "../../support/waiting/timer.ts";

/** A ready event: it is recorded behind the work that must be done before offers may be read. */
export interface ReadyEvent {
  readonly localEvent: LocalEvent;
  readonly stream: CudaStream;
  /** The number of offers that have it and have not ended. */
  users: number;
  /** Whether it is known to have fired. Stays true. */
  hasFired: boolean;
  /** Set until the next microtask if a query found that it had not fired. */
  isKnownPending: boolean;
}

/** The callbacks of `ReadyEvents`. */
export interface ReadyEventsHandlers {
  /** The ready event of an offer is known: it is in `record.ready`, or the memory may be read already. */
  onKnown(record: OfferRecord): void;
  /** A ready event cannot be found, because the device is lost. */
  onFailure(error: unknown): void;
}

/** Offers of one stream's work that are made synchronously, one after another. */
interface Batch {
  /** The number of offers so far. */
  count: number;
  /** Recorded again whenever the stream is queried and is not idle. */
  readyEvent: ReadyEvent | undefined;
  /** The offers that have it. */
  readonly awaiting: OfferRecord[];
  /** The offers for which the stream was not queried yet. */
  unqueried: OfferRecord[];
  /** Stops watching for the disposal of the stream. */
  stopWatchingStream: (() => void) | undefined;
}

/**
 * The number of offers of a batch for which the stream is queried one by one: they do not wait for work that the stream
 * is given after them.
 */
const individualOffers = 8;
/**
 * Beyond that number, the stream is queried once for this many offers: querying a GPU's stream costs as much as
 * everything else that an offer takes.
 */
const offersPerQuery = 32;

/**
 * Finds the ready event of each offer. Offers made synchronously on one stream share an event, which is announced to
 * nobody before the next microtask. Offers on an idle stream need no event.
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
   * Finds the ready event of a new offer: it fires when the stream has finished the work that it was given so far. The
   * event may be known before this returns. If this throws, no callback is called for the offer.
   */
  assign(record: OfferRecord, stream: CudaStream): void {
    const batch = this.#batchOf(stream);
    batch.count++;
    if (batch.count > individualOffers && batch.count % offersPerQuery !== 0) {
      // Throws if the stream was disposed, as a query would.
      void stream.unsafeHandle;
      batch.unqueried.push(record);
      batch.stopWatchingStream ??= whenStreamDisposed(stream, () => this.#queryAgain(stream, batch));
    } else {
      const readyEvent = this.#eventBehind(stream, batch);
      this.#assignUnqueried(batch, readyEvent);
      this.#assign(record, { batch, readyEvent });
    }
  }

  /** Removes an offer from its ready event. The offer has ended for every importer. */
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

  /** Queries the stream for the offers for which it was not queried yet. */
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

  /** Returns an event behind all work that the stream was given so far; undefined if that work is done. */
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

  /** Assigns the result of a query to the offers that were waiting for one. */
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

/** Whether a ready event has fired. If the device is lost, it never fires. */
export function hasFired(readyEvent: ReadyEvent): boolean {
  try {
    return query(readyEvent);
  } catch {
    return false;
  }
}

/** Calls back once a ready event has fired or can never fire. */
export function whenFired(readyEvent: ReadyEvent, callback: (error?: unknown) => void): () => void {
  return whenDone(() => query(readyEvent), callback);
}

/** Queries the driver, at most once until the next microtask. */
function query(readyEvent: ReadyEvent): boolean {
  if (readyEvent.hasFired || readyEvent.isKnownPending) return readyEvent.hasFired;
  readyEvent.hasFired = readyEvent.localEvent.event.query();
  if (!readyEvent.hasFired) {
    readyEvent.isKnownPending = true;
    queueMicrotask(() => readyEvent.isKnownPending = false);
  }
  return readyEvent.hasFired;
}

/** Milliseconds between two polls. */
const pollInterval = 100;

/**
 * Polls whether the exporter's device still works while importers wait for its events. A kernel that faults destroys
 * the device's context, but the process lives on, and the events never fire.
 */
export class DeviceWatch {
  /** Returns at most one event of each device, none of which is known to have fired. */
  readonly #pending: () => Iterable<LocalEvent>;
  readonly #onLost: (error: unknown) => void;
  readonly #timer = new Timer(() => this.#poll(), pollInterval, { unref: true });

  constructor(pending: () => Iterable<LocalEvent>, onLost: (error: unknown) => void) {
    this.#pending = pending;
    this.#onLost = onLost;
  }

  /** Starts polling, because an importer may wait for an event. */
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
