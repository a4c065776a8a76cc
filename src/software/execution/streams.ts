/**
 * Streams and events of the software device, with CUDA's semantics: work given to a stream is done later, in order;
 * streams go on side by side, and a piece of work may wait for work of other streams, or for another process.
 *
 * Work is done in slices, from the event loop or while the host synchronizes, so that a long kernel stops neither the
 * event loop nor the other streams.
 *
 * @module
 */

import { pause } from "../../support/waiting/pause.ts";
import { UnreferencedTimer } from "../../support/waiting/unreferenced_timer.ts";
import { atNextTurn } from "../../support/waiting/turn.ts";

/** Something that is done at some time: a piece of work, or what another process records. */
export interface Awaited {
  readonly done: boolean;
}

/** What a piece of work comes after, and what becomes of it when the devices are lost. */
export interface WorkOptions {
  /** Work of other streams, or of other processes, that comes first. */
  readonly after?: readonly Awaited[];
  /** Whether it is done all the same once the devices are lost: what keeps account of memory is, what computes is not. */
  readonly outlivesDevice?: boolean;
  /** Gives back what only the work needs: called once it is done or dropped. */
  readonly release?: () => void;
}

const nothing: readonly Awaited[] = [];
/** Milliseconds between two looks at other processes. */
const quietInterval = 1;

/** One piece of a stream's work. */
export class Work {
  /** Set once the work is done, or dropped because the devices were lost. */
  done = false;
  /** Position in the stream, from 1. */
  readonly position: number;
  readonly stream: Stream;
  readonly outlivesDevice: boolean;
  /** The work that the stream does after this. */
  next: Work | undefined;
  #after: readonly Awaited[];
  #run: (() => unknown) | undefined;
  #release: (() => void) | undefined;

  constructor(stream: Stream, run: () => unknown, { after = nothing, outlivesDevice = false, release }: WorkOptions) {
    this.stream = stream;
    this.position = ++stream.length;
    this.outlivesDevice = outlivesDevice;
    this.#after = after;
    this.#run = run;
    this.#release = release;
  }

  /**
   * What keeps the work from being done now: nothing, work of another stream, or another process, which nothing that is
   * done here brings about. Asked once for each look: another process is done at any time.
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

  /** Does a slice of the work; true when none is left. */
  run(): boolean {
    return this.#run!() !== false;
  }

  /** Lets go of all that it held: whoever remembers the work must not keep the work before and after it alive. */
  finish(): void {
    this.done = true;
    this.next = undefined;
    this.#after = nothing;
    this.#run = undefined;
    this.#release?.();
    this.#release = undefined;
  }
}

/** How far in each other stream something is known to come after. */
type Progress = ReadonlyMap<Stream, number>;

/** A stream: its work in order, and what it knows to come before its next piece of work. */
export class Stream {
  readonly device: number;
  /** The legacy default stream of its device, which waits for the blocking ones and they for it. */
  readonly isDefault: boolean;
  readonly nonBlocking: boolean;
  /** The work to do next; the rest hangs on it. */
  first: Work | undefined;
  /** The work that was given last, done or not. */
  last: Work | undefined;
  /** How many pieces of work it was ever given. */
  length = 0;
  /** Whether it goes when its work is done. */
  isDestroyed = false;
  /** Whether it was destroyed and its work is done: everything comes after it. */
  isGone = false;
  #cameAfter = new Map<Stream, number>();
  /** Whether an event has the map too, which then must not change any more. */
  #isShared = false;

  constructor(
    device: number,
    { isDefault = false, nonBlocking = false }: { isDefault?: boolean; nonBlocking?: boolean },
  ) {
    this.device = device;
    this.isDefault = isDefault;
    this.nonBlocking = nonBlocking;
  }

  get isIdle(): boolean {
    return this.first === undefined;
  }

