/**
 * The watchdog of a communicator: tracks the collectives that its streams have not completed, and fails the communicator
 * when they never can, as the watchdog thread of PyTorch's ProcessGroupNCCL does. See README.md in this folder.
 *
 * Enqueuing a collective costs next to nothing here. From time to time, by a timer or while the program waits for a
 * stream, an end marker (an event) is recorded behind what was enqueued since the last one. Whether it completes in time
 * decides about everything before it.
 *
 * @module
 */
import type { CollectiveLibrary, CommunicatorExtent, ValidPrefix } from "../collective_library.ts";
import { type CudaStream, whenStreamDisposed } from "../objects/streams/cuda_stream.ts";
import type { Session } from "../session.ts";
import { SharingError } from "../support/errors.ts";
import { ignoreLoss, isLoss } from "../support/driver_errors.ts";
import { Timer } from "../support/waiting/timer.ts";
import { type StreamErrors, streamErrorsOf } from "./stream_errors.ts";
import { namesOfRanks } from "./communicator_creation.ts";
import {
  type Epoch,
  revocationTimeout,
  type StreamPoint,
  type UnfinishedWork,
  type WatchedCommunicator,
} from "./stream_state.ts";

/** Milliseconds between two polls while the program waits. */
const pollInterval = 1;
/** Milliseconds between two polls by the timer while the program does not wait. */
const timerInterval = 50;
/**
 * The number of incomplete end markers (events recorded after a communicator's work) at which the communicator is
 * saturated: it then records no further marker when another communicator is about to use its stream.
 */
const maximumMarkers = 64;
/** The maximum number of launch-queue slots that are reserved at once. Each collective takes one slot. */
const maximumReservation = 16;

/** The total number of collectives that a communicator had enqueued when an epoch of logical time ended. */
interface EpochCount {
  readonly epoch: Epoch;
  readonly count: number;
}

/** Unfinished work as its watchdog sees it: collectives on one stream that share an end marker. */
interface WatchedWork extends UnfinishedWork {
  readonly device: number;
  /** The stream's handle. */
  readonly handle: bigint;
  /** The total number of collectives that the communicator had enqueued before this work. */
  readonly countBefore: number;
  /** The communicator's total number of enqueued collectives, up to and including the last one of this work. */
  count: number;
  /**
   * The total counts at the end of each epoch before `last` in which collectives were added to this work, oldest first.
   * The collectives of epochs before `first` are complete.
   */
  earlierCounts: EpochCount[] | undefined;
  /** Whether this work includes sends or receives. */
  hasMessages: boolean;
  /** The total time in milliseconds by which the deadline has been extended. */
  extension: number;
  /** Removes the listener for the disposal of the stream. */
  readonly unsubscribe: () => void;
}

/**
 * Work, and the event that was recorded after it as its end marker. `event` is undefined if the stream was idle
 * already.
 */
interface EndMarker {
  readonly work: WatchedWork;
  readonly event: bigint | undefined;
}

/** The communicator that is watched, with its session and library. */
interface WatchedParts {
  readonly session: Session;
  readonly library: CollectiveLibrary;
  readonly comm: bigint;
  /** A name that all ranks of the communicator share, and that no other communicator has. */
  readonly identity: string;
  /** The time in milliseconds within which a collective must complete. */
  readonly timeout: number;
  /** The communicator's name in messages. */
  readonly name: string;
}

/** Detects the completion, failure and timeout of a communicator's collectives. */
export class CollectiveWatchdog implements WatchedCommunicator {
  /** The error that the communicator has failed with. Undefined if it has not failed. */
  failure: Error | undefined;
  readonly #parts: WatchedParts;
  readonly #errors: StreamErrors;
  /** The unfinished work that has no end marker yet, keyed by stream. `recordEnd` moves it to `#endMarkers`. */
  readonly #unmarked = new Map<CudaStream, WatchedWork>();
  #lastStream: CudaStream | undefined;
  #lastWork: WatchedWork | undefined;
  /**
   * The number of launch-queue slots in the last reservation. A reservation takes a fiftieth of the time of a small
   * collective, so the number doubles as long as the collectives use the same stream. For another stream, it restarts
   * at 1.
   */
  #reservation = 0;
  /** The number of unused slots of the last reservation. */
  #slotsLeft = 0;
  #endMarkers: EndMarker[] = [];
  /** The number of collectives enqueued so far, excluding sends and receives. It is the same on every rank. */
  #count = 0;
  #nextPoll = 0;
  #lastPoll = 0;
  /**
   * Resolves when the library has aborted the unfinished work of the failed communicator. Undefined if it has not
   * failed.
   */
  #revocation: Promise<void> | undefined;
  readonly #timer = new Timer(() => this.#pollByTimer(), timerInterval, { unref: true });

