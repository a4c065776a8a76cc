import type { Suspension } from "../../abi/launch_record.ts";

/** Observes the threads of a block, and of the blocks that run after it in its place. */
export interface BlockObserver {
  /** All threads are at the kernel's start. */
  start(): void;
  /** Threads of the block are about to run. */
  resume(): void;
  /** A thread, or the first one of a warp that arrives as a whole, has arrived at a barrier. */
  arrive(thread: number, arrival: ObservedArrival): void;
  /** The threads that wait at a barrier are about to resume. */
  complete(barrier: ObservedBarrier): void;
  /** Lanes of a warp have met, at its barrier or to exchange values, and are about to resume. */
  meet(warp: number, meeting: ObservedMeeting): void;
}

/** An arrival at a barrier. */
export interface ObservedArrival {
  readonly barrier: number;
  /** The number of threads that the barrier is for, or 0 for all threads of the block. */
  readonly count: number;
  readonly suspension: Suspension;
}

/** A barrier whose threads are about to resume. */
export interface ObservedBarrier {
  readonly barrier: number;
  /** The threads that have waited, and their places. */
  threads(): readonly number[];
  suspensionOf(thread: number): Suspension | undefined;
  /** Whether a thread has exited, or does not exist. */
  hasExited(thread: number): boolean;
  /** Whether whole warps have waited, and each of them at one place. */
  readonly isOfWholeWarps: boolean;
  /** Whether the other threads of the block have exited. */
  readonly isOfAll: boolean;
}

/** Lanes of a warp that have met. */
export interface ObservedMeeting {
  /** A bit for each of them, and for each lane that has not exited. */
  readonly lanes: number;
  readonly present: number;
  readonly suspension: Suspension;
  /** The lanes in a lane's mask. */
  maskOf(lane: number): number;
  /** The first lane that would receive the value of a lane that does not participate in a shuffle. */
  readerOfAbsentLane(): number | undefined;
}

/** Combines several observers into one. Undefined for none. */
export function observeTogether(observers: readonly (BlockObserver | undefined)[]): BlockObserver | undefined {
  const all = observers.filter((observer) => observer !== undefined);
  if (all.length < 2) return all[0];
  return {
    start: () => all.forEach((observer) => observer.start()),
    resume: () => all.forEach((observer) => observer.resume()),
    arrive: (thread, arrival) => all.forEach((observer) => observer.arrive(thread, arrival)),
    complete: (barrier) => all.forEach((observer) => observer.complete(barrier)),
    meet: (warp, meeting) => all.forEach((observer) => observer.meet(warp, meeting)),
  };
}
