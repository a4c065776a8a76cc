import { type CudaStream, whenStreamDisposed } from "../../objects/cuda_stream.ts";
import { whenDone } from "../../support/waiting/waiting.ts";
import type { OfferRecord } from "./offer_record.ts";
import type { LocalEvent, LocalEvents } from "../events/local_events.ts";

/** A ready event: it is recorded behind the work that must be done before offers may be read. */
export interface ReadyMoment {
  readonly own: LocalEvent;
  readonly stream: CudaStream;
  /** The number of offers that have it and have not ended. */
  users: number;
  /** Whether it is known to have fired. Stays true. */
  isPast: boolean;
  /** Whether it was queried since the last microtask and had not fired. */
  isKnownToBeAhead: boolean;
}

/** The callbacks of `ReadyEvents`. */
export interface ReadyEventsHandlers {
  /** The ready event of an offer is known: it is in `record.ready`, or the memory may be read already. */
  onKnown(record: OfferRecord): void;
  /** A ready event cannot be found, because the device is lost. */
  onFailure(error: unknown): void;
}

/** Offers of one stream's work that are made synchronously, one after another. */
interface Run {
  /** The number of offers so far. */
  count: number;
  /** Recorded again whenever the stream is queried and is not idle. */
  moment: ReadyMoment | undefined;
  /** The offers that have it. */
  readonly awaiting: OfferRecord[];
  /** The offers for which the stream was not queried yet. */
  unasked: OfferRecord[];
  /** Stops watching for the disposal of the stream. */
  forgetStream: (() => void) | undefined;
}

/**
 * The number of offers of a batch for which the stream is queried one by one: they do not wait for work that the stream
 * is given after them.
 */
const offersAlone = 8;
/**
 * Beyond that number, the stream is queried once for this many offers: querying a GPU's stream costs as much as
 * everything else that an offer takes.
 */
const offersTogether = 32;

/**
 * Finds the ready event of each offer. Offers made synchronously on one stream share an event, which is announced to
 * nobody before the next microtask. Offers on an idle stream need no event.
 */
export class ReadyEvents {
  readonly #events: LocalEvents;
  readonly #handlers: ReadyEventsHandlers;
  readonly #runs = new Map<CudaStream, Run>();

  constructor(events: LocalEvents, handlers: ReadyEventsHandlers) {
    this.#events = events;
    this.#handlers = handlers;
  }

  /**
   * Finds the ready event of a new offer: it fires when the stream has finished the work that it was given so far. The
   * event may be known before this returns. If this throws, no callback is called for the offer.
   */
  await(record: OfferRecord, stream: CudaStream): void {
    const run = this.#runOf(stream);
    run.count++;
    if (run.count > offersAlone && run.count % offersTogether !== 0) {
      // Throws now if the stream was disposed.
      void stream.unsafeHandle;
      run.unasked.push(record);
      run.forgetStream ??= whenStreamDisposed(stream, () => this.#askAgain(stream, run));
    } else {
      const moment = this.#ask(stream, run);
      this.#answer(run, moment);
      this.#give(record, { run, moment });
    }
  }

  /** Removes an offer from its ready event. The offer has ended for every importer. */
  leave(moment: ReadyMoment): void {
    moment.users--;
    if (moment.users > 0) return;
    const run = this.#runs.get(moment.stream);
    if (run?.moment === moment) run.moment = undefined;
    this.#events.release(moment.own);
  }

  #runOf(stream: CudaStream): Run {
    let run = this.#runs.get(stream);
    if (run === undefined) {
      if (this.#runs.size === 0) queueMicrotask(() => this.#end());
      run = { count: 0, moment: undefined, awaiting: [], unasked: [], forgetStream: undefined };
      this.#runs.set(stream, run);
    }
    return run;
  }

  /** Ends the batches of all streams. */
  #end(): void {
    const runs = [...this.#runs];
    for (const [stream, run] of runs) this.#askAgain(stream, run);
    this.#runs.clear();
    for (const [, { forgetStream }] of runs) forgetStream?.();
    for (const [, { awaiting }] of runs) {
      for (const record of awaiting) if (!record.isWithdrawn) this.#handlers.onKnown(record);
    }
  }

  /** Queries the stream for the offers for which it was not queried yet. */
  #askAgain(stream: CudaStream, run: Run): void {
    if (run.unasked.every(({ isWithdrawn }) => isWithdrawn)) return;
    let moment: ReadyMoment | undefined;
    try {
      moment = this.#ask(stream, run);
    } catch (error) {
      run.unasked = [];
      return this.#handlers.onFailure(error);
    }
    this.#answer(run, moment);
  }

  /** Returns an event behind all work that the stream was given so far; undefined if that work is done. */
  #ask(stream: CudaStream, run: Run): ReadyMoment | undefined {
    if (stream.query()) return undefined;
    if (run.moment !== undefined) {
      stream.record(run.moment.own.event);
      return run.moment;
    }
    const own = this.#events.take(stream.device);
    try {
      stream.record(own.event);
    } catch (error) {
      this.#events.release(own);
      throw error;
    }
    return run.moment = { own, stream, users: 0, isPast: false, isKnownToBeAhead: false };
  }

  /** Assigns the result of a query to the offers that were waiting for one. */
  #answer(run: Run, moment: ReadyMoment | undefined): void {
    if (run.unasked.length === 0) return;
    const { unasked } = run;
    run.unasked = [];
    for (const record of unasked) if (!record.isWithdrawn) this.#give(record, { run, moment });
  }

  #give(record: OfferRecord, { run, moment }: { run: Run; moment: ReadyMoment | undefined }): void {
    if (moment === undefined) return this.#handlers.onKnown(record);
    moment.users++;
    record.ready = moment;
    run.awaiting.push(record);
  }
}

/** Whether a ready event has fired. If the device is lost, it never fires. */
export function hasCome(moment: ReadyMoment): boolean {
  try {
    return ask(moment);
  } catch {
    return false;
  }
}

/** Calls back once a ready event has fired or can never fire. */
export function whenCome(moment: ReadyMoment, callback: (error?: unknown) => void): () => void {
  return whenDone(() => ask(moment), callback);
}

/** Queries the driver, at most once between two microtasks. */
function ask(moment: ReadyMoment): boolean {
  if (moment.isPast || moment.isKnownToBeAhead) return moment.isPast;
  moment.isPast = moment.own.event.query();
  if (!moment.isPast) {
    moment.isKnownToBeAhead = true;
    queueMicrotask(() => moment.isKnownToBeAhead = false);
  }
  return moment.isPast;
}
