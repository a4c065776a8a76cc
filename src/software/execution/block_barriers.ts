import { warpSize } from "./warp_operations.ts";

/** A barrier at which threads wait. */
interface Barrier {
  /** How many threads must arrive; 0 for all that there are. */
  readonly count: number;
  /** Those that wait. */
  readonly waiting: number[];
  /** Warps that wait as a whole, beside those. */
  readonly warps: number[];
  /** Those that have arrived, with those that do not wait: of each warp, a bit for each lane. */
  readonly lanes: Map<number, number>;
  /** How many have arrived. */
  arrived: number;
  /** How many lanes the warps of those that have arrived lack, because they had exited by then or never were. */
  missing: number;
  /** How many of the reduced predicates held, and how many there were. */
  held: number;
  reduced: number;
}

/** What became of a barrier: the threads that may go on. */
export interface CompletedBarrier {
  readonly threads: readonly number[];
  /** Whole warps beside them. */
  readonly warps: readonly number[];
  /** How many of the predicates held, and whether all did. */
  readonly held: number;
  readonly allHeld: boolean;
}

/** A thread's arrival at a barrier. */
export interface Arrival {
  readonly barrier: number;
  readonly count: number;
  /** Whether the thread waits there. */
  readonly waits: boolean;
  /** Undefined where there is nothing to reduce. */
  readonly predicate: boolean | undefined;
}

/**
 * The barriers of a block, by number, wherever in the code they stand. A thread that has exited no longer counts; where a
 * barrier counts threads, it counts whole warps, exited threads among them, as the hardware does.
 */
export class BlockBarriers {
  readonly #barriers = new Map<number, Barrier>();
  readonly #isLive: (thread: number) => boolean;

  /** @param isLive whether a thread, counted in whole warps, is one of the block's that have not exited */
  constructor(isLive: (thread: number) => boolean) {
    this.#isLive = isLive;
  }

  /** Nobody waits any more. */
  clear(): void {
    this.#barriers.clear();
  }

  /**
   * Notes that a thread has come to a barrier. Returns the barrier where it counts threads and these are all: those that
   * come later in the same pass are the first of its next use.
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

  /** Notes that all so many threads of a warp have come to a barrier of the whole block, and wait there. */
  arriveTogether(warp: number, { barrier: number, threads }: { barrier: number; threads: number }): void {
    const barrier = this.#barrier(number, 0);
    barrier.arrived += threads;
    barrier.warps.push(warp);
  }

  /**
   * The barriers that are complete because threads have exited, or because all are there; they are free for their next use.
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

  #complete(number: number, { waiting, warps, held, reduced }: Barrier): CompletedBarrier {
    this.#barriers.delete(number);
    return { threads: waiting, warps, held, allHeld: held === reduced };
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
