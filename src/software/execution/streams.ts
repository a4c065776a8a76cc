/**
 * Streams and events of the software device, with CUDA's semantics. A stream runs its work asynchronously and in order.
 * Streams run concurrently, and work may wait for work of other streams or of other processes.
 *
 * Work runs in time slices, from the event loop or while the host synchronizes, so that a long kernel blocks neither
 * the event loop nor other streams.
 *
 * @module
 */

import { formatSeconds } from "../../support/printing.ts";
import { areOrderedByDefaultStream } from "../../driver.ts";
import type { StreamChoice } from "../schedule.ts";
import { pause, pauseMilliseconds, Timer } from "../../support/waiting/timer.ts";
import { sliceMilliseconds } from "./launching/pace.ts";
import { type Job, mostJobsBefore } from "./workers/job_board.ts";
import { workerProgress } from "./workers/progress.ts";
import type { Capture, CapturedRecord } from "./captures.ts";
import { atNextTurn } from "../../support/waiting/waiting.ts";

/** An object for which work of a stream can wait: work of another stream, or an event record of another process. */
export interface Awaited {
  readonly done: boolean;
}

/** The rest of an item of work, which other threads run. */
export interface Delegated {
  /** The jobs after which following work may begin. None if no thread runs it anymore. */
  readonly jobs: readonly Job[];
  /** The time, as `performance.now()`, at which the first thread began to run it. Undefined until it has ended. */
  readonly beginTime?: number | undefined;
  /** The time, as `performance.now()`, at which the last thread left it. Undefined until then. */
  readonly endTime: number | undefined;
  /** Whether no thread runs it anymore. */
  readonly isDone: boolean;
  /** Whether it cannot be done, because it has faulted. */
  readonly hasFailed: boolean;
  /** Ends it when it is done. Throws if it has failed. Without this method, the work's `run` ends the work. */
  end?(): void;
  /** Whether no thread has begun to run it for some time, because all of them are busy. */
  readonly isStarved: boolean;
  /**
   * Runs a part of it on the calling thread, if that may help, or if it is starved. Returns whether it has run anything.
   */
  help(options?: { isStarved: boolean }): boolean;
  /** Lets the threads that run it leave it soon. `cancel` must be called next. */
  stop(): void;
  /** Ends it, whether or not it is done. Blocks until no thread runs it. */
  cancel(): void;
}

/** The options of an item of work. */
export interface WorkOptions {
  /** The work of other streams or event records of other processes that must be done before this work starts. */
  readonly after?: readonly Awaited[];
  /** Whether the work runs even after the devices are lost. True for memory management, and false for computations. */
  readonly outlivesDevice?: boolean;
  /** Releases the resources of the work. Called when the work is done or dropped. */
  readonly release?: () => void;
  /** The name of the kernel that the work launches. */
  readonly kernel?: string;
  /**
   * Gives the work to other threads before it begins, to be run after the given work, which they run too. Returns
   * undefined if the main thread must run it.
   */
  readonly delegate?: (after: Delegated) => Delegated | undefined;
  /**
   * Whether the work usually takes so long that other threads run it, and what is before it in its stream. By default
   * they only run it after other work that they run.
   */
  readonly takesLong?: () => boolean;
}

const nothing: readonly Awaited[] = [];
/** The time in milliseconds after which the main thread looks again at work of other threads, whatever happens. */
const longestWait = 50;
/** The interval in milliseconds at which the state of other processes is polled. */
const quietInterval = 1;

/** What prevents work from starting or going on. */
type Obstacle = "none" | "stream" | "process" | "threads";

function isDelegated(result: unknown): result is Delegated {
  return typeof result === "object" && result !== null && "help" in result;
}

/** A kernel that has run. */
export interface KernelSpan {
  readonly name: string;
  readonly device: number;
  /** The handle of its stream. Undefined for a branch of a graph. */
  readonly stream: bigint | undefined;
  /** The times, as `performance.now()`, between which the kernel ran. */
  readonly begin: number;
  readonly end: number;
}

