/**
 * The barriers of a block, and threads that wait at them, as messages name them.
 *
 * @module
 */
import type { Suspension } from "../../abi/launch_record.ts";
import { warpSize } from "./warp_operations.ts";

/** Threads that wait at the same place. */
export interface WaitingThreads {
  /** Their numbers in the block: `0-31, 40`. */
  readonly threads: string;
  readonly isOne: boolean;
  /** The first of them. */
  readonly first: number;
  readonly suspension: Suspension;
}

/** Thrown if no thread of a block can run. */
export class DeadlockError extends Error {
  override readonly name = "DeadlockError";
  /** The line where the first thread waits. */
  readonly line: number;
  readonly #waiting: readonly WaitingThreads[];

  constructor(waiting: readonly WaitingThreads[]) {
    super();
    this.line = waiting[0]!.suspension.line;
    this.#waiting = waiting;
    this.message = this.describe((line) => `line ${line}`);
  }

  /** Describes where the threads wait. */
  describe(nameLine: (line: number) => string): string {
    const places = describeWaiting(this.#waiting, nameLine);
    return `all threads of the block that have not exited wait, and none can continue: ${places}`;
  }
}

/** Describes which threads wait where. */
export function describeWaiting(waiting: readonly WaitingThreads[], nameLine: (line: number) => string): string {
  return waiting.map(({ threads, isOne, suspension: { line, request } }) => {
    const kind = request.kind === "yield" || request.kind === "lockstep" ? "loop" : request.kind;
    return `${isOne ? "thread" : "threads"} ${threads} at ${nameLine(line)} (${kind})`;
  }).join(", ");
}

/** Ascending numbers as ranges: `0-31, 40`. */
export function ranges(numbers: readonly number[]): string {
  const texts: string[] = [];
  for (let begin = 0, end = 0; begin < numbers.length; begin = ++end) {
    while (numbers[end + 1] === numbers[end]! + 1) end++;
    texts.push(begin === end ? `${numbers[begin]}` : `${numbers[begin]}-${numbers[end]}`);
  }
  return texts.join(", ");
}

/** A barrier that threads have arrived at. */
interface Barrier {
  /** How many threads must arrive, or 0 for all threads of the block. */
  readonly count: number;
  /** The threads that wait. */
  readonly waiting: number[];
  /** Warps that wait as a whole, in addition. */
  readonly warps: number[];
  /** For each warp, a bit for each lane that has arrived, including those that do not wait. */
  readonly lanes: Map<number, number>;
  /** How many threads have arrived. */
  arrived: number;
  /** In the warps of these threads, how many lanes will never arrive, because they have exited or do not exist. */
  missing: number;
  /** How many of the reduced predicates were true, and how many predicates there were. */
  held: number;
  reduced: number;
}

/** A completed barrier, with the threads that it releases. */
export interface CompletedBarrier {
  readonly barrier: number;
  /** How many threads it counts, or 0 for all threads of the block. */
  readonly count: number;
  readonly threads: readonly number[];
  /** Whole warps, in addition. */
  readonly warps: readonly number[];
  /** How many of the predicates were true, and whether all were. */
  readonly held: number;
  readonly allHeld: boolean;
}

/** A thread's arrival at a barrier. */
interface Arrival {
  readonly barrier: number;
  readonly count: number;
  /** Whether the thread waits at the barrier. */
  readonly waits: boolean;
  /** Undefined if there is nothing to reduce. */
  readonly predicate: boolean | undefined;
}

/**
 * The barriers of a block, by number, wherever they are in the code. Threads that have exited no longer count. A
 * barrier that counts threads counts whole warps, including threads that have exited, as the hardware does.
 */
export class BlockBarriers {
  readonly #barriers = new Map<number, Barrier>();
  readonly #isLive: (thread: number) => boolean;

  /** @param isLive whether a thread, counted in whole warps, exists in the block and has not exited */
  constructor(isLive: (thread: number) => boolean) {
    this.#isLive = isLive;
  }

  /** Clears all barriers. */
  clear(): void {
    this.#barriers.clear();
  }

  /**
   * Records a thread's arrival at a barrier. Returns the barrier if it counts threads and has all of them; later
   * arrivals belong to its next use.
   */
  arrive(thread: number, { barrier: number, count, waits, predicate }: Arrival): CompletedBarrier | undefined {
    const barrier = this.#barrier(number, count);
    barrier.arrived++;
    if (waits) barrier.waiting.push(thread);
    if (predicate !== undefined) {
      barrier.reduced++;
      if (predicate) barrier.held++;
    }
    if (barrier.count === 0) return undefined;
    const warp = Math.floor(thread / warpSize);
    const lanes = barrier.lanes.get(warp);
    barrier.lanes.set(warp, (lanes ?? 0) | 1 << thread % warpSize);
    if (lanes === undefined) barrier.missing += this.#missing(warp, 0);
    return barrier.arrived + barrier.missing >= barrier.count ? this.#complete(number, barrier) : undefined;
  }

  /**
   * Records that all threads of a warp, of the given number, have arrived at a barrier of the whole block and wait
   * there.
   */
  arriveTogether(warp: number, { barrier: number, threads }: { barrier: number; threads: number }): void {
    const barrier = this.#barrier(number, 0);
    barrier.arrived += threads;
    barrier.warps.push(warp);
  }

  /**
   * The barriers that are complete, because all threads have arrived or the others have exited. They are free for their
   * next use.
   *
   * @param live how many threads of the block have not exited
   */
  complete(live: number): CompletedBarrier[] {
    const completed: CompletedBarrier[] = [];
    for (const [number, barrier] of this.#barriers) {
      const { count, arrived } = barrier;
      if (count === 0 ? arrived >= live : arrived + this.#missingOfAll(barrier) >= count) {
        completed.push(this.#complete(number, barrier));
      }
    }
    return completed;
  }

  #barrier(number: number, count: number): Barrier {
    let barrier = this.#barriers.get(number);
    if (barrier === undefined) {
      barrier = { count, waiting: [], warps: [], lanes: new Map(), arrived: 0, missing: 0, held: 0, reduced: 0 };
      this.#barriers.set(number, barrier);
    }
    return barrier;
  }

  #complete(number: number, { count, waiting, warps, held, reduced }: Barrier): CompletedBarrier {
    this.#barriers.delete(number);
    return { barrier: number, count, threads: waiting, warps, held, allHeld: held === reduced };
  }

  #missingOfAll({ lanes }: Barrier): number {
    let missing = 0;
    for (const [warp, arrived] of lanes) missing += this.#missing(warp, arrived);
    return missing;
  }

  /** How many lanes of a warp have not arrived and never will. */
  #missing(warp: number, arrived: number): number {
    let missing = 0;
    for (let lane = 0; lane < warpSize; lane++) {
      if ((arrived >>> lane & 1) === 0 && !this.#isLive(warp * warpSize + lane)) missing++;
    }
    return missing;
  }
}
