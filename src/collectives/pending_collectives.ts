/**
 * The collectives of a communicator that its streams have not done yet, and whether they can end.
 *
 * A collective itself notes next to nothing. Now and then, by a timer or when the program waits for a stream, an event is
 * recorded behind what was asked for since the last time: its completion, or that it does not come, tells the rest.
 *
 * @module
 */
import type { CollectiveLibrary, Cut, Extent } from "../collective_library.ts";
import { type CudaStream, whenStreamDisposed } from "../objects/streams/cuda_stream.ts";
import type { Session } from "../session.ts";
import { SharingError } from "../support/errors.ts";
import { ignoreLoss, isLoss } from "../support/driver_errors.ts";
import { UnreferencedTimer } from "../support/waiting/unreferenced_timer.ts";
import { type CollectiveFaults, faultsOf } from "./collective_faults.ts";
import { namesOfRanks } from "./creation.ts";
import type { Moment, PendingWork, PolledCommunicator, StreamFaults, StreamPoint } from "./stream_faults.ts";

/** Milliseconds between two polls by waits of the program. */
const pollInterval = 1;
/** Milliseconds between two polls by the timer, while nobody waits. */
const watchInterval = 50;
/** So many marks tell apart what communicators have given to one stream in turns. */
const mostMarks = 64;
/** For so many calls at most room is taken at once. */
const mostTaken = 16;

/** How many collectives a communicator had been given after those of a moment. */
interface Step {
  readonly moment: Moment;
  readonly count: number;
}

/** Collectives of a stream. */
interface Given extends PendingWork {
  readonly device: number;
  readonly stream: bigint;
  readonly faults: StreamFaults;
  /** How many collectives the communicator had been given after the last of them. */
  count: number;
  /** The same of earlier moments that have some, oldest first. Those before `since` are done. */
  steps: Step[] | undefined;
  /** How many collectives the communicator had been given before. */
  readonly before: number;
  /** Whether there are sends or receives among them. */
  hasMessages: boolean;
  /** Milliseconds by which the deadline was put off. */
  given: number;
  /** Takes back what is done when the stream is disposed of. */
  readonly letGo: () => void;
}

/** Collectives of a stream, and an event behind them; none if they were done when that was to be recorded. */
interface Marked {
  readonly work: Given;
  readonly event: bigint | undefined;
}

/** What it works with. */
interface Parts {
  readonly session: Session;
  readonly library: CollectiveLibrary;
  readonly comm: bigint;
  /** The same for all its ranks, and for no other communicator. */
  readonly identity: string;
  /** Milliseconds in which a collective must be done. */
  readonly timeout: number;
  /** The communicator, as messages name it. */
  readonly name: string;
}