/** An item of a stream's work. */
export class Work {
  /** Whether the work is done, or was dropped because the devices were lost. */
  done = false;
  /** The number of the work among all work ever enqueued on its stream, counted from 1. */
  readonly position: number;
  readonly stream: Stream;
  readonly outlivesDevice: boolean;
  readonly kernel: string | undefined;
  /** The work that follows in the stream. Undefined if there is none. */
  next: Work | undefined;
  /** The time, as `performance.now()`, at which the first slice of the work ended; undefined until then. */
  #firstSliceEnd: number | undefined;
  /** The times between which the work ran, if they are asked for. */
  #begin: number | undefined;
  #end: number | undefined;
  #after: readonly Awaited[];
  #run: (() => unknown) | undefined;
  #release: (() => void) | undefined;
  #delegate: WorkOptions["delegate"];
  #takesLong: WorkOptions["takesLong"];
  /** The rest of the work, if other threads run it. */
  #delegated: Delegated | undefined;

  constructor(
    stream: Stream,
    run: () => unknown,
    { after = nothing, outlivesDevice = false, release, kernel, delegate, takesLong }: WorkOptions,
  ) {
    this.stream = stream;
    this.#delegate = delegate;
    this.#takesLong = takesLong;
    this.kernel = kernel;
    this.position = ++stream.length;
    this.outlivesDevice = outlivesDevice;
    this.#after = after;
    this.#run = run;
    this.#release = release;
  }

