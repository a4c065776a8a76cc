import type { CudaStream } from "../cuda_stream.ts";
import { whenDone } from "../waiting.ts";
import type { OwnEvent, OwnEvents } from "./own_events.ts";

/** The moment from which offers may be read. */
export interface ReadyMoment {
  readonly own: OwnEvent;
  /** Offers that have it and have not ended. */
  users: number;
}

/**
 * The moments from which offers may be read. Offers that are made in one go, and on one stream, share an event: it is
 * recorded anew for each until the first importer is told of it, which is when the present run of JavaScript ends.
 */
export class ReadyEvents {
  readonly #events: OwnEvents;
  #recent: Map<CudaStream, ReadyMoment> | undefined;

  constructor(events: OwnEvents) {
    this.#events = events;
  }

  /** The end of what the stream was given so far; undefined where that is done. */
  record(stream: CudaStream): ReadyMoment | undefined {
    if (stream.query()) return undefined;
    const moment = this.#recent?.get(stream) ?? this.#create(stream);
    stream.record(moment.own.event);
    moment.users++;
    return moment;
  }

  /** An offer has ended, for every importer that was told of it. */
  leave(moment: ReadyMoment): void {
    moment.users--;
    if (moment.users > 0) return;
    this.#recent?.delete(this.#streamOf(moment)!);
    this.#events.giveBack(moment.own);
  }

  #streamOf(moment: ReadyMoment): CudaStream | undefined {
    for (const [stream, recent] of this.#recent ?? []) if (recent === moment) return stream;
    return undefined;
  }

  #create(stream: CudaStream): ReadyMoment {
    const moment = { own: this.#events.take(stream.device), users: 0 };
    if (this.#recent === undefined) {
      this.#recent = new Map();
      queueMicrotask(() => this.#recent = undefined);
    }
    this.#recent.set(stream, moment);
    return moment;
  }
}

/** Whether it has come. Where the device is lost, it never does. */
export function hasCome(moment: ReadyMoment): boolean {
  try {
    return moment.own.event.query();
  } catch {
    return false;
  }
}

/** Calls back once it has come, or cannot come any more. */
export function whenCome(moment: ReadyMoment, callback: (error?: unknown) => void): () => void {
  return whenDone(() => moment.own.event.query(), callback);
}