  /** Whether its next work is known to come after `work`. */
  comesAfter(work: Work): boolean {
    return work.stream === this || work.stream.isGone || this.#knows(work.stream, work.position);
  }

  /** Notes that its next work comes after `work`, and after what that came after. */
  comeAfter(work: Work, before: Progress): void {
    if (this.comesAfter(work)) return;
    for (const [other, position] of before) this.#note(other, position);
    this.#note(work.stream, work.position);
  }

  /** Notes that its next work comes after all that another stream was given. */
  comeAfterAllOf(other: Stream): void {
    if (other.last !== undefined) this.comeAfter(other.last, other.#cameAfter);
  }

  /** What its next work comes after; the map stays as it is. */
  cameAfter(): Progress {
    this.#isShared = true;
    return this.#cameAfter;
  }

  /** Forgets a stream that is gone. */
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
  /** The last record of this process. */
  recorded: Work | undefined;
  /** What came before the record, for streams that wait for it. */
  cameAfter: Progress = new Map();
  /** When the recorded work was done, in milliseconds; undefined until then. */
  time: number | undefined;

  constructor(device: number, flags: number) {
    this.device = device;
    this.flags = flags;
  }

  /** What a stream waits for that is to wait now: the last record of any process, undefined where there is none. */
  get latest(): Awaited | undefined {
    return this.recorded;
  }

  /** Notes that a record is given to a stream. What it returns is called when the stream gets there. */
  beginRecord(): (() => void) | undefined {
    return undefined;
  }

  /** Is called when a stream gets to a record or a wait. */
  reached(): void {}
}

const sliceMilliseconds = 4;

/** Does the work of all streams of all devices. */
export class Scheduler {
  /** By their devices. */
  readonly #streams = new Map<number, Set<Stream>>();
  readonly #defaultStreams = new Map<number, Stream>();
  /** Those that have work. */
  readonly #busy: Stream[] = [];
  readonly #onFailure: (device: number, cause: unknown) => void;
  /** Which of the busy streams is next. */
  #turn = 0;
  /** Whether a stream waited for another process when no work could go on. */
  #isBlockedOutside = false;
  #scheduled = false;
  /** Looks whether another process has done what is waited for. */
  readonly #quietTimer = new UnreferencedTimer(() => this.#schedule(), quietInterval);

  /** @param onFailure is told what a piece of work threw, and its device: all are lost, and the rest of the work dropped */
  constructor(onFailure: (device: number, cause: unknown) => void) {
    this.#onFailure = onFailure;
  }

  addStream(stream: Stream): void {
    let streams = this.#streams.get(stream.device);
    if (streams === undefined) this.#streams.set(stream.device, streams = new Set());
    streams.add(stream);
    if (stream.isDefault) this.#defaultStreams.set(stream.device, stream);
  }

  /** The stream goes once its work is done. */
  removeStream(stream: Stream): void {
    stream.isDestroyed = true;
    if (stream.isIdle) this.#letGo(stream);
  }

