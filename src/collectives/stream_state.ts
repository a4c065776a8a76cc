/**
 * The state of streams that have collectives, or depend on such streams: unfinished work, failures, and waits of other
 * streams.
 *
 * @module
 */

/** The methods by which `StreamErrors` uses the watchdog of a communicator with unfinished work. */
export interface WatchedCommunicator {
  /** Whether the communicator has so many end markers (events after its work) that recording more is too expensive. */
  readonly isSaturated: boolean;
  /** Records end markers for the work that the communicator has enqueued so far. */
  recordEnd(): void;
  /** Polls, unless the last poll was less than a millisecond ago. */
  pollIfDue(): void;
  /**
   * Determines which work is complete, and fails the communicator if the rest can never complete.
   *
   * @param completed a point in a stream up to which the caller has found all work to be complete
   */
  poll(completed?: StreamPoint): void;
  /** A variant of `poll` for when all work of a stream is complete. Faster if the communicator uses no other stream. */
  pollCompleted(completed: StreamPoint): void;
}

/**
 * The session's logical time, a Lamport clock. It advances with each event record, each wait for an event and each
 * completion that the program observes, on any stream. Collectives between two advances share an epoch.
 *
 * @see Leslie Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978)
 */
export type Epoch = number;

/** A point in a stream: the end of the work that was enqueued before the epoch `before`. */
export interface StreamPoint {
  readonly stream: StreamState;
  readonly before: Epoch;
}

/** Collectives of one communicator on one stream that are not known to be complete. */
export interface UnfinishedWork {
  readonly owner: WatchedCommunicator;
  readonly stream: StreamState;
  /** The time limit of the collectives, in milliseconds, from when all work before them has completed. */
  readonly timeout: number;
  /** The sequence number of this work, in the order in which the session has enqueued work. */
  readonly sequence: number;
  /** The epoch in which the oldest of the collectives was enqueued. */
  first: Epoch;
  /** The epoch in which the newest of the collectives was enqueued. */
  last: Epoch;
  /**
   * The value of `performance.now()` at which the collectives time out. Undefined until an end marker is recorded after
   * them.
   */
  deadline: number | undefined;
}

/** The progress of the library in aborting failed work. */
export interface RevocationProgress {
  /** The value of `performance.now()` when the abort began. */
  readonly begin: number;
  isOver: boolean;
}

/**
 * The maximum time in milliseconds that a wait allows the library for aborting failed work. If the abort takes longer,
 * it is assumed to hang, and waits ignore it.
 */
export const revocationTimeout = 10_000;

/** The cause of a failure of collectives. */
export interface FailureCause {
  readonly error: Error;
  readonly revocation: RevocationProgress;
  /**
   * The identity of the failed communicator. The communicator's ranks in one process have different errors but the same
   * identity.
   */
  readonly identity: string;
}

/** A failure that affects a stream: results of work enqueued on the stream after the epoch `since` may be wrong. */
export interface StreamFailure extends FailureCause {
  readonly since: Epoch;
  /** Whether the failure affects this stream only because of the default stream's implicit order. */
  readonly isImplicit: boolean;
  /** The epoch in which a wait threw the error; Infinity if no wait has. */
  thrownAt: Epoch;
}

/** An edge in the graph of waits, from a stream on which an event was recorded to a stream that waits for the event. */
export interface WaitEdge {
  /** The stream that waits for the event. */
  readonly stream: StreamState;
  /**
   * The epoch in which the event was recorded. The wait covers work that was enqueued on the other stream before this
   * epoch.
   */
  readonly before: Epoch;
  /** The epoch of the wait. Work that is enqueued on `stream` afterwards is ordered after the wait. */
  readonly since: Epoch;
}

/** The state of a stream that has collectives, or that depends on a stream with collectives. */
export class StreamState {
  readonly device: number;
  readonly isDefault: boolean;
  /** Whether the default stream and this stream implicitly wait for each other. */
  readonly isBlocking: boolean;
  readonly failures: StreamFailure[] = [];
  readonly unfinished: Set<UnfinishedWork> = new Set();
  /** The edges to the streams that wait for events of this stream. */
  waitEdges: WaitEdge[] = [];

  constructor(device: number, { isDefault, isBlocking }: { isDefault: boolean; isBlocking: boolean }) {
    this.device = device;
    this.isDefault = isDefault;
    this.isBlocking = isBlocking;
  }

  /**
   * Whether the stream's collectives are complete and all of its failures were thrown. If so, waits for the stream
   * throw no errors, unless a stream on which it depends fails.
   */
  get isSettled(): boolean {
    return this.unfinished.size === 0 && this.failures.every(({ thrownAt }) => thrownAt < Infinity);
  }
}

/** Where and when an event was last recorded. */
export interface EventRecord {
  /**
   * The stream on which the event was recorded, or a device's ordinal if it was recorded on all streams of the device.
   */
  readonly of: StreamState | number;
  readonly at: Epoch;
}

/**
 * Returns whether two failures are of the same communicator, but possibly of different ranks. If so, a wait that throws
 * one of the errors need not throw the other.
 */
export function isSameCause(one: FailureCause, other: FailureCause): boolean {
  return one.identity === other.identity;
}

/** Returns whether the failure's error has not yet been thrown by any wait. */
export function isUnthrown({ thrownAt }: StreamFailure): boolean {
  return thrownAt === Infinity;
}

/**
 * Returns whether aborting the failed work has exceeded its time limit. If so, streams with later work may never become
 * idle.
 */
export function isStuck({ revocation: { begin, isOver } }: FailureCause): boolean {
  return !isOver && performance.now() - begin > revocationTimeout;
}

/** Returns whether an event was recorded after the failed work, but before a wait first threw the error. */
export function isBehindFailure({ at }: EventRecord, { since, thrownAt }: StreamFailure): boolean {
  return since < at && thrownAt > at;
}

/** Returns the new deadline for work whose timeout restarts now. Undefined if the work has no deadline yet. */
export function renewedDeadline({ deadline, timeout }: UnfinishedWork, now: number): number | undefined {
  return deadline === undefined ? undefined : now + timeout;
}
