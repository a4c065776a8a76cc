/**
 * The state of streams that have collectives, or depend on such streams: unfinished work, failures, and waits of other
 * streams.
 *
 * @module
 */

/** A communicator that may have unfinished work, as the errors of streams see it. */
export interface WatchedCommunicator {
  /** Whether it has recorded so many end markers that further ones are not worth their cost. */
  readonly isSaturated: boolean;
  /** Records an end marker behind the work that it has enqueued so far. */
  recordEnd(): void;
  /** Polls, unless it has polled within the last millisecond. */
  pollIfDue(): void;
  /**
   * Finds out which work is complete, and fails the communicator if the rest can never complete.
   *
   * @param completed work that the program has just found complete
   */
  poll(completed?: StreamPoint): void;
  /** As `poll`, once all work of a stream is complete. Cheaper if no other stream has work of the communicator. */
  complete(completed: StreamPoint): void;
}

/**
 * The session's logical time, as Lamport's clocks have it: it advances with each event record, each wait for an event and
 * each completion that the program has seen, on any stream. Collectives between two of those share an epoch.
 *
 * @see Leslie Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978)
 */
export type Epoch = number;

/** The work of a stream that was enqueued before an epoch. */
export interface StreamPoint {
  readonly stream: StreamState;
  readonly before: Epoch;
}

/** Unfinished collectives of one communicator on one stream, as the errors of streams see them. */
export interface UnfinishedWork {
  readonly owner: WatchedCommunicator;
  readonly stream: StreamState;
  /** The time limit of the collectives, in milliseconds, from when all work before them has completed. */
  readonly timeout: number;
  /** The place in the order in which the session's work was enqueued. */
  readonly sequence: number;
  /** The epoch of the oldest of them. */
  first: Epoch;
  /** The epoch of the newest of them. */
  last: Epoch;
  /** The time of `performance.now()` at which they time out. Undefined until an end marker is recorded behind them. */
  deadline: number | undefined;
}

/** How far the library is with ending failed work. */
export interface RevocationProgress {
  /** The time of `performance.now()` when it began. */
  readonly begin: number;
  isOver: boolean;
}

/**
 * The maximum time, in milliseconds, that waits give the library to abort failed work. After that, the abort itself is
 * taken to hang, and is no longer waited for.
 */
export const revocationTimeout = 10_000;

/** Why collectives have failed. */
export interface FailureCause {
  readonly error: Error;
  readonly revocation: RevocationProgress;
  /** The communicator's identity. Its other ranks in this process fail for the same cause, with errors of their own. */
  readonly identity: string;
}

/** A failure that has reached a stream: whatever was enqueued there after an epoch may have computed anything. */
export interface StreamFailure extends FailureCause {
  readonly since: Epoch;
  /** Whether it is here only because the default stream may order the stream after the failed one. */
  readonly isImplicit: boolean;
  /** The epoch in which a wait has thrown it; Infinity until one has. */
  thrownAt: Epoch;
}

/** An edge of the graph of waits: `stream` waits for an event of another one. */
export interface WaitEdge {
  /** The stream that waits. */
  readonly stream: StreamState;
  /** The wait is for the other stream's work from before this epoch. */
  readonly before: Epoch;
  /** The work that the waiting stream gets after this epoch comes after the wait. */
  readonly since: Epoch;
}

/** The state of a stream that has collectives, or depends on one that has. */
export class StreamState {
  readonly device: number;
  readonly isDefault: boolean;
  /** Whether the default stream and this one wait for each other. */
  readonly isBlocking: boolean;
  readonly failures: StreamFailure[] = [];
  readonly unfinished: Set<UnfinishedWork> = new Set();
  /** The waits of other streams for this one. */
  waitEdges: WaitEdge[] = [];

  constructor(device: number, { isDefault, isBlocking }: { isDefault: boolean; isBlocking: boolean }) {
    this.device = device;
    this.isDefault = isDefault;
    this.isBlocking = isBlocking;
  }

  /**
   * Whether its collectives are complete and every failure was thrown, so that no wait throws for this stream, unless one
   * fails that it depends on.
   */
  get isSettled(): boolean {
    return this.unfinished.size === 0 && this.failures.every(({ thrownAt }) => thrownAt < Infinity);
  }
}

/** A record of an event. */
export interface EventRecord {
  /** The stream that it was recorded on, or the device if it stands behind all streams of one. */
  readonly of: StreamState | number;
  readonly at: Epoch;
}

/** Whether two failures are of one communicator, on whichever ranks: a wait that throws one need not throw the other. */
export function isSameCause(one: FailureCause, other: FailureCause): boolean {
  return one.identity === other.identity;
}

/** Whether no wait has thrown a failure yet. */
export function isUnthrown({ thrownAt }: StreamFailure): boolean {
  return thrownAt === Infinity;
}

/** Whether failed work may never end: streams behind it may never be idle again. */
export function isStuck({ revocation: { begin, isOver } }: FailureCause): boolean {
  return !isOver && performance.now() - begin > revocationTimeout;
}

/** Whether an event was recorded after the failed work, and before the first wait that threw the failure. */
export function isBehindFailure({ at }: EventRecord, { since, thrownAt }: StreamFailure): boolean {
  return since < at && thrownAt > at;
}

/** The deadline of work whose timeout starts now. Undefined if it has none yet. */
export function renewedDeadline({ deadline, timeout }: UnfinishedWork, now: number): number | undefined {
  return deadline === undefined ? undefined : now + timeout;
}