  /** Whether no stream of a device has work, also of those that were removed. */
  isIdle(device: number): boolean {
    for (const stream of this.#streams.get(device) ?? []) if (!stream.isIdle) return false;
    return true;
  }

  /** Whether a stream has no work: of the default one is also that of the streams that are in order with it. */
  isDone(stream: Stream): boolean {
    if (!stream.isIdle || !stream.isDefault) return stream.isIdle;
    for (const other of this.#streams.get(stream.device)!) if (!other.isIdle && areOrdered(stream, other)) return false;
    return true;
  }

  /** Appends work to a stream; `run` does a slice of it and returns true, or anything but false, when none is left. */
  enqueue(stream: Stream, run: () => unknown, { after = nothing, outlivesDevice, release }: WorkOptions = {}): Work {
    const first = after.filter((other) => !other.done);
    for (const other of this.#orderedWith(stream)) {
      if (other.last?.done === false) first.push(other.last);
      stream.comeAfterAllOf(other);
    }
    const work = new Work(stream, run, { after: first, outlivesDevice: outlivesDevice ?? false, release });
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

  record(event: Event, stream: Stream): Work {
    event.time = undefined;
    const complete = event.beginRecord();
    const work = this.enqueue(stream, () => {
      // A later record supersedes this one.
      if (event.recorded === work) event.time = performance.now();
      complete?.();
      event.reached();
    });
    event.recorded = work;
    event.cameAfter = stream.cameAfter();
    return work;
  }

  /** Lets the next work of the stream wait, by work that it returns where there is something to wait for. */
  wait(stream: Stream, event: Event): Work | undefined {
    const { latest } = event;
    // How far another process's streams have come says nothing of this one's.
    if (latest instanceof Work) stream.comeAfter(latest, event.cameAfter);
    if (latest === undefined || latest.done || (latest instanceof Work && latest.stream === stream)) return undefined;
    return this.enqueue(stream, () => event.reached(), { after: [latest] });
  }

  /** Whether the next work of `stream` is known to come after `work`: by events, or as default streams order it. */
  comesAfter(stream: Stream, work: Work): boolean {
    return stream.comesAfter(work) || areOrdered(stream, work.stream);
  }

  /** Does some work; false when there is none that can go on. */
  step(): boolean {
    this.#isBlockedOutside = false;
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

  /** Does work until `done` holds, which may be another process's doing. */
  runUntil(done: () => boolean, { isOutside = false }: { isOutside?: boolean } = {}): void {
    while (!done()) {
      if (this.step()) continue;
      if (!isOutside && !this.#isBlockedOutside && !done()) {
        throw new Error("Cannot go on: every stream waits for work that no stream has");
      }
      pause();
    }
  }

  /** Drops the work of the devices, which were lost, but for what outlives them. */
  drop(): void {
    for (const stream of [...this.#streams.values()].flatMap((streams) => [...streams])) {
      const dropped = takeAll(stream);
      const kept = dropped.filter((work) => work.outlivesDevice);
      for (const work of dropped) if (!work.outlivesDevice) work.finish();
      stream.first = kept[0];
      for (const [index, work] of kept.entries()) work.next = kept[index + 1];
      // The next work hangs on the last that there still is.
      if (kept.length > 0) stream.last = kept.at(-1);
      if (dropped.length > 0 && kept.length === 0) this.#becomeIdle(stream);
    }
  }

  /** Drops all work there is. */
  close(): void {
    for (const stream of this.#busy.splice(0)) for (const work of takeAll(stream)) work.finish();
    this.#streams.clear();
    this.#quietTimer.stop();
  }

  /** The streams whose work so far comes before the next work of `stream` by their kind alone. */
  #orderedWith(stream: Stream): readonly Stream[] {
    if (stream.nonBlocking) return [];
    if (!stream.isDefault) return [this.#defaultStreams.get(stream.device)!];
    return [...this.#streams.get(stream.device)!].filter((other) => areOrdered(stream, other));
  }

  /** Whether no work is left of it. Whatever it throws, its stream must not wait for it again. */
  #runSlice(work: Work): boolean {
    try {
      return work.run();
    } catch (cause) {
      this.#onFailure(work.stream.device, cause);
      // This drops the work itself, unless it is of a kind that is kept.
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
      else if (this.#isBlockedOutside) this.#quietTimer.start();
    });
  }
}

/** Whether the work of two streams is done in the order in which it is given, though they are two. */
function areOrdered(stream: Stream, other: Stream): boolean {
  return stream.device === other.device && stream.isDefault !== other.isDefault && !stream.nonBlocking &&
    !other.nonBlocking;
}

/** Takes all work off a stream. */
function takeAll(stream: Stream): Work[] {
  const taken: Work[] = [];
  for (let work = stream.first; work !== undefined; work = work.next) taken.push(work);
  stream.first = undefined;
  return taken;
}
