/**
 * The barriers of a block, and the descriptions of waiting threads in messages.
 *
 * @module
 */
import { type Suspension, warpSize } from "../../abi/launch_record.ts";

/** Threads of a block that wait at the same suspend point. */
export interface WaitingThreads {
  /** The numbers of the waiting threads within their block, formatted as ranges: `0-31, 40`. */
  readonly threads: string;
  /** Whether only one thread waits. */
  readonly isOne: boolean;
  /** The number of the first waiting thread within its block. */
  readonly first: number;
  readonly suspension: Suspension;
}

/** The error that is thrown if no thread of a block can run, and not all have exited. */
export class DeadlockError extends Error {
  override readonly name = "DeadlockError";
  /** The PTX line where the first thread waits. */
  readonly line: number;
  readonly #waiting: readonly WaitingThreads[];

  constructor(waiting: readonly WaitingThreads[]) {
    super();
    this.line = waiting[0]!.suspension.line;
    this.#waiting = waiting;
    this.message = this.describe((line) => `line ${line}`);
  }

  /** Returns a description of the suspend points where the threads wait, for an error message. */
  describe(nameLine: (line: number) => string): string {
    const places = describeWaiting(this.#waiting, nameLine);
    return `all threads of the block that have not exited wait, and none can continue: ${places}`;
  }
}

/** Returns a description of the waiting threads, with the line and the kind of each suspend point. */
export function describeWaiting(waiting: readonly WaitingThreads[], nameLine: (line: number) => string): string {
  return waiting.map(({ threads, isOne, suspension: { line, request } }) => {
    const kind = request.kind === "yield" || request.kind === "lockstep"
      ? "loop"
      : request.kind === "clusterBarrier"
      ? "barrier of the cluster"
      : request.kind;
    return `${isOne ? "thread" : "threads"} ${threads} at ${nameLine(line)} (${kind})`;
  }).join(", ");
}

/** Formats ascending numbers as ranges: `0-31, 40`. */
export function formatRanges(numbers: readonly number[]): string {
  const texts: string[] = [];
  for (let begin = 0, end = 0; begin < numbers.length; begin = ++end) {
    while (numbers[end + 1] === numbers[end]! + 1) end++;
    texts.push(begin === end ? `${numbers[begin]}` : `${numbers[begin]}-${numbers[end]}`);
  }
  return texts.join(", ");
}

/** The state of a barrier at which at least one thread has arrived. */
interface Barrier {
  /** The number of threads that must arrive, or 0 for all threads of the block. */
  readonly count: number;
  /** The waiting threads, except those of the warps in `warps`. */
  readonly waiting: number[];
  /** The warps whose threads have all arrived together and are waiting. */
  readonly warps: number[];
  /** For each warp, the mask of the lanes that have arrived, including those that do not wait. */
  readonly lanes: Map<number, number>;
  /** The number of threads that have arrived since the barrier last completed. */
  arrived: number;
  /** The number of lanes of the arrived warps that will never arrive, because the lanes have exited or do not exist. */
  missing: number;
  /** The number of threads that arrived with a true predicate. */
  held: number;
  /** The number of threads that arrived with a predicate. */
  reduced: number;
}

/** A completed barrier, and the threads that may resume. */
export interface CompletedBarrier {
  /** The number of the barrier. */
  readonly barrier: number;
  /** The number of threads for which the barrier waited, or 0 for all threads of the block. */
  readonly count: number;
  /** The threads that may resume, except those of the warps in `warps`. */
  readonly threads: readonly number[];
  /** The warps whose threads all arrived together and may resume. */
  readonly warps: readonly number[];
  /** The number of threads whose predicate was true. */
  readonly held: number;
  /** Whether the predicates of all threads were true. */
  readonly allHeld: boolean;
}

/** A thread's arrival at a barrier. */
interface Arrival {
  readonly barrier: number;
  readonly count: number;
  /** Whether the thread waits at the barrier. False for `bar.arrive`. */
  readonly waits: boolean;
  /** The predicate to reduce. Undefined for barriers without a reduction. */
  readonly predicate: boolean | undefined;
}

/**
 * The barriers of a block, which are identified by number alone, not by code location. A barrier for all threads of the
 * block does not wait for threads that have exited. As in hardware, a barrier with a thread count counts whole warps,
 * including threads that have exited.
 */
export class BlockBarriers {
  readonly #barriers = new Map<number, Barrier>();
  readonly #isLive: (thread: number) => boolean;

  /** @param isLive returns whether a thread number exists in the block and the thread has not exited */
  constructor(isLive: (thread: number) => boolean) {
    this.#isLive = isLive;
  }

  /** Resets all barriers. */
  clear(): void {
    this.#barriers.clear();
  }

  /**
   * Records a thread's arrival at a barrier. If this completes a barrier with a thread count, returns the completed
   * barrier; later arrivals then belong to the next use of the barrier.
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

  /** Records that all threads of a warp have arrived at a barrier for the whole block, and wait. */
  arriveTogether(warp: number, { barrier: number, threads }: { barrier: number; threads: number }): void {
    const barrier = this.#barrier(number, 0);
    barrier.arrived += threads;
    barrier.warps.push(warp);
  }

  /**
   * Returns and resets the completed barriers: those at which all required threads have arrived or exited.
   *
   * @param live the number of threads of the block that have not exited
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

  /**
   * Returns the number of lanes of a warp that have not arrived and never will, because they have exited or do not
   * exist.
   */
  #missing(warp: number, arrived: number): number {
    let missing = 0;
    for (let lane = 0; lane < warpSize; lane++) {
      if ((arrived >>> lane & 1) === 0 && !this.#isLive(warp * warpSize + lane)) missing++;
    }
    return missing;
  }
}
