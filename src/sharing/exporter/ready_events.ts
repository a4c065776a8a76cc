import { type CudaStream, whenStreamDisposed } from "../../objects/cuda_stream.ts";
import { whenDone } from "../../support/waiting/waiting.ts";
import type { OfferRecord } from "./offer_record.ts";
import type { LocalEvent, LocalEvents } from "../events/local_events.ts";

/** The moment from which offers may be read: an event that is behind the work that comes before. */
export interface ReadyMoment {
  readonly own: LocalEvent;
  readonly stream: CudaStream;
  /** Offers that have it and have not ended. */
  users: number;
  /** Whether it is known to have come: it stays so. */
  isPast: boolean;
  /** Whether it was asked for in the present run of JavaScript, and had not come. */
  isKnownToBeAhead: boolean;
}

/** What is told of offers whose moment is found. */
export interface ReadyEventsHandlers {
  /** From now on it is known when it may be read. */
  onKnown(record: OfferRecord): void;
  /** It cannot be known any more: the device is lost. */
  onFailure(error: unknown): void;
}

/** What one run of JavaScript offers of what one stream does. */
interface Run {
  /** Offers so far. */
  count: number;
  /** Recorded anew whenever the stream is asked and is not at rest. */
  moment: ReadyMoment | undefined;
  /** Those that have it. */
  readonly awaiting: OfferRecord[];
  /** Those for which the stream has yet to be asked. */
  unasked: OfferRecord[];
  /** Stops looking at whether the stream is disposed. */
  forgetStream: (() => void) | undefined;
}

/** So many offers of a run are looked at one by one: what the stream is given behind them in the same run is not theirs. */
const offersAlone = 8;
/** Of more than these, so many together: to ask a GPU's stream costs as much as all else that an offer takes. */
const offersTogether = 32;

/**
 * The moments from which offers may be read. Offers that are made in one run of JavaScript, and on one stream, share an
 * event, which nobody is told of before that run ends. A stream that is at rest needs none.
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
   * Finds the moment of a new offer: the end of what the stream was given so far. It may be known before this returns.
   * Where this throws, nothing is told of the offer.
   */
  await(record: OfferRecord, stream: CudaStream): void {
    const run = this.#runOf(stream);
    run.count++;
    if (run.count > offersAlone && run.count % offersTogether !== 0) {
      // Who offers what a stream does that is gone is told now.
      void stream.unsafeHandle;
      run.unasked.push(record);
      run.forgetStream ??= whenStreamDisposed(stream, () => this.#askAgain(stream, run));
    } else {
      const moment = this.#ask(stream, run);
      this.#answer(run, moment);
      this.#give(record, { run, moment });
    }
  }

  /** An offer has ended, for every importer that was told of it. */
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

  /** The present run of JavaScript has ended. */
  #end(): void {
    const runs = [...this.#runs];
    for (const [stream, run] of runs) this.#askAgain(stream, run);
    this.#runs.clear();
    for (const [, { forgetStream }] of runs) forgetStream?.();
    for (const [, { awaiting }] of runs) {
      for (const record of awaiting) if (!record.isWithdrawn) this.#handlers.onKnown(record);
    }
  }

  /** Asks the stream for those for which it was not. */
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

  /** The moment that is behind all that the stream was given so far; undefined where that is done. */
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

  /** Tells of those for which the stream had yet to be asked. */
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

/** Whether it has come. Where the device is lost, it never does. */
export function hasCome(moment: ReadyMoment): boolean {
  try {
    return ask(moment);
  } catch {
    return false;
  }
}

/** Calls back once it has come, or cannot come any more. */
export function whenCome(moment: ReadyMoment, callback: (error?: unknown) => void): () => void {
  return whenDone(() => ask(moment), callback);
}

/** Asks the driver, once in a run of JavaScript. */
function ask(moment: ReadyMoment): boolean {
  if (moment.isPast || moment.isKnownToBeAhead) return moment.isPast;
  moment.isPast = moment.own.event.query();
  if (!moment.isPast) {
    moment.isKnownToBeAhead = true;
    queueMicrotask(() => moment.isKnownToBeAhead = false);
  }
  return moment.isPast;
}