/** The unfinished collectives of a communicator. */
export class PendingCollectives implements PolledCommunicator {
  /** Why it can do no more. */
  failure: Error | undefined;
  readonly #parts: Parts;
  readonly #faults: CollectiveFaults;
  /** What streams were given since the last look, and since they were done. */
  readonly #unmarked = new Map<CudaStream, Given>();
  #lastStream: CudaStream | undefined;
  #lastWork: Given | undefined;
  /**
   * For how many calls room was taken in the last stream's queue at once, and how many of them are left. What taking it
   * touches takes a fiftieth of a small collective. Programs that change between streams need one each: so it begins with
   * one, and doubles.
   */
  #taken = 0;
  #roomLeft = 0;
  #marked: Marked[] = [];
  /** How many collectives, but for sends and receives: all ranks call the same ones. */
  #count = 0;
  #nextPoll = 0;
  #lastLook = 0;
  /** Resolves when what could not end has been ended. */
  #ending: Promise<void> | undefined;
  readonly #timer = new UnreferencedTimer(() => this.#watch(), watchInterval);

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#faults = faultsOf(parts.session);
  }

  get isBusy(): boolean {
    return this.#marked.length >= mostMarks;
  }

  /** To be called when a group was given to streams: others of it have not marked where this one's work ends. */
  endGroup(): void {
    this.#lastStream = undefined;
    this.#lastWork = undefined;
  }

  /** To be called before a stream is given a collective. The communicator may have failed then. */
  prepare(stream: CudaStream): void {
    // Whoever has given it work since then has marked where that of this communicator ends.
    const isMarked = stream === this.#lastStream;
    if (isMarked && this.#roomLeft > 0) {
      this.#roomLeft--;
      return;
    }
    this.#taken = isMarked ? Math.min(2 * this.#taken, mostTaken) : 1;
    this.#roomLeft = this.#taken - 1;
    const { device: { ordinal }, unsafeHandle } = stream;
    this.#faults.takeRoom(ordinal, unsafeHandle, this.#taken);
    if (!isMarked) this.#faults.markOthers(this, ordinal, unsafeHandle);
  }

  /** Notes that a stream was given a collective, or a send or receive. */
  add(stream: CudaStream, isMessage = false): void {
    if (stream !== this.#lastStream) this.#addStream(stream);
    const work = this.#lastWork!;
    const { now } = this.#faults;
    if (work.last !== now) {
      (work.steps ??= []).push({ moment: work.last, count: work.count });
      work.last = now;
    }
    if (isMessage) work.hasMessages = true;
    else work.count = ++this.#count;
  }

  #addStream(stream: CudaStream): void {
    this.#lastStream = stream;
    this.#lastWork = this.#unmarked.get(stream);
    if (this.#lastWork !== undefined) return;
    const { device: { ordinal: device }, unsafeHandle: handle } = stream;
    const { now } = this.#faults;
    const faults = this.#faults.begin(this, device, handle);
    // Afterwards, nothing can be recorded on it.
    const letGo = whenStreamDisposed(stream, () => this.look());
    const { timeout } = this.#parts;
    const work = {
      owner: this,
      timeout,
      sequence: this.#faults.nextSequence(),
      since: now,
      last: now,
      deadline: undefined,
      given: 0,
      device,
      stream: handle,
      faults,
      count: this.#count,
      steps: undefined,
      before: this.#count,
      hasMessages: false,
      letGo,
    };
    this.#lastWork = work;
    this.#unmarked.set(stream, work);
    faults.pending.add(work);
    this.#timer.start();
  }

  /** Whether nothing is left to be done, or nothing can be. */
  get isDone(): boolean {
    this.look();
    return this.#isIdle;
  }

  poll(): void {
    if (performance.now() >= this.#nextPoll) this.look();
  }

  settle(done: StreamPoint): void {
    if (this.failure !== undefined) return;
    // Work of other streams may be done, too, or hang.
    for (const { faults } of this.#unmarked.values()) if (faults !== done.stream) return this.look(done);
    for (const { work: { faults } } of this.#marked) if (faults !== done.stream) return this.look(done);
    const { library, comm } = this.#parts;
    const cut = library.commCut(comm);
    if (cut !== undefined) {
      // All is done, and what comes after the cut is not right.
      this.mark();
      this.#dropDone(() => Infinity);
      return this.fail(cut.error);
    }
    const state = library.commGetAsyncError(comm, { isDone: true });
    if (state instanceof Error) return this.fail(state);
    this.#forget();
  }

  /**
   * Notes that the communicator can do no more, and ends what it has given to its streams.
   *
   * @param options.isAborted whether the program has aborted it
   */
  fail(error: Error, { isAborted = false }: { readonly isAborted?: boolean } = {}): void {
    if (this.failure !== undefined) return;
    this.failure = error;
    const works = this.#works;
    const { library, comm, identity } = this.#parts;
    const done = works.length === 0 ? undefined : this.#done;
    for (const work of works) work.faults.pending.delete(work);
    for (const work of works) this.#faults.fail(work.faults, work, { error, identity });
    this.#forgetUnmarked();
    // What cannot be ended has been reported by the error itself.
    this.#ending = library.commRevoke(comm, { isAborted, done, why: error }).catch(() => {}).then(() => this.#forget());
  }

  /** Notes the same, but ends only what no event of the program shows to be done. */
  endUnfinished(error: Error, options: { readonly isAborted?: boolean } = {}): void {
    if (this.failure === undefined) ignoreLoss(() => this.#dropRecorded());
    this.fail(error, options);
  }

  /** Resolves when what could not end has been ended. */
  async ended(): Promise<void> {
    await this.#ending;
  }

  /** Ends the watch. */
  stop(): void {
    this.#timer.stop();
    this.#forget();
  }

  #watch(): void {
    try {
      this.look();
    } catch (error) {
      // The device is lost, or the Cuda object is gone: the program's own calls say so.
      if (isLoss(error) || this.#parts.session.hasEnded) return this.stop();
    }
    if (!this.#isIdle) this.#timer.start();
  }

  get #works(): Given[] {
    return [...this.#marked.map(({ work }) => work), ...this.#unmarked.values()];
  }

  /** How much of what it was given is done, as far as that is known. */
  get #done(): Extent {
    const works = this.#works;
    return {
      collectives: Math.min(this.#count, ...works.map((work) => countBefore(work, work.since))),
      messages: works.every(({ hasMessages }) => !hasMessages),
    };
  }

  get #isIdle(): boolean {
    return this.#unmarked.size === 0 && this.#marked.length === 0;
  }

  look(done?: StreamPoint): void {
    const now = performance.now();
    this.#nextPoll = now + pollInterval;
    if (this.failure !== undefined) return;
    const { session: { driver }, library, comm } = this.#parts;
    // The software device works while its program waits, or awaits.
    if (driver.kind === "software") this.#giveTime(now - this.#lastLook - 2 * watchInterval);
    this.#lastLook = now;
    this.mark();
    const areDone = this.#marked.map(({ event }) => event === undefined || this.#isComplete(event));
    // Asked afterwards: what has failed is done, too, and only some libraries know what was done before.
    const stateOfWork = library.commGetAsyncError(comm, { isDone: true });
    if (stateOfWork instanceof Error && library.commCut(comm) === undefined) return this.fail(stateOfWork);
    const wrong = this.#dropDone((work, index) =>
      areDone[index]! ? Infinity : done?.stream === work.faults ? done.before : work.since
    );
    if (wrong !== undefined) return this.endUnfinished(wrong);
    if (this.#isIdle) return this.#faults.end(this);
    const state = library.commGetAsyncError(comm);
    if (!(state instanceof Error) && this.#lateness(now) === undefined) return;
    this.#dropRecorded();
    if (this.#isIdle) return this.#faults.end(this);
    // What the records have shown may give it more time.
    const failure = state instanceof Error ? state : this.#lateness(now);
    if (failure !== undefined) this.fail(failure);
  }

  /** Lets work have more time, at most twice as much as it had. */
  #giveTime(milliseconds: number): void {
    if (milliseconds <= 0) return;
    for (const { work } of this.#marked) {
      const more = Math.min(milliseconds, work.timeout - work.given);
      work.deadline! += more;
      work.given += more;
    }
  }

  /**
   * Forgets what is done: what was given before a moment. Returns why something of it is not right all the same, which is
   * not forgotten, or why nothing else can be done.
   */
  #dropDone(doneBefore: (work: Given, index: number) => Moment): Error | undefined {
    const moments = this.#marked.map(({ work }, index) => doneBefore(work, index));
    // Asked afterwards: what another rank ends by force may be done here.
    const cut = this.#parts.library.commCut(this.#parts.comm);
    const now = performance.now();
    const advanced = new Set<StreamFaults>();
    let wrong: Error | undefined;
    this.#marked = this.#marked.filter((marked, index) => {
      const { work } = marked;
      let moment = moments[index]!;
      if (cut !== undefined && moment > work.since && beforeCut(work, cut) < moment) {
        moment = beforeCut(work, cut);
        wrong = cut.error;
      }
      if (moment > work.since) advanced.add(work.faults);
      if (!advance(work, moment)) return true;
      this.#unmark(marked);
      return false;
    });
    // What the other rank has not done is not done here either. Without work, nothing is blamed.
    if (cut !== undefined && (this.#isIdle || this.#marked.some(({ work }) => isCutOff(work, cut)))) wrong = cut.error;
    // The time of what comes next begins when it is its turn.
    for (const { work } of this.#marked) if (advanced.has(work.faults)) work.deadline = now + work.timeout;
    return wrong;
  }

  /** Forgets what the program's events show to be done, and fails if something of that is not right. */
  #dropRecorded(): void {
    const wrong = this.#dropDone((work) =>
      this.#faults.doneBefore(work.faults, work.since, (event) => this.#isComplete(event))
    );
    if (wrong !== undefined) this.fail(wrong);
  }

  /** The error if a collective should be done by now. */
  #lateness(now: number): Error | undefined {
    const { library, comm, timeout, name } = this.#parts;
    const behind: Given[] = [];
    const isLate = this.#marked.some(({ work }) => {
      if (work.deadline! >= now) return false;
      if (this.#faults.isInTurn(work.faults, work)) return true;
      behind.push(work);
      return false;
    });
    if (!isLate) {
      for (const work of behind) work.deadline = now + timeout;
      return undefined;
    }
    const late = library.lateRanks(comm);
    const who = late.length === 0 ? "not all ranks took part" : `${namesOfRanks(late)} did not take part`;
    return new SharingError(
      "timed-out",
      `Cannot finish a collective of ${name}: ${who} in ${timeout} ms; ranks that one thread works for have to be ` +
        "called together, in Communicator.group",
    );
  }

  /** Records events behind what was asked for since the last time. */
  mark(): void {
    const { session, timeout } = this.#parts;
    const now = performance.now();
    if (this.#marked.length === 0) this.#lastLook = now;
    for (const work of this.#unmarked.values()) {
      work.deadline = now + timeout;
      // An event that is recorded on an idle stream is not done at once.
      if (this.#isIdleStream(work)) {
        this.#marked.push({ work, event: undefined });
        continue;
      }
      const event = session.createMarker(work.device);
      try {
        this.#recordBehind(work, event);
        this.#marked.push({ work, event });
      } catch (error) {
        session.destroyMarker(event);
        this.#throwIfOver(error);
        // Nobody can tell when it is done.
        work.faults.pending.delete(work);
      }
    }
    this.#forgetUnmarked();
  }

  #isIdleStream({ device, stream }: Given): boolean {
    const { driver } = this.#parts.session;
    try {
      // A query would end a capture.
      return !driver.streamIsCapturing(device, stream) && driver.streamQuery(device, stream, { forLibrary: true });
    } catch (error) {
      this.#throwIfOver(error);
      return false;
    }
  }

  #isComplete(event: bigint): boolean {
    try {
      return this.#parts.session.driver.eventQuery(event, { forLibrary: true });
    } catch (error) {
      this.#throwIfOver(error);
      return false;
    }
  }

  /** Throws the error of a device that is lost, or of a session that has ended. Others concern a stream alone. */
  #throwIfOver(error: unknown): void {
    if (isLoss(error) || this.#parts.session.hasEnded) throw error;
  }

  #recordBehind({ device, stream }: Given, event: bigint): void {
    const { driver } = this.#parts.session;
    try {
      driver.eventRecord(device, event, stream);
    } catch (error) {
      // Whoever owns a wrapped stream has destroyed it: an event behind all streams comes after its work, too.
      this.#throwIfOver(error);
      if (!driver.hasContextEvents) throw error;
      driver.ctxRecordEvent(device, event);
    }
  }

  #unmark({ work, event }: Marked): void {
    work.faults.pending.delete(work);
    if (event !== undefined) this.#parts.session.destroyMarker(event);
  }

  #forgetUnmarked(): void {
    for (const { letGo } of this.#unmarked.values()) letGo();
    this.#unmarked.clear();
    this.#lastStream = undefined;
    this.#lastWork = undefined;
  }

  #forget(): void {
    for (const work of this.#unmarked.values()) work.faults.pending.delete(work);
    for (const marked of this.#marked) ignoreLoss(() => this.#unmark(marked));
    this.#marked = [];
    this.#forgetUnmarked();
    this.#faults.end(this);
  }
}

/** Notes that what was given before a moment is done. Returns whether that is all. */
function advance(work: Given, moment: Moment): boolean {
  work.since = Math.max(work.since, moment);
  return work.last < moment;
}

/** How many collectives the communicator had been given before a moment, as far as this work shows. */
function countBefore({ last, count, steps, before }: Given, moment: Moment): number {
  return last < moment ? count : steps?.findLast((step) => step.moment < moment)?.count ?? before;
}

/** Before which moment the work is right, if it is done. */
function beforeCut({ since, last, count, steps, hasMessages }: Given, { collectives, messages }: Cut): Moment {
  if (hasMessages && !messages) return since;
  return steps?.find((step) => step.count > collectives)?.moment ?? (count > collectives ? last : Infinity);
}

/** Whether another rank has not done its part of some of the work. */
function isCutOff({ before, count }: Given, { collectives }: Cut): boolean {
  return count > Math.max(before, collectives);
}
