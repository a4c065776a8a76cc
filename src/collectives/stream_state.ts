/**
 * The state of streams that have collectives, or depend on such streams: unfinished work, failures, and waits of other
 * streams.
 *
 * @module
 */

/** The watchdog of a communicator that may have unfinished work, as `StreamErrors` uses it. */
export interface WatchedCommunicator {
  /** Whether the communicator has so many end markers that recording more is not worth the cost. */
  readonly isSaturated: boolean;
  /** Records end markers for the work that the communicator has enqueued so far. */
  recordEnd(): void;
  /** Polls, unless it has polled within the last millisecond. */
  pollIfDue(): void;
  /**
   * Finds out which work is complete, and fails the communicator if the rest can never complete.
   *
   * @param completed the point up to which a stream's work was just found complete
   */
  poll(completed?: StreamPoint): void;
  /**
   * Like `poll`, for when all work of a stream is complete. Faster if the communicator has no work on other streams.
   */
  complete(completed: StreamPoint): void;
}

/**
 * The session's logical time, a Lamport clock. It advances with each event record, each wait for an event and each
 * completion that the program observes, on any stream. Collectives between two advances share an epoch.
 *
 * @see Leslie Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978)
 */
export type Epoch = number;

/** A point in a stream: after the work that was enqueued before an epoch. */
export interface StreamPoint {
  readonly stream: StreamState;
  readonly before: Epoch;
}

/** Unfinished collectives of one communicator on one stream. */
export interface UnfinishedWork {
  readonly owner: WatchedCommunicator;
  readonly stream: StreamState;
  /** The time limit of the collectives, in milliseconds, from when all work before them has completed. */
  readonly timeout: number;
  /** The number of this work in the order in which the session enqueued its work. */
  readonly sequence: number;
  /** The epoch of the oldest collective. */
  first: Epoch;
  /** The epoch of the newest collective. */
  last: Epoch;
  /** The value of `performance.now()` at which the collectives time out. Undefined until they have an end marker. */
  deadline: number | undefined;
}

/** The progress of the library in aborting failed work. */
export interface RevocationProgress {
  /** The value of `performance.now()` when the abort began. */
  readonly begin: number;
  isOver: boolean;
}

/**
 * The maximum time, in milliseconds, that waits give the library to abort failed work. After that, the abort itself is
 * taken to hang, and is no longer waited for.
 */
export const revocationTimeout = 10_000;

/** The cause of a failure of collectives. */
export interface FailureCause {
  readonly error: Error;
  readonly revocation: RevocationProgress;
  /**
   * The identity of the failed communicator. If several of its ranks are in this process, each fails with its own
   * error.
   */
  readonly identity: string;
}

/** A failure that affects a stream: the results of all work enqueued on the stream after epoch `since` may be wrong. */
export interface StreamFailure extends FailureCause {
  readonly since: Epoch;
  /** Whether the failure affects the stream only because the default stream may order it after the failed stream. */
  readonly isImplicit: boolean;
  /** The epoch in which a wait has thrown the failure; Infinity if none has. */
  thrownAt: Epoch;
}

/** An edge of the graph of waits: `stream` waits for an event of another one. */
export interface WaitEdge {
  /** The stream that waits. */
  readonly stream: StreamState;
  /** The wait is for work that was enqueued on the other stream before this epoch. */
  readonly before: Epoch;
  /** Work that is enqueued on the waiting stream after this epoch comes after the wait. */
  readonly since: Epoch;
}

/** The state of a stream that has collectives, or depends on one that has. */
export class StreamState {
  readonly device: number;
  readonly isDefault: boolean;
  /** Whether the default stream and this stream implicitly wait for each other. */
  readonly isBlocking: boolean;
  readonly failures: StreamFailure[] = [];
  readonly unfinished: Set<UnfinishedWork> = new Set();
  /** The waits of other streams for events of this stream. */
  waitEdges: WaitEdge[] = [];

  constructor(device: number, { isDefault, isBlocking }: { isDefault: boolean; isBlocking: boolean }) {
    this.device = device;
    this.isDefault = isDefault;
    this.isBlocking = isBlocking;
  }

  /**
   * Whether the stream's collectives are complete and each of its failures was thrown. Waits for the stream then throw
   * no errors, unless a stream that it depends on fails.
   */
  get isSettled(): boolean {
    return this.unfinished.size === 0 && this.failures.every(({ thrownAt }) => thrownAt < Infinity);
  }
}

/** The last record of an event. */
export interface EventRecord {
  /**
   * The stream that the event was recorded on, or a device's ordinal if it was recorded after all streams of the
   * device.
   */
  readonly of: StreamState | number;
  readonly at: Epoch;
}

/**
 * Returns whether two failures belong to the same communicator, on any ranks. A wait that throws one of them need not
 * throw the other.
 */
export function isSameCause(one: FailureCause, other: FailureCause): boolean {
  return one.identity === other.identity;
}

/** Returns whether no wait has thrown a failure yet. */
export function isUnthrown({ thrownAt }: StreamFailure): boolean {
  return thrownAt === Infinity;
}

/** Returns whether the abort of failed work has exceeded its time limit: streams with later work may never be idle. */
export function isStuck({ revocation: { begin, isOver } }: FailureCause): boolean {
  return !isOver && performance.now() - begin > revocationTimeout;
}

/** Returns whether an event was recorded after the failed work, and before the first wait that threw the failure. */
export function isBehindFailure({ at }: EventRecord, { since, thrownAt }: StreamFailure): boolean {
  return since < at && thrownAt > at;
}

/** Returns the deadline of work whose timeout starts now. Undefined if the work has no deadline yet. */
export function renewedDeadline({ deadline, timeout }: UnfinishedWork, now: number): number | undefined {
  return deadline === undefined ? undefined : now + timeout;
}