  /**
   * The kind of object that prevents the work from starting or going on: none, work of another stream, an event record
   * of another process, or other threads that run the work. Must be read only once per scheduling decision, because
   * others may finish at any time.
   */
  get obstacle(): Obstacle {
    if (this.#delegated?.isDone === false) return "threads";
    let obstacle: Obstacle = "none";
    for (const other of this.#after) {
      if (other.done) continue;
      if (!(other instanceof Work)) return "process";
      obstacle = "stream";
    }
    return obstacle;
  }

  /** The rest of the work, if other threads run it. */
  get delegated(): Delegated | undefined {
    return this.#delegated;
  }

  /** Whether the work usually takes so long that other threads run it, and what is before it in its stream. */
  get takesLong(): boolean {
    return this.#takesLong?.() === true;
  }

  /**
   * Gives the work to other threads, after the work before it in its stream, if they run that. Returns whether they have
   * taken it: not if it waits for other work that they do not run.
   */
  delegateAfter(before: Delegated | undefined): boolean {
    if (this.#delegate === undefined) return false;
    let awaited = before;
    for (const other of this.#after) {
      if (other.done) continue;
      const delegated = other instanceof Work ? other.delegated : undefined;
      if (delegated === undefined) return false;
      awaited = awaited === undefined ? delegated : passing(awaited, delegated);
    }
    if (awaited === undefined && !this.takesLong) return false;
    awaited ??= passing();
    if (awaited.jobs.length > mostJobsBefore) return false;
    this.#delegated = this.#delegate(awaited);
    if (this.#delegated === undefined) return false;
    this.#firstSliceEnd ??= performance.now();
    return true;
  }

  /** Runs a slice of the work. Returns whether the work is done. `isTimed` asks for the work's `span`. */
  run(isTimed = false): boolean {
    const before = this.#delegated;
    if (before?.end !== undefined) {
      before.end();
      this.#delegated = undefined;
      this.#begin ??= before.beginTime;
      this.#end = before.endTime;
      return true;
    }
    if (isTimed) this.#begin ??= performance.now();
    const result = this.#run!();
    this.#delegated = isDelegated(result) ? result : undefined;
    const isDone = this.#delegated === undefined && result !== false;
    // What follows the part of other threads may only look at how that has ended.
    if (isDone && isTimed) this.#end = before?.endTime ?? performance.now();
    if (!isDone) this.#firstSliceEnd ??= performance.now();
    return isDone;
  }

  /** The kernel and the times between which it ran. Undefined if the work is no kernel, or was not timed. */
  get span(): KernelSpan | undefined {
    const { kernel: name, stream: { device, handle: stream } } = this;
    const begin = this.#begin, end = this.#end;
    if (name === undefined || begin === undefined || end === undefined) return undefined;
    return { name, device, stream, begin, end };
  }

  /** Takes the work from other threads, so that the main thread runs it from its beginning. Blocks until none runs it. */
  withdraw(): void {
    this.#delegated?.cancel();
    this.#delegated = undefined;
  }

  /** Makes the rest of the work, which is not done, wait for other work. Called by the work itself. */
  waitFor(others: readonly Work[]): void {
    this.#after = others;
  }

  /**
   * Describes the kernel and its duration so far. Undefined if this is not a kernel that has run for a time slice, or
   * that other threads run.
   */
  describeKernel(): string | undefined {
    if (this.kernel === undefined || this.#firstSliceEnd === undefined) return undefined;
    const elapsed = performance.now() - this.#firstSliceEnd + sliceMilliseconds;
    return `kernel ${this.kernel} has run for ${formatSeconds(elapsed)}`;
  }

  /**
   * Marks the work as done, and drops its references to other objects, so that a reference to this work does not keep
   * other work alive.
   */
  finish(): void {
    this.withdraw();
    this.done = true;
    this.next = undefined;
    this.#after = nothing;
    this.#run = undefined;
    this.#delegate = undefined;
    this.#takesLong = undefined;
    this.#release?.();
    this.#release = undefined;
  }
}

/**
 * A vector clock: for each other stream, the position of the last work that precedes the work to which the clock
 * belongs.
 */
type Progress = ReadonlyMap<Stream, number>;

let streamCount = 0;

/** A stream: a queue of work, and a vector clock of the other streams' work that precedes the stream's next work. */
export class Stream {
  readonly device: number;
  /** The handle by which the program knows the stream. Undefined for the branches of graphs. */
  handle: bigint | undefined;
  /** A number that increases in the order in which streams are created. */
  readonly number: number = streamCount++;
  /** Whether the stream is the legacy default stream of a device. */
  readonly isDefault: boolean;
  /** Whether the stream and the default stream wait for each other. */
  readonly isBlocking: boolean;
  /** The priority, of which lower numbers are greater. Of the streams that can run, the greatest usually runs first. */
  readonly priority: number;
  /** The first item of work that is not done: the head of a linked list. Undefined if all work is done. */
  first: Work | undefined;
  /** The work that was enqueued last, whether or not it is done. */
  last: Work | undefined;
  /** The last item of work, from the first one on, that other threads were given. They run it unless it is done. */
  lastDelegated: Work | undefined;
  /** The number of items of work that have ever been enqueued on the stream. */
  length = 0;
  /** Whether the stream was destroyed. A destroyed stream is removed when its work is done. */
  isDestroyed = false;
  /**
   * Whether the stream was destroyed and all its work is done. New work of any other stream is then ordered after all
   * work of this stream.
   */
  isGone = false;
  /** The capture that the stream is a part of. Undefined if its work is executed. */
  capture: Capture | undefined;
  /** The vector clock of the stream's next work. */
  #cameAfter = new Map<Stream, number>();
  /** Whether an event refers to the same map as `#cameAfter`, which must then be copied before it is changed. */
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

  /** Describes the kernel that the stream runs. See {@linkcode Work.describeKernel}. */
  describeKernel(): string | undefined {
    let work = this.first;
    // What other threads have run is not ended before the main thread looks.
    while (work?.delegated?.isDone === true) work = work.next;
    return work?.describeKernel();
  }

  /** Returns whether the stream's next work is ordered after `work`. */
  comesAfter(work: Work): boolean {
    return work.stream === this || work.stream.isGone || this.#knows(work.stream, work.position);
  }

  /** Orders the stream's next work after `work`, whose vector clock is `before`. */
  comeAfter(work: Work, before: Progress): void {
    if (this.comesAfter(work)) return;
    for (const [other, position] of before) this.#note(other, position);
    this.#note(work.stream, work.position);
  }

  /** Orders the stream's next work after all work that was enqueued on another stream so far. */
  comeAfterAllOf(other: Stream): void {
    if (other.last !== undefined) this.comeAfter(other.last, other.#cameAfter);
  }

  /** Returns the vector clock of the stream's next work. The returned map never changes. */
  cameAfter(): Progress {
    this.#isShared = true;
    return this.#cameAfter;
  }

  /** Removes another stream, whose `isGone` is true, from the vector clock. */
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

/** An event and its most recent record. */
export class Event {
  readonly device: number;
  readonly flags: number;
  /** The work with which this process last recorded the event. */
  recorded: Work | undefined;
  /** Whether the event was last recorded for all streams of its device. */
  isRecordedForDevice = false;
  /** The vector clock of the event's last record. A stream that waits for the event merges this clock into its own. */
  cameAfter: Progress = new Map();
  /** The latest record, if it is a part of a capture and is not executed. */
  captured: CapturedRecord | undefined;
  /** The time when a stream reached the last record, in milliseconds. Undefined until a stream has reached it. */
  time: number | undefined;

  constructor(device: number, flags: number) {
    this.device = device;
    this.flags = flags;
  }

  /**
   * The last record of the event by any process. A wait for the event waits for this record. Undefined if the event was
   * never recorded.
   */
  get latest(): Awaited | undefined {
    return this.recorded;
  }

  /** Called when a record of the event is enqueued. Returns a function to call when the stream reaches the record. */
  beginRecord(): (() => void) | undefined {
    return undefined;
  }

  /** Called when a stream reaches a record of the event, or a wait for the event. */
  reached(): void {}
}

/**
 * The maximum number of times in a row that a schedule may choose the same work, which may be waiting for other work.
 */
const mostTimesChosen = 1000;
/**
 * The number of times in a row that streams of greater priorities run before another stream that could run. A kernel of
 * a greater priority may wait for one of a lesser priority.
 */
const mostTimesPassedOver = 16;

/** Runs the work of all streams of all devices. */
export class Scheduler {
  /** Whether the main thread blocks until some work is done. */
  isAwaited = false;
  /** Called before and after each slice of work. */
  onSlice: (() => void) | undefined;
  /** Called with each kernel that has run, if that is asked for. */
  onKernel: ((kernel: KernelSpan) => void) | undefined;
  /** The streams of each device. */
  readonly #streams = new Map<number, Set<Stream>>();
  readonly #defaultStreams = new Map<number, Stream>();
  /** The streams that have work to run. */
  readonly #busy: Stream[] = [];
  readonly #onFailure: (device: number, cause: unknown) => void;
  /** Chooses the stream that runs next. Undefined if the streams run round-robin. */
  readonly #choice: StreamChoice | undefined;
  /** The work that the schedule chose last. Undefined if none was chosen yet. */
  #chosen: Work | undefined;
  /** The number of times in a row that `#chosen` has been chosen. */
  #chosenTimes = 0;
  /** The index in `#busy` of the stream that runs next, unless one of a greater priority can run. */
  #turn = 0;
  /** Whether any stream has had a priority other than the default. */
  #hasPriorities = false;
  /** The number of times in a row that a stream of a greater priority has run in the place of another. */
  #passedOver = 0;
  /** Whether a stream was waiting for another process when the scheduler last found no work that could run. */
  #isBlockedOutside = false;
  /** Work that other threads were running when the scheduler last found no work that could run. */
  readonly #elsewhere: Work[] = [];
  #scheduled = false;
  /** The number of items of work that have ended. */
  #ended = 0;
  /** Polls for event records of other processes for which a stream waits. */
  readonly #timer = new Timer(() => this.#schedule(), quietInterval, { unref: true });

  /**
   * @param onFailure called when work throws an error, with the work's device. All devices are then lost, and their
   * work is dropped
   * @param choice chooses the stream that runs next; by default, streams run round-robin
   */
  constructor(onFailure: (device: number, cause: unknown) => void, choice?: StreamChoice) {
    this.#onFailure = onFailure;
    this.#choice = choice;
  }

  addStream(stream: Stream): void {
    let streams = this.#streams.get(stream.device);
    if (streams === undefined) this.#streams.set(stream.device, streams = new Set());
    streams.add(stream);
    if (stream.isDefault) this.#defaultStreams.set(stream.device, stream);
    if (stream.priority !== 0) this.#hasPriorities = true;
  }

  /** Removes a stream when its work is done. */
  removeStream(stream: Stream): void {
    stream.isDestroyed = true;
    if (stream.isIdle) this.#letGo(stream);
  }

  /** Returns whether no stream of a device has work, including streams that were destroyed. */
  isIdle(device: number): boolean {
    for (const stream of this.#streams.get(device) ?? []) if (!stream.isIdle) return false;
    return true;
  }

  /**
   * Returns whether a stream has no work. For the default stream, returns whether neither this stream nor any stream
   * that is ordered with it has work.
   */
  isDone(stream: Stream): boolean {
    if (!stream.isIdle || !stream.isDefault) return stream.isIdle;
    for (const other of this.#streams.get(stream.device)!) {
      if (!other.isIdle && areOrderedByDefaultStream(stream, other)) return false;
    }
    return true;
  }

  /** Enqueues work on a stream. `run` runs a slice of the work, and returns false if the work is not done yet. */
  enqueue(
    stream: Stream,
    run: () => unknown,
    { after = nothing, outlivesDevice, release, kernel, delegate, takesLong }: WorkOptions = {},
  ): Work {
    const first = after.filter((other) => !other.done);
    for (const other of this.#orderedWith(stream)) {
      if (other.last?.done === false) first.push(other.last);
      stream.comeAfterAllOf(other);
    }
    const work = new Work(stream, run, {
      after: first,
      outlivesDevice: outlivesDevice ?? false,
      release,
      kernel,
      delegate,
      takesLong,
    });
    // If other threads have not been given all of the work, there may have been no room.
    if (stream.lastDelegated?.next !== undefined) this.endDone();
    const { last } = stream;
    const isFirst = stream.first === undefined;
    if (isFirst) {
      stream.first = work;
      this.#busy.push(stream);
    } else {
      last!.next = work;
    }
    stream.last = work;
    if (isFirst || stream.lastDelegated?.delegated !== undefined) delegateMore(stream);
    else if (work.takesLong) delegateMore(stream, passing());
    this.#schedule();
    return work;
  }

  /** Records an event on a stream. The record also waits for the work in `after`. */
  record(event: Event, stream: Stream, after?: readonly Work[]): Work {
    event.time = undefined;
    const complete = event.beginRecord();
    let reached: Delegated | undefined;
    const work = this.enqueue(stream, () => {
      // If the event has been recorded again since this record, the later record determines the event's time.
      if (event.recorded === work) event.time = reached?.endTime ?? performance.now();
      complete?.();
      event.reached();
    }, { after, delegate: (before) => reached = passing(before) });
    event.recorded = work;
    event.captured = undefined;
    event.isRecordedForDevice = false;
    event.cameAfter = stream.cameAfter();
    return work;
  }

  /**
   * Records an event after all work that was enqueued so far on the streams of the event's device. The record is
   * enqueued on a new stream, so that it blocks no other stream. If the device is idle, the event is complete at once,
   * whatever work of other devices a schedule prefers.
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
    if (unfinished.length === 0 && this.#runSlice(work)) this.#finishFirst(stream);
    this.removeStream(stream);
    return work;
  }

  /** Makes a stream's next work wait for an event. Returns the enqueued work, or undefined if no wait is necessary. */
  wait(stream: Stream, event: Event): Work | undefined {
    const { latest } = event;
    // An event record of another process has no position in the vector clocks, which only cover this process's streams.
    if (latest instanceof Work) stream.comeAfter(latest, event.cameAfter);
    if (latest === undefined || latest.done || (latest instanceof Work && latest.stream === stream)) return undefined;
    return this.enqueue(stream, () => event.reached(), { after: [latest], delegate: passing });
  }

  /**
   * Returns whether the next work of `stream` is ordered after `work`, either because of an event or because one of the
   * two streams is the default stream.
   */
  comesAfter(stream: Stream, work: Work): boolean {
    return stream.comesAfter(work) || areOrderedByDefaultStream(stream, work.stream);
  }

  /** Ends the work that other threads have done without faults. Runs no other work. */
  endDone(): void {
    for (const stream of [...this.#busy]) {
      for (let work = stream.first; work?.delegated?.hasFailed === false; work = stream.first) {
        if (work.obstacle !== "none") break;
        if (this.#runSlice(work)) this.#finishFirst(stream);
      }
    }
  }

  /** Runs a slice of some stream's work. Returns false if no work can run. */
  step(): boolean {
    this.#isBlockedOutside = false;
    // Setting the length takes 40 ns also if the list is empty.
    if (this.#elsewhere.length > 0) this.#elsewhere.length = 0;
    if (this.#choice !== undefined) return this.#stepByChoice(this.#choice);
    const busy = this.#busy;
    let chosen: Stream | undefined, index = 0, isFirst = true;
    for (let count = 0; count < busy.length; count++) {
      const place = (this.#turn + count) % busy.length;
      const stream = busy[place]!;
      // Lower numbers are greater priorities.
      if (chosen !== undefined && stream.priority >= chosen.priority) continue;
      const { obstacle } = stream.first!;
      if (obstacle === "process") this.#isBlockedOutside = true;
      if (obstacle === "threads") this.#elsewhere.push(stream.first!);
      if (obstacle !== "none") continue;
      isFirst = chosen === undefined;
      chosen = stream;
      index = place;
      if (!this.#hasPriorities || this.#passedOver >= mostTimesPassedOver) break;
    }
    if (chosen === undefined) {
      return this.#elsewhere.some(({ delegated }) => delegated!.isStarved && delegated!.help({ isStarved: true }));
    }
    this.#passedOver = isFirst ? 0 : this.#passedOver + 1;
    this.#turn = index + 1;
    if (this.#runSlice(chosen.first!)) this.#finishFirst(chosen);
    return true;
  }

  #stepByChoice(choice: StreamChoice): boolean {
    const streams = this.#busy.filter((stream) => {
      const { obstacle } = stream.first!;
      if (obstacle === "process") this.#isBlockedOutside = true;
      return obstacle === "none";
    }).sort((a, b) => a.number - b.number);
    if (streams.length === 0) return false;
    let index = choice(streams.length);
    if (streams[index]!.first !== this.#chosen) this.#chosenTimes = 0;
    // Chooses another stream after many choices of the same work, because a kernel may be waiting for a kernel of
    // another stream.
    else if (++this.#chosenTimes > mostTimesChosen) index = (index + 1 + this.#chosenTimes) % streams.length;
    const stream = streams[index]!;
    if (this.#chosenTimes === 0) this.#chosen = stream.first;
    if (this.#runSlice(stream.first!)) this.#finishFirst(stream);
    return true;
  }

  /**
   * Runs work until `done` returns true. `isOutside` specifies that an action of another process may make `done` return
   * true.
   */
  runUntil(done: () => boolean, { isOutside = false }: { isOutside?: boolean } = {}): void {
    this.isAwaited = true;
    try {
      while (!done()) {
        const { value } = workerProgress;
        if (this.step()) continue;
        const elsewhere = this.#elsewhere;
        const polls = isOutside || this.#isBlockedOutside;
        if (elsewhere.some(({ delegated }) => delegated!.help())) continue;
        if (elsewhere.length > 0) {
          workerProgress.wait(value, polls ? pauseMilliseconds : longestWait);
        } else {
          if (!polls && !done()) throw new Error("Cannot continue: every stream waits for work that no stream has");
          pause();
        }
      }
    } finally {
      this.isAwaited = false;
    }
  }

  /**
   * Runs work until `done` returns true, until no work can go on, or until no work has ended for a time in milliseconds:
   * some may wait for the host.
   */
  runWhileWorkEnds(done: () => boolean, milliseconds: number): void {
    let ended: number | undefined, end = 0;
    while (!done()) {
      const now = performance.now();
      if (ended !== this.#ended) end = now + milliseconds;
      else if (now > end) return;
      ended = this.#ended;
      const { value } = workerProgress;
      if (this.step()) continue;
      if (this.#elsewhere.length === 0) return;
      workerProgress.wait(value, longestWait);
    }
  }

  /** Drops the work of the lost devices, except work with `outlivesDevice`. */
  drop(): void {
    this.#stopDelegated();
    for (const stream of [...this.#streams.values()].flatMap((streams) => [...streams])) {
      const dropped = takeAll(stream);
      const kept = dropped.filter((work) => work.outlivesDevice);
      for (const work of dropped) work.outlivesDevice ? work.withdraw() : work.finish();
      stream.first = kept[0];
      for (const [index, work] of kept.entries()) work.next = kept[index + 1];
      // New work will be appended to `last`, so `last` must be work that is kept.
      if (kept.length > 0) stream.last = kept.at(-1);
      if (dropped.length > 0 && kept.length === 0) this.#becomeIdle(stream);
    }
  }

  /** Drops all work. Returns the names of the kernels whose launches were dropped. */
  close(): string[] {
    this.#stopDelegated();
    const dropped = this.#busy.splice(0).flatMap(takeAll);
    for (const work of dropped) work.finish();
    this.#streams.clear();
    this.#timer.stop();
    return dropped.map(({ kernel }) => kernel).filter((kernel) => kernel !== undefined);
  }

  /** Stops all work that other threads run, so that waiting for one of them is waiting for all. */
  #stopDelegated(): void {
    for (const { first } of this.#busy) {
      for (let work = first; work !== undefined; work = work.next) work.delegated?.stop();
    }
  }

  /** Returns the streams that are ordered with `stream` because one of the two is the default stream. */
  #orderedWith(stream: Stream): readonly Stream[] {
    if (!stream.isBlocking) return [];
    if (!stream.isDefault) return [this.#defaultStreams.get(stream.device)!];
    return [...this.#streams.get(stream.device)!].filter((other) => areOrderedByDefaultStream(stream, other));
  }

  /** Runs a slice of work. Returns whether the work is done and must be removed from its stream. */
  #runSlice(work: Work): boolean {
    this.onSlice?.();
    try {
      const isDone = work.run(this.onKernel !== undefined && work.kernel !== undefined);
      this.onSlice?.();
      const { stream } = work;
      if (work.delegated !== undefined) stream.lastDelegated = work;
      if (stream.lastDelegated?.delegated !== undefined) delegateMore(stream);
      return isDone;
    } catch (cause) {
      this.#onFailure(work.stream.device, cause);
      // Also drops the failed work, unless it outlives the device.
      this.drop();
      return work.stream.first === work;
    }
  }

  #finishFirst(stream: Stream): void {
    const work = stream.first!;
    stream.first = work.next;
    if (this.onKernel !== undefined && work.span !== undefined) this.onKernel(work.span);
    this.#ended++;
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
      let goesOn = true, progress = 0;
      while (goesOn && performance.now() < end) {
        progress = workerProgress.value;
        goesOn = this.step();
      }
      if (goesOn) return this.#schedule();
      if (this.#elsewhere.length > 0) workerProgress.whenAdvanced(progress, () => this.#schedule());
      if (this.#isBlockedOutside || this.#elsewhere.length > 0) this.#timer.start();
    });
  }
}

/**
 * Returns what work delegates that the main thread does when other threads have done what is before it, such as a record
 * of an event or a wait for one: nothing but that following work may begin after that. The jobs are those that are still
 * open, because others may take the places of closed ones.
 */
export function passing(...before: readonly Delegated[]): Delegated {
  const begin = performance.now();
  return {
    get jobs() {
      return [...new Set(before.flatMap(({ jobs }) => jobs))];
    },
    get endTime() {
      return before.length === 0 ? begin : Math.max(...before.map(({ endTime = 0 }) => endTime)) || undefined;
    },
    get isDone() {
      return before.every(({ isDone }) => isDone);
    },
    hasFailed: false,
    isStarved: false,
    help: () => false,
    stop() {},
    cancel() {},
  };
}

/**
 * Gives the work of a stream to other threads that they do not have yet, as far as they can take it, after the work that
 * they have.
 *
 * @param before what precedes the first work if they have none. By default, they take that only if it takes long
 */
function delegateMore(stream: Stream, before?: Delegated): void {
  const { lastDelegated } = stream;
  const hasSome = lastDelegated?.delegated !== undefined;
  let after = hasSome ? lastDelegated.delegated : before;
  for (let work = hasSome ? lastDelegated.next : stream.first; work?.delegateAfter(after); work = work.next) {
    stream.lastDelegated = work;
    after = work.delegated;
  }
}

/** Removes all work from a stream. */
function takeAll(stream: Stream): Work[] {
  const taken: Work[] = [];
  for (let work = stream.first; work !== undefined; work = work.next) taken.push(work);
  stream.first = undefined;
  return taken;
}
