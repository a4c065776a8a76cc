/**
 * Streams and events of the software device, with CUDA's semantics: work given to a stream is done later, in order;
 * streams go on side by side, and a piece of work may wait for work of other streams, or for another process.
 *
 * Work is done in slices, from the event loop or while the host synchronizes, so that a long kernel stops neither the
 * event loop nor the other streams.
 *
 * @module
 */

import { atNextTurn } from "../turn.ts";

/** One piece of a stream's work. */
export interface Work {
  /** Set once the work is done, or dropped because its device was lost. */
  done: boolean;
  /** Position in the stream, from 1. */
  readonly position: number;
  readonly stream: Stream;
  /** Work of other streams that comes first. */
  readonly after: readonly Work[];
  /** Does a slice of the work; true when none is left. */
  readonly run: () => boolean;
}

/** A stream: its work in order, and what it knows to come before its next piece of work. */
export class Stream {
  readonly device: number;
  /** The legacy default stream of its device, which waits for the blocking ones and they for it. */
  readonly isDefault: boolean;
  readonly nonBlocking: boolean;
  readonly queue: Work[] = [];
  /** How far in each stream the next piece of work comes after, by the events waited for. */
  readonly cameAfter: Map<Stream, number> = new Map();
  last: Work | undefined;
  length = 0;

  constructor(
    device: number,
    { isDefault = false, nonBlocking = false }: { isDefault?: boolean; nonBlocking?: boolean },
  ) {
    this.device = device;
    this.isDefault = isDefault;
    this.nonBlocking = nonBlocking;
  }
}

/** An event: the work that it was last recorded behind. */
export class Event {
  readonly device: number;
  readonly flags: number;
  recorded: Work | undefined;
  /** What came before the record, for streams that wait for it. */
  cameAfter: ReadonlyMap<Stream, number> = new Map();
  /** When the recorded work was done, in milliseconds; undefined until then. */
  time: number | undefined;

  constructor(device: number, flags: number) {
    this.device = device;
    this.flags = flags;
  }
}

const sliceMilliseconds = 4;

/** Does the work of all streams of all devices. */
export class Scheduler {
  readonly #streams = new Set<Stream>();
  #scheduled = false;
  #turn = 0;

  addStream(stream: Stream): void {
    this.#streams.add(stream);
  }

  /** The stream goes once its work is done. */
  removeStream(stream: Stream): void {
    if (stream.queue.length === 0) this.#streams.delete(stream);
    else this.enqueue(stream, () => this.#streams.delete(stream));
  }

  /** Appends work to a stream; `run` does a slice of it and returns true, or anything but false, when none is left. */
  enqueue(stream: Stream, run: () => unknown, after: readonly Work[] = []): Work {
    const dependencies = after.filter((work) => !work.done);
    if (stream.isDefault || !stream.nonBlocking) {
      for (const other of this.#streams) {
        const ordered = other !== stream && other.device === stream.device && !other.nonBlocking &&
          (stream.isDefault || other.isDefault);
        if (!ordered || other.last === undefined) continue;
        if (!other.last.done) dependencies.push(other.last);
        this.#comeAfter(stream, other, other.last.position);
      }
    }
    const work: Work = {
      done: false,
      position: ++stream.length,
      stream,
      after: dependencies,
      run: () => run() !== false,
    };
    stream.queue.push(work);
    stream.last = work;
    this.#schedule();
    return work;
  }

  record(event: Event, stream: Stream): void {
    event.time = undefined;
    const work = this.enqueue(stream, () => {
      // A later record supersedes this one.
      if (event.recorded === work) event.time = performance.now();
    });
    event.recorded = work;
    event.cameAfter = new Map(stream.cameAfter);
  }

  wait(stream: Stream, event: Event): void {
    const { recorded } = event;
    if (recorded === undefined) return;
    for (const [other, position] of event.cameAfter) this.#comeAfter(stream, other, position);
    this.#comeAfter(stream, recorded.stream, recorded.position);
    if (!recorded.done && recorded.stream !== stream) this.enqueue(stream, () => true, [recorded]);
  }

  /** Whether the next work of `stream` is known to come after `work`. */
  comesAfter(stream: Stream, work: Work): boolean {
    return stream === work.stream || (stream.cameAfter.get(work.stream) ?? 0) >= work.position;
  }

  /** Does some work; false when there is none that can go on. */
  step(): boolean {
    const streams = [...this.#streams];
    for (let offset = 0; offset < streams.length; offset++) {
      const index = (this.#turn + offset) % streams.length;
      const work = streams[index]!.queue[0];
      if (work === undefined || work.after.some((other) => !other.done)) continue;
      if (work.run()) {
        work.done = true;
        work.stream.queue.shift();
      }
      this.#turn = index + 1;
      return true;
    }
    return false;
  }

  /** Does work until `done` holds. */
  runUntil(done: () => boolean): void {
    while (!done()) {
      if (!this.step()) throw new Error("Cannot go on: every stream waits for work that no stream has");
    }
  }

  /** Drops all work of a device that was lost. */
  drop(device: number): void {
    for (const stream of this.#streams) {
      if (stream.device !== device) continue;
      for (const work of stream.queue.splice(0)) work.done = true;
    }
  }

  #comeAfter(stream: Stream, other: Stream, position: number): void {
    if ((stream.cameAfter.get(other) ?? 0) < position) stream.cameAfter.set(other, position);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    atNextTurn(() => {
      this.#scheduled = false;
      const end = performance.now() + sliceMilliseconds;
      let goesOn = true;
      while (goesOn && performance.now() < end) goesOn = this.step();
      if (goesOn) this.#schedule();
    });
  }
}
