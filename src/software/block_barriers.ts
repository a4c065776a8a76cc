import { warpSize } from "./warp_operations.ts";

/** A barrier at which threads wait. */
interface Barrier {
  /** How many threads must arrive; 0 for all that there are. */
  readonly count: number;
  /** Those that wait. */
  readonly waiting: number[];
  /** How many have arrived, with those that do not wait. */
  arrived: number;
  /** How many of the reduced predicates held, and how many there were. */
  held: number;
  reduced: number;
}

/** What became of a barrier: the threads that may go on. */
export interface CompletedBarrier {
  readonly threads: readonly number[];
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

  /** Nobody waits any more. */
  clear(): void {
    this.#barriers.clear();
  }

  arrive(thread: number, { barrier: number, count, waits, predicate }: Arrival): void {
    let barrier = this.#barriers.get(number);
    if (barrier === undefined) {
      barrier = { count, waiting: [], arrived: 0, held: 0, reduced: 0 };
      this.#barriers.set(number, barrier);
    }
    barrier.arrived++;
    if (waits) barrier.waiting.push(thread);
    if (predicate === undefined) return;
    barrier.reduced++;
    if (predicate) barrier.held++;
  }

  /**
   * The barriers that are complete; they are free for their next use.
   *
   * @param live how many threads of the block have not exited
   * @param isLive whether a thread, counted in whole warps, is one of those
   */
  complete(live: number, isLive: (thread: number) => boolean): CompletedBarrier[] {
    const completed: CompletedBarrier[] = [];
    for (const [number, barrier] of this.#barriers) {
      const { count, waiting, arrived, held, reduced } = barrier;
      const isComplete = count === 0 ? arrived >= live : arrived + missingInWarps(waiting, isLive) >= count;
      if (!isComplete) continue;
      this.#barriers.delete(number);
      completed.push({ threads: waiting, held, allHeld: held === reduced });
    }
    return completed;
  }
}

/** How many threads the warps of those that wait lack, because they have exited or never were. */
function missingInWarps(waiting: readonly number[], isLive: (thread: number) => boolean): number {
  let missing = 0;
  for (const warp of new Set(waiting.map((thread) => Math.floor(thread / warpSize)))) {
    for (let lane = 0; lane < warpSize; lane++) if (!isLive(warp * warpSize + lane)) missing++;
  }
  return missing;
}