  constructor(parts: WatchedParts) {
    this.#parts = parts;
    this.#errors = streamErrorsOf(parts.session);
  }

  get isSaturated(): boolean {
    return this.#endMarkers.length >= maximumMarkers;
  }

  /**
   * Call after a group was enqueued. Makes the next collective of this communicator request end markers from the other
   * communicators again: at the last request, these communicators had not yet enqueued their part of the group.
   */
  afterGroup(): void {
    this.#lastStream = undefined;
    this.#lastWork = undefined;
  }

  /** Call before a collective is enqueued on a stream. May poll, so check `failure` afterwards. */
  beforeEnqueue(stream: CudaStream): void {
    // If another communicator has used the stream since the last collective, it has called this communicator's
    // `recordEnd`, which clears `#lastStream`. The other communicator does not do so if this one is saturated.
    const isSameStream = stream === this.#lastStream;
    if (isSameStream && this.#slotsLeft > 0) {
      this.#slotsLeft--;
      return;
    }
    this.#reservation = isSameStream ? Math.min(2 * this.#reservation, maximumReservation) : 1;
    this.#slotsLeft = this.#reservation - 1;
    const { device: { ordinal }, unsafeHandle } = stream;
    this.#errors.reserveSlots(ordinal, unsafeHandle, this.#reservation);
    if (!isSameStream) this.#errors.recordOtherEnds(this, ordinal, unsafeHandle);
  }

