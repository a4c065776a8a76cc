/**
 * Streams and events of the software device, with CUDA's semantics. A stream does its work later and in order. Streams
 * run side by side, and work may wait for work of other streams or for another process.
 *
 * Work is done in time slices, from the event loop or while the host synchronizes, so that a long kernel blocks neither
 * the event loop nor other streams.
 *
 * @module
 */

import { areOrderedByDefaultStream } from "../../driver.ts";
import type { Choice } from "../schedule.ts";
import { pause, Timer } from "../../support/waiting/timer.ts";
import { atNextTurn } from "../../support/waiting/waiting.ts";

/** What a stream waits for: a piece of work, or a record of another process. */
export interface Awaited {
  readonly done: boolean;
}

/** What a piece of work waits for, and what happens to it when the devices are lost. */
export interface WorkOptions {
  /** Work of other streams or processes that must be done first. */
  readonly after?: readonly Awaited[];
  /** Whether to do it even after the devices are lost. Memory management is done, computation is not. */
  readonly outlivesDevice?: boolean;
  /** Frees what only this work needs. Called once the work is done or dropped. */
  readonly release?: () => void;
  /** The name of the kernel that it launches. */
  readonly kernel?: string;
}

const nothing: readonly Awaited[] = [];
/** Milliseconds between polls of other processes. */
const quietInterval = 1;

/** A piece of a stream's work. */
export class Work {
  /** Set once the work is done, or dropped because the devices were lost. */
  done = false;
  /** Its position in the stream, counted from 1. */
  readonly position: number;
  readonly stream: Stream;
  readonly outlivesDevice: boolean;
  readonly kernel: string | undefined;
  /** The next work of the stream. */
  next: Work | undefined;
  #after: readonly Awaited[];
  #run: (() => unknown) | undefined;
  #release: (() => void) | undefined;

  constructor(
    stream: Stream,
    run: () => unknown,
    { after = nothing, outlivesDevice = false, release, kernel }: WorkOptions,
  ) {
    this.stream = stream;
    this.kernel = kernel;
    this.position = ++stream.length;
    this.outlivesDevice = outlivesDevice;
    this.#after = after;
    this.#run = run;
    this.#release = release;
  }

  /**
   * What the work waits for: nothing, work of another stream, or another process, which only polling can tell. Poll it
   * once a turn, because another process may finish at any time.
   */
  get obstacle(): "none" | "stream" | "process" {
    let obstacle: "none" | "stream" | "process" = "none";
    for (const other of this.#after) {
      if (other.done) continue;
      if (!(other instanceof Work)) return "process";
      obstacle = "stream";
    }
    return obstacle;
  }

  /** Does a slice of the work. Returns whether it is done. */
  run(): boolean {
    return this.#run!() !== false;
  }

  /** Releases everything that the work refers to, so that keeping the work does not keep its neighbours alive. */
  finish(): void {
    this.done = true;
    this.next = undefined;
    this.#after = nothing;
    this.#run = undefined;
    this.#release?.();
    this.#release = undefined;
  }
}

/** A vector clock: for each other stream, the last position that something is ordered after. */
type Progress = ReadonlyMap<Stream, number>;

let streamCount = 0;

/** A stream: its work in order, and the work that its next work is ordered after. */
export class Stream {
  readonly device: number;
  /** Streams that were created later have greater numbers. */
  readonly number: number = streamCount++;
  /** Whether it is the legacy default stream of its device. */
  readonly isDefault: boolean;
  /** Whether it and the default stream wait for each other. */
  readonly isBlocking: boolean;
  /** The priority that `cudaStreamGetPriority` returns. It has no effect. */
  readonly priority: number;
  /** The work to do next, the head of a linked list. */
  first: Work | undefined;
  /** The work that was added last, done or not. */
  last: Work | undefined;
  /** The number of pieces of work that were ever added. */
  length = 0;
  /** Whether to remove the stream when its work is done. */
  isDestroyed = false;
  /** Whether the stream was destroyed and its work is done, so that all later work is ordered after it. */
  isGone = false;
  #cameAfter = new Map<Stream, number>();
  /** Whether an event shares the map, which must then not change. */
  #isShared = false;

