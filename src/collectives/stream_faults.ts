/**
 * What is known of streams that have collectives, or wait for such: unfinished work, failures, and who comes after whom.
 *
 * @module
 */

/** A communicator that may have unfinished work. */
export interface PolledCommunicator {
  /** Whether it has so many marks that more would cost more than they tell. */
  readonly isBusy: boolean;
  /** Notes where the work ends that it has given to streams so far. */
  mark(): void;
  /** Finds out whether its work can end, and ends it if it cannot. Does so now and then, however often it is called. */
  poll(): void;
  /** Does so now. `done` is what the program has just found done. */
  look(done?: StreamPoint): void;
  /**
   * Does so when all work of a stream is done, and forgets what it had. Takes less time if it was the only stream with
   * work.
   */
  settle(done: StreamPoint): void;
}

/**
 * A moment in what the program has asked for: records of events, waits for them, and what it has found done are counted,
 * in all streams together. Collectives between two of those are of one moment.
 */
export type Moment = number;

/** What a stream was given before a moment. */
export interface StreamPoint {
  readonly stream: StreamFaults;
  readonly before: Moment;
}

/** Unfinished collectives of a stream, and of a communicator. */
export interface PendingWork {
  readonly owner: PolledCommunicator;
  readonly faults: StreamFaults;
  /** Milliseconds in which they should be done, once it is their turn. */
  readonly timeout: number;
  /** Of the session's: what was given later has a larger one. */
  readonly sequence: number;
  /** The moment of the first of them. */
  since: Moment;
  /** The moment of the last of them. */
  last: Moment;
  /** When they should be done, by `performance.now()`. Undefined as long as nobody has marked where they end. */
  deadline: number | undefined;
}

/** Why collectives have failed. */
export interface Cause {
  readonly error: Error;
  /** Of the communicator. Other ranks of it in this process fail for the same reason, with errors of their own. */
  readonly identity: string;
}

/** Collectives that have failed, on a stream: what comes after a moment there is undefined. */
export interface Failure extends Cause {
  readonly since: Moment;
  /** When it was found. */
  readonly found: Moment;
  /** Whether it is here only because the default stream may order the stream behind. */
  readonly isByOrder: boolean;
  /** When a wait has thrown it. */
  thrown: Moment;
}

/** A stream that waits for another one. */
export interface Follower {
  readonly stream: StreamFaults;
  /** For what the other one was given before a moment. */
  readonly before: Moment;
  /** What it is given after this moment waits. */
  readonly since: Moment;
}

/** What is known of a stream that has collectives, or comes after one that has. */
export class StreamFaults {
  readonly device: number;
  readonly isDefault: boolean;
  /** Whether the default stream and this one wait for each other. */
  readonly isBlocking: boolean;
  readonly failures: Failure[] = [];
  readonly pending: Set<PendingWork> = new Set();
  followers: Follower[] = [];

  constructor(device: number, { isDefault, isBlocking }: { isDefault: boolean; isBlocking: boolean }) {
    this.device = device;
    this.isDefault = isDefault;
    this.isBlocking = isBlocking;
  }

  /** Whether no wait can throw an error of this stream's any more. */
  get isSettled(): boolean {
    return this.pending.size === 0 && this.failures.every(({ thrown }) => thrown < Infinity);
  }
}

/** What comes before a record of an event: the work of a stream, or of all streams of a device. */
export interface EventRecord {
  readonly of: StreamFaults | number;
  readonly at: Moment;
}

/** Whether a wait that throws the one need not throw the other. */
export function isSameCause(one: Cause, other: Cause): boolean {
  return one.identity === other.identity;
}

/** Whether no wait has thrown it yet. */
export function isUnthrown({ thrown }: Failure): boolean {
  return thrown === Infinity;
}

/** Whether what comes before a record has failed, and no wait had thrown that by then. */
export function isIn({ at }: EventRecord, { since, thrown }: Failure): boolean {
  return since < at && thrown > at;
}

/** A deadline that begins now, for work that has one. */
export function later({ deadline, timeout }: PendingWork, now: number): number | undefined {
  return deadline === undefined ? undefined : now + timeout;
}