  /** Call after a collective, or a send or receive, was enqueued on a stream. */
  afterEnqueue(stream: CudaStream, isMessage = false): void {
    if (stream !== this.#lastStream) this.#beginWork(stream);
    const work = this.#lastWork!;
    const { epoch } = this.#errors;
    if (work.last !== epoch) {
      (work.earlierCounts ??= []).push({ epoch: work.last, count: work.count });
      work.last = epoch;
    }
    if (isMessage) work.hasMessages = true;
    else work.count = ++this.#count;
  }

  #beginWork(stream: CudaStream): void {
    this.#lastStream = stream;
    this.#lastWork = this.#unmarked.get(stream);
    if (this.#lastWork !== undefined) return;
    const { device: { ordinal: device }, unsafeHandle: handle } = stream;
    const { epoch } = this.#errors;
    const state = this.#errors.beginWork(this, device, handle);
    // Poll when the stream is disposed: afterwards, no end marker can be recorded on it.
    const unsubscribe = whenStreamDisposed(stream, () => this.poll());
    const { timeout } = this.#parts;
    const work = {
      owner: this,
      stream: state,
      timeout,
      sequence: this.#errors.nextSequence(),
      first: epoch,
      last: epoch,
      deadline: undefined,
      extension: 0,
      device,
      handle,
      countBefore: this.#count,
      count: this.#count,
      earlierCounts: undefined,
      hasMessages: false,
      unsubscribe,
    };
    this.#lastWork = work;
    this.#unmarked.set(stream, work);
    state.unfinished.add(work);
    this.#timer.start();
  }

  /** Polls, and returns whether all work is complete or failed. */
  get isDone(): boolean {
    this.poll();
    return this.#hasNoWork;
  }

  pollIfDue(): void {
    if (performance.now() >= this.#nextPoll) this.poll();
  }

  pollCompleted(completed: StreamPoint): void {
    if (this.failure !== undefined) return;
    // If the communicator has work on other streams, poll, because that work may be complete or hang as well.
    for (const { stream } of this.#unmarked.values()) if (stream !== completed.stream) return this.poll(completed);
    for (const { work: { stream } } of this.#endMarkers) if (stream !== completed.stream) return this.poll(completed);
    const { library, comm } = this.#parts;
    const prefix = library.commValidPrefix(comm);
    if (prefix !== undefined) {
      // All work is complete, but the results of the work after the valid prefix are invalid.
      this.recordEnd();
      this.#retire(() => Infinity);
      return this.fail(prefix.error);
    }
    const state = library.commGetAsyncError(comm, { onlyOfWork: true });
    if (state instanceof Error) return this.fail(state);
    this.#clear();
  }

  /**
   * Fails the communicator: propagates the error to the streams that depend on its work, and lets the library abort the
   * work.
   *
   * @param options.isAborted whether the program has aborted the communicator
   */
  fail(error: Error, { isAborted = false }: { readonly isAborted?: boolean } = {}): void {
    if (this.failure !== undefined) return;
    this.failure = error;
    const works = this.#works;
    const { library, comm, identity } = this.#parts;
    const completed = works.length === 0 ? undefined : this.#completedExtent;
    for (const work of works) work.stream.unfinished.delete(work);
    const revocation = { begin: performance.now(), isOver: false };
    for (const work of works) this.#errors.propagate(work.stream, work, { error, identity, revocation });
    this.#clearUnmarked();
    // Ignore an error of `commRevoke`: the error that caused the revocation has been reported already.
    this.#revocation = library.commRevoke(comm, { willAbort: isAborted, completed, why: error }).catch(() => {})
      .then(() => {
        revocation.isOver = true;
        this.#clear();
      });
  }

  /**
   * Like `fail`, but first removes the work that has completed, according to all events that were recorded after it.
   */
  failUnfinished(error: Error, options: { readonly isAborted?: boolean } = {}): void {
    if (this.failure === undefined) ignoreLoss(() => this.#retireByRecords());
    this.fail(error, options);
  }

  /**
   * Resolves when the library has aborted the unfinished work, or the time limit for that has passed. Resolves at once
   * if the communicator has not failed.
   */
  async whenRevoked(): Promise<void> {
    if (this.#revocation === undefined) return;
    let timer: Timer | undefined;
    const isLate = new Promise<void>((resolve) => (timer = new Timer(resolve, revocationTimeout)).start());
    await Promise.race([this.#revocation, isLate]);
    timer!.stop();
  }

  /** Stops the timer. Drops the unfinished work, unless the library is aborting it. */
  stop(): void {
    this.#timer.stop();
    // While the library is aborting the work, keep track of that work, so that waits do not block on it.
    if (this.#revocation === undefined) this.#clear();
  }

  #pollByTimer(): void {
    try {
      this.poll();
    } catch (error) {
      // If the device is lost or the `Cuda` object was disposed, stop without reporting the error: the program's own
      // calls report it.
      if (isLoss(error) || this.#parts.session.hasEnded) return this.stop();
    }
    if (!this.#hasNoWork) this.#timer.start();
  }

  get #works(): WatchedWork[] {
    return [...this.#endMarkers.map(({ work }) => work), ...this.#unmarked.values()];
  }

  /** The part of the communicator's work that is known to be complete. */
  get #completedExtent(): CommunicatorExtent {
    const works = this.#works;
    return {
      collectives: Math.min(this.#count, ...works.map((work) => completedCount(work, work.first))),
      messages: works.every(({ hasMessages }) => !hasMessages),
    };
  }

  get #hasNoWork(): boolean {
    return this.#unmarked.size === 0 && this.#endMarkers.length === 0;
  }

  poll(completed?: StreamPoint): void {
    const now = performance.now();
    this.#nextPoll = now + pollInterval;
    if (this.failure !== undefined) return;
    const { session: { driver }, library, comm } = this.#parts;
    // Software kernels progress only while the program waits or awaits, so do not count time in which it did neither.
    if (driver.runsOnHost) this.#extendDeadlines(now - this.#lastPoll - 2 * timerInterval);
    this.#lastPoll = now;
    this.recordEnd();
    const areComplete = this.#endMarkers.map(({ event }) => event === undefined || this.#isComplete(event));
    // Query the error after the events: events after failed work complete, too, and not every library reports which
    // work had completed before the failure.
    const stateOfWork = library.commGetAsyncError(comm, { onlyOfWork: true });
    if (stateOfWork instanceof Error && library.commValidPrefix(comm) === undefined) return this.fail(stateOfWork);
    const invalid = this.#retire((work, index) =>
      areComplete[index]! ? Infinity : completed?.stream === work.stream ? completed.before : work.first
    );
    if (invalid !== undefined) return this.failUnfinished(invalid);
    if (this.#hasNoWork) return this.#errors.endWork(this);
    const state = library.commGetAsyncError(comm);
    if (!(state instanceof Error) && this.#checkTimeout(now) === undefined) return;
    this.#retireByRecords();
    if (this.#hasNoWork) return this.#errors.endWork(this);
    // Retiring work restarts the timeout of later work, so check the timeout again.
    const failure = state instanceof Error ? state : this.#checkTimeout(now);
    if (failure !== undefined) this.fail(failure);
  }

  /**
   * Extends the deadlines of work that has an end marker. A deadline is extended by at most the work's timeout in
   * total.
   */
  #extendDeadlines(milliseconds: number): void {
    if (milliseconds <= 0) return;
    for (const { work } of this.#endMarkers) {
      const extension = Math.min(milliseconds, work.timeout - work.extension);
      work.deadline! += extension;
      work.extension += extension;
    }
  }

  /**
   * Retires work: removes complete work together with its end marker, and advances `first` of partially complete work.
   * Keeps completed work whose results are invalid because another rank has aborted.
   *
   * @param completedBefore returns the epoch before which the given work is complete
   * @returns the other rank's error, if some results are invalid or the remaining work can never complete
   */
  #retire(completedBefore: (work: WatchedWork, index: number) => Epoch): Error | undefined {
    const epochs = this.#endMarkers.map(({ work }, index) => completedBefore(work, index));
    // Query the valid prefix after the epochs: work that another rank has aborted looks complete on this rank.
    const prefix = this.#parts.library.commValidPrefix(this.#parts.comm);
    const now = performance.now();
    let firstRetired = Infinity;
    let invalid: Error | undefined;
    this.#endMarkers = this.#endMarkers.filter((marker, index) => {
      const { work } = marker;
      let epoch = epochs[index]!;
      if (prefix !== undefined && epoch > work.first && validBefore(work, prefix) < epoch) {
        epoch = validBefore(work, prefix);
        invalid = prefix.error;
      }
      if (epoch > work.first) firstRetired = Math.min(firstRetired, work.sequence);
      if (!retireBefore(work, epoch)) return true;
      this.#remove(marker);
      return false;
    });
    // Work after the valid prefix can never complete with valid results: return the error. Return it even if the
    // communicator has no unfinished work.
    if (
      prefix !== undefined && (this.#hasNoWork || this.#endMarkers.some(({ work }) => isBehindPrefix(work, prefix)))
    ) {
      invalid = prefix.error;
    }
    // Restart the timeout of later work: it counts from the completion of the preceding work.
    for (const { work } of this.#endMarkers) if (work.sequence >= firstRetired) work.deadline = now + work.timeout;
    return invalid;
  }

  /**
   * Retires the work that has completed according to all events recorded after it. Fails if some results are invalid.
   */
  #retireByRecords(): void {
    const invalid = this.#retire((work) =>
      this.#errors.completedBefore(work.stream, work.first, (event) => this.#isComplete(event))
    );
    if (invalid !== undefined) this.fail(invalid);
  }

  /**
   * Returns an error if the oldest work has exceeded its deadline and does not wait for another communicator. Checking
   * the oldest work suffices: a communicator's collectives run one after another, even on different streams.
   */
  #checkTimeout(now: number): Error | undefined {
    const { library, comm, timeout, name } = this.#parts;
    const late = this.#endMarkers.filter(({ work }) => work.deadline! < now).map(({ work }) => work);
    if (late.length === 0) return undefined;
    const { work: oldest } = this.#endMarkers.reduce((one, other) =>
      one.work.sequence < other.work.sequence ? one : other
    );
    if (oldest.deadline! >= now || !this.#errors.isInTurn(oldest.stream, oldest)) {
      for (const work of late) work.deadline = now + timeout;
      return undefined;
    }
    const lateRanks = library.lateRanks(comm);
    const who = lateRanks.length === 0 ? "not all ranks took part" : `${namesOfRanks(lateRanks)} did not take part`;
    return new SharingError(
      "timed-out",
      `Cannot finish a collective of ${name}: ${who} in ${timeout} ms; ranks that one thread works for have to be ` +
        "called together, in Communicator.group",
    );
  }

  recordEnd(): void {
    if (this.#endMarkers.length === 0) this.#lastPoll = performance.now();
    // If creating or recording an event throws, the remaining work gets its end marker at the next poll.
    try {
      for (const [stream, work] of this.#unmarked) {
        this.#recordEndOf(work);
        work.unsubscribe();
        this.#unmarked.delete(stream);
      }
    } finally {
      this.#lastStream = undefined;
      this.#lastWork = undefined;
    }
  }

  #recordEndOf(work: WatchedWork): void {
    const { session, timeout } = this.#parts;
    const deadline = performance.now() + timeout;
    // Do not record an event on an idle stream, because even there an event does not complete immediately.
    if (this.#isIdleStream(work)) {
      work.deadline = deadline;
      this.#endMarkers.push({ work, event: undefined });
      return;
    }
    const event = session.createMarker(work.device);
    try {
      this.#recordBehind(work, event);
      work.deadline = deadline;
      this.#endMarkers.push({ work, event });
    } catch (error) {
      session.destroyMarker(event);
      this.#throwIfOver(error);
      // Stop tracking the work: without an end marker, its completion cannot be detected.
      work.stream.unfinished.delete(work);
    }
  }

  #isIdleStream({ device, handle }: WatchedWork): boolean {
    const { driver } = this.#parts.session;
    try {
      // A query would invalidate a stream capture.
      return !driver.streamIsCapturing(device, handle) && driver.streamQuery(device, handle, { forLibrary: true });
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

  /**
   * Rethrows an error if the device is lost or the session has ended. Other errors affect only one stream, and are
   * ignored.
   */
  #throwIfOver(error: unknown): void {
    if (isLoss(error) || this.#parts.session.hasEnded) throw error;
  }

  #recordBehind({ device, handle }: WatchedWork, event: bigint): void {
    const { driver } = this.#parts.session;
    try {
      driver.eventRecord(device, event, handle);
    } catch (error) {
      // The stream may have been created by other code, and destroyed by it. If so, record the event after the work of
      // all streams of the device, which includes the work of the destroyed stream.
      this.#throwIfOver(error);
      if (!driver.hasContextEvents) throw error;
      driver.ctxRecordEvent(device, event);
    }
  }

  #remove({ work, event }: EndMarker): void {
    work.stream.unfinished.delete(work);
    if (event !== undefined) this.#parts.session.destroyMarker(event);
  }

  #clearUnmarked(): void {
    for (const { unsubscribe } of this.#unmarked.values()) unsubscribe();
    this.#unmarked.clear();
    this.#lastStream = undefined;
    this.#lastWork = undefined;
  }

  #clear(): void {
    for (const work of this.#unmarked.values()) work.stream.unfinished.delete(work);
    for (const marker of this.#endMarkers) ignoreLoss(() => this.#remove(marker));
    this.#endMarkers = [];
    this.#clearUnmarked();
    this.#errors.endWork(this);
  }
}

/** Retires the collectives of epochs before `epoch`, which are complete. Returns whether all of the work is retired. */
function retireBefore(work: WatchedWork, epoch: Epoch): boolean {
  work.first = Math.max(work.first, epoch);
  return work.last < epoch;
}

/**
 * Returns the total number of collectives that the communicator had enqueued before `epoch`, according to the counts in
 * `work`.
 */
function completedCount({ last, count, earlierCounts, countBefore }: WatchedWork, epoch: Epoch): number {
  return last < epoch ? count : earlierCounts?.findLast((earlier) => earlier.epoch < epoch)?.count ?? countBefore;
}

/** Returns the epoch before which all results of the work are valid, provided that they are complete. */
function validBefore(
  { first, last, count, earlierCounts, hasMessages }: WatchedWork,
  { collectives, messages }: ValidPrefix,
): Epoch {
  if (hasMessages && !messages) return first;
  return earlierCounts?.find((earlier) => earlier.count > collectives)?.epoch ??
    (count > collectives ? last : Infinity);
}

/** Returns whether some of the work comes after the valid prefix, which is the work that all ranks have completed. */
function isBehindPrefix({ countBefore, count }: WatchedWork, { collectives }: ValidPrefix): boolean {
  return count > Math.max(countBefore, collectives);
}