  constructor(
    device: number,
    { isDefault = false, isBlocking = true, priority = 0 }: {
      isDefault?: boolean;
      isBlocking?: boolean;
      priority?: number;
    },
  ) {
    this.device = device;
    this.isDefault = isDefault;
    this.isBlocking = isBlocking;
    this.priority = priority;
  }

  get isIdle(): boolean {
    return this.first === undefined;
  }

  /** Whether its next work is ordered after `work`. */
  comesAfter(work: Work): boolean {
    return work.stream === this || work.stream.isGone || this.#knows(work.stream, work.position);
  }

  /** Records that its next work is ordered after `work`, and after everything before `work`. */
  comeAfter(work: Work, before: Progress): void {
    if (this.comesAfter(work)) return;
    for (const [other, position] of before) this.#note(other, position);
    this.#note(work.stream, work.position);
  }

  /** Records that its next work is ordered after all work of another stream. */
  comeAfterAllOf(other: Stream): void {
    if (other.last !== undefined) this.comeAfter(other.last, other.#cameAfter);
  }

  /** The clock of its next work. The returned map does not change. */
  cameAfter(): Progress {
    this.#isShared = true;
    return this.#cameAfter;
  }

  /** Removes a stream that is gone. */
  forget(other: Stream): void {
    if (this.#cameAfter.has(other)) this.#ownCameAfter().delete(other);
  }

  #knows(other: Stream, position: number): boolean {
    return (this.#cameAfter.get(other) ?? 0) >= position;
  }

  #note(other: Stream, position: number): void {
    if (other !== this && !other.isGone && !this.#knows(other, position)) this.#ownCameAfter().set(other, position);
  }

  #ownCameAfter(): Map<Stream, number> {
    if (this.#isShared) this.#cameAfter = new Map(this.#cameAfter);
    this.#isShared = false;
    return this.#cameAfter;
  }
}

/** An event: the work that it was last recorded behind. */
export class Event {
  readonly device: number;
  readonly flags: number;
  /** The last record by this process. */
  recorded: Work | undefined;
  /** Whether that was a record for all streams of the device. */
  isRecordedForDevice = false;
  /** The clock of the record, for streams that wait for it. */
  cameAfter: Progress = new Map();
  /** When the recorded work was done, in milliseconds. Undefined until then. */
  time: number | undefined;

  constructor(device: number, flags: number) {
    this.device = device;
    this.flags = flags;
  }

  /** The work that a waiting stream has to wait for now: the last record by any process. Undefined if there is none. */
  get latest(): Awaited | undefined {
    return this.recorded;
  }

  /** Called when a record is added to a stream. The returned function is called when the stream reaches it. */
  beginRecord(): (() => void) | undefined {
    return undefined;
  }

  /** Called when a stream reaches a record or a wait. */
  reached(): void {}
}

const sliceMilliseconds = 4;
/** How often in a row a schedule may choose the same work, because it may wait for other work. */
const mostTimesChosen = 1000;

/** Does the work of all streams of all devices. */
export class Scheduler {
  /** The streams of each device. */
  readonly #streams = new Map<number, Set<Stream>>();
  readonly #defaultStreams = new Map<number, Stream>();
  /** The streams that have work. */
  readonly #busy: Stream[] = [];
  readonly #onFailure: (device: number, cause: unknown) => void;
  /** Chooses the stream whose work is next. Undefined if they take turns. */
  readonly #choice: Choice | undefined;
  /** The work that was chosen last, and how often in a row. */
  #chosen: Work | undefined;
  #chosenTimes = 0;
  /** The index of the busy stream that is next. */
  #turn = 0;
  /** Whether a stream was waiting for another process when no work could be done. */
  #isBlockedOutside = false;
  #scheduled = false;
  /** Polls whether another process has done what a stream waits for. */
  readonly #timer = new Timer(() => this.#schedule(), quietInterval, { unref: true });

  /**
   * @param onFailure called with the error of a piece of work, and its device; all devices are lost, and their work is
   * dropped
   * @param choice chooses the stream whose work is next; by default, they take turns
   */
  constructor(onFailure: (device: number, cause: unknown) => void, choice?: Choice) {
    this.#onFailure = onFailure;
    this.#choice = choice;
  }

  addStream(stream: Stream): void {
    let streams = this.#streams.get(stream.device);
    if (streams === undefined) this.#streams.set(stream.device, streams = new Set());
    streams.add(stream);
    if (stream.isDefault) this.#defaultStreams.set(stream.device, stream);
  }

  /** Removes a stream once its work is done. */
  removeStream(stream: Stream): void {
    stream.isDestroyed = true;
    if (stream.isIdle) this.#letGo(stream);
  }

  /** Whether no stream of a device has work, including removed ones. */
  isIdle(device: number): boolean {
    for (const stream of this.#streams.get(device) ?? []) if (!stream.isIdle) return false;
    return true;
  }

  /** Whether a stream has no work. For the default stream, this includes the streams that are ordered with it. */
  isDone(stream: Stream): boolean {
    if (!stream.isIdle || !stream.isDefault) return stream.isIdle;
    for (const other of this.#streams.get(stream.device)!) {
      if (!other.isIdle && areOrderedByDefaultStream(stream, other)) return false;
    }
    return true;
  }

  /** Adds work to a stream. `run` does a slice of it, and returns false until it is done. */
  enqueue(
    stream: Stream,
    run: () => unknown,
    { after = nothing, outlivesDevice, release, kernel }: WorkOptions = {},
  ): Work {
    const first = after.filter((other) => !other.done);
    for (const other of this.#orderedWith(stream)) {
      if (other.last?.done === false) first.push(other.last);
      stream.comeAfterAllOf(other);
    }
    const work = new Work(stream, run, { after: first, outlivesDevice: outlivesDevice ?? false, release, kernel });
    if (stream.first === undefined) {
      stream.first = work;
      this.#busy.push(stream);
    } else {
      stream.last!.next = work;
    }
    stream.last = work;
    this.#schedule();
    return work;
  }

  /** Records an event on a stream. With `after`, the record waits for that work too. */
  record(event: Event, stream: Stream, after?: readonly Work[]): Work {
    event.time = undefined;
    const complete = event.beginRecord();
    const work = this.enqueue(stream, () => {
      // A later record supersedes this one.
      if (event.recorded === work) event.time = performance.now();
      complete?.();
      event.reached();
    }, { after });
    event.recorded = work;
    event.isRecordedForDevice = false;
    event.cameAfter = stream.cameAfter();
    return work;
  }

  /**
   * Records an event after the work so far of all streams of its device. The record is the only work of a stream of its
   * own, so that no other stream waits for it.
   */
  recordDevice(event: Event): Work {
    const others = [...this.#streams.get(event.device)!];
    const stream = new Stream(event.device, { isBlocking: false });
    this.addStream(stream);
    const unfinished: Work[] = [];
    for (const other of others) {
      stream.comeAfterAllOf(other);
      if (other.last?.done === false) unfinished.push(other.last);
    }
    const work = this.record(event, stream, unfinished);
    event.isRecordedForDevice = true;
    this.removeStream(stream);
    return work;
  }

  /** Makes the stream's next work wait for an event. Returns the added work, if there is anything to wait for. */
  wait(stream: Stream, event: Event): Work | undefined {
    const { latest } = event;
    // The progress of another process's streams says nothing about this one's.
    if (latest instanceof Work) stream.comeAfter(latest, event.cameAfter);
    if (latest === undefined || latest.done || (latest instanceof Work && latest.stream === stream)) return undefined;
    return this.enqueue(stream, () => event.reached(), { after: [latest] });
  }

  /** Whether the next work of `stream` is ordered after `work`, by events or by default streams. */
  comesAfter(stream: Stream, work: Work): boolean {
    return stream.comesAfter(work) || areOrderedByDefaultStream(stream, work.stream);
  }

  /** Does some work. Returns false if none can be done. */
  step(): boolean {
    this.#isBlockedOutside = false;
    if (this.#choice !== undefined) return this.#stepByChoice(this.#choice);
    for (let left = this.#busy.length; left > 0; left--) {
      if (this.#turn >= this.#busy.length) this.#turn = 0;
      const stream = this.#busy[this.#turn]!;
      const work = stream.first!;
      this.#turn++;
      const { obstacle } = work;
      if (obstacle === "process") this.#isBlockedOutside = true;
      if (obstacle !== "none") continue;
      if (this.#runSlice(work)) this.#finishFirst(stream);
      return true;
    }
    return false;
  }

  #stepByChoice(choice: Choice): boolean {
    const streams = this.#busy.filter((stream) => {
      const { obstacle } = stream.first!;
      if (obstacle === "process") this.#isBlockedOutside = true;
      return obstacle === "none";
    }).sort((a, b) => a.number - b.number);
    if (streams.length === 0) return false;
    let index = choice(streams.length);
    if (streams[index]!.first !== this.#chosen) this.#chosenTimes = 0;
    // A kernel may wait for what a kernel of another stream does.
    else if (++this.#chosenTimes > mostTimesChosen) index = (index + 1 + this.#chosenTimes) % streams.length;
    const stream = streams[index]!;
    if (this.#chosenTimes === 0) this.#chosen = stream.first;
    if (this.#runSlice(stream.first!)) this.#finishFirst(stream);
    return true;
  }

  /** Does work until `done` returns true. Another process may be what makes it true. */
  runUntil(done: () => boolean, { isOutside = false }: { isOutside?: boolean } = {}): void {
    while (!done()) {
      if (this.step()) continue;
      if (!isOutside && !this.#isBlockedOutside && !done()) {
        throw new Error("Cannot continue: every stream waits for work that no stream has");
      }
      pause();
    }
  }

  /** Drops the work of the lost devices, except what outlives them. */
  drop(): void {
    for (const stream of [...this.#streams.values()].flatMap((streams) => [...streams])) {
      const dropped = takeAll(stream);
      const kept = dropped.filter((work) => work.outlivesDevice);
      for (const work of dropped) if (!work.outlivesDevice) work.finish();
      stream.first = kept[0];
      for (const [index, work] of kept.entries()) work.next = kept[index + 1];
      // New work is linked to the last work that is left.
      if (kept.length > 0) stream.last = kept.at(-1);
      if (dropped.length > 0 && kept.length === 0) this.#becomeIdle(stream);
    }
  }

  /** Drops all work. Returns the names of the kernels whose launches are among it. */
  close(): string[] {
    const dropped = this.#busy.splice(0).flatMap(takeAll);
    for (const work of dropped) work.finish();
    this.#streams.clear();
    this.#timer.stop();
    return dropped.map(({ kernel }) => kernel).filter((kernel) => kernel !== undefined);
  }

  /** The streams whose work comes before the next work of `stream`, by the kinds of both. */
  #orderedWith(stream: Stream): readonly Stream[] {
    if (!stream.isBlocking) return [];
    if (!stream.isDefault) return [this.#defaultStreams.get(stream.device)!];
    return [...this.#streams.get(stream.device)!].filter((other) => areOrderedByDefaultStream(stream, other));
  }

  /** Returns whether the work is done. If it throws, its stream must not wait for it again. */
  #runSlice(work: Work): boolean {
    try {
      return work.run();
    } catch (cause) {
      this.#onFailure(work.stream.device, cause);
      // This drops the failed work too, unless it outlives the device.
      this.drop();
      return work.stream.first === work;
    }
  }

  #finishFirst(stream: Stream): void {
    const work = stream.first!;
    stream.first = work.next;
    work.finish();
    if (stream.isIdle) this.#becomeIdle(stream);
  }

  #becomeIdle(stream: Stream): void {
    const index = this.#busy.indexOf(stream);
    this.#busy.splice(index, 1);
    if (index < this.#turn) this.#turn--;
    if (stream.isDestroyed) this.#letGo(stream);
  }

  #letGo(stream: Stream): void {
    stream.isGone = true;
    this.#streams.get(stream.device)?.delete(stream);
    for (const streams of this.#streams.values()) for (const other of streams) other.forget(stream);
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
      else if (this.#isBlockedOutside) this.#timer.start();
    });
  }
}

/** Removes all work from a stream. */
function takeAll(stream: Stream): Work[] {
  const taken: Work[] = [];
  for (let work = stream.first; work !== undefined; work = work.next) taken.push(work);
  stream.first = undefined;
  return taken;
}
