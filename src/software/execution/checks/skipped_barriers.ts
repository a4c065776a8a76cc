/**
 * Which threads of a block have passed by a barrier at which other lanes of their warps wait.
 *
 * @module
 */
import { barrierMarks } from "../../abi/launch_record.ts";

/** What is known of one barrier of the kernel, for each thread of the block. */
interface Passes {
  /** Whether the thread may be about to pass by. */
  readonly isNear: Uint8Array;
  /** How often it has passed by since others of its warp went on. */
  readonly counts: Uint32Array;
}

/** A lane that waits at a barrier, and one that has passed by. */
export interface SkippedBarrier {
  readonly waiting: number;
  readonly skipping: number;
}

/** Counts how often the threads of a block pass by barriers. */
export class SkippedBarriers {
  readonly #threads: number;
  /** By the number of the barrier. */
  readonly #passes = new Map<number, Passes>();
  /** The barrier that each thread has got to last. */
  readonly #last: Int32Array;

  /** @param threads of a block */
  constructor(threads: number) {
    this.#threads = threads;
    this.#last = new Int32Array(threads).fill(-1);
  }

  /** Whether threads have got to no marked barrier yet. */
  get isEmpty(): boolean {
    return this.#passes.size === 0;
  }

  /** Forgets the block before. */
  start(): void {
    this.#passes.clear();
    this.#last.fill(-1);
  }

  /** Takes a mark of a thread, as compiled code tells it. */
  mark(mark: number, thread: number): void {
    const barrier = Math.floor(mark / barrierMarks.count);
    const { isNear, counts } = this.#passesOf(barrier);
    switch (mark % barrierMarks.count) {
      case barrierMarks.branch:
        isNear[thread] = 1;
        break;
      case barrierMarks.meeting:
        counts[thread]! += isNear[thread]!;
        isNear[thread] = 0;
        break;
      case barrierMarks.barrier:
        isNear[thread] = 0;
        this.#last[thread] = barrier;
    }
  }

  /** Finds lanes that have passed by a barrier whose threads go on, in each warp one. */
  atBarrier(threads: readonly number[], hasExited: (thread: number) => boolean): SkippedBarrier[] {
    const found: SkippedBarrier[] = [];
    const waiting = new Set(threads);
    const seen = new Set<number>();
    for (const thread of threads) {
      const warp = thread >> 5, barrier = this.#last[thread]!;
      if (seen.has(warp) || barrier < 0) continue;
      seen.add(warp);
      const { counts } = this.#passesOf(barrier);
      const end = Math.min(warp * 32 + 32, this.#threads);
      let skipping = -1, passed = thread;
      for (let other = warp * 32; other < end; other++) {
        const count = counts[other]!;
        if (waiting.has(other) && this.#last[other] === barrier) {
          // The lane that has passed by less often waits for longer.
          if (count > counts[passed]!) skipping = skipping < 0 ? other : skipping;
          else if (count < counts[passed]!) {
            skipping = skipping < 0 ? passed : skipping;
            passed = other;
          }
        } else if (skipping < 0 && hasExited(other) && count > counts[passed]!) {
          skipping = other;
        }
      }
      if (skipping >= 0) found.push({ waiting: passed, skipping });
      counts.fill(0, warp * 32, end);
    }
    return found;
  }

  #passesOf(barrier: number): Passes {
    let passes = this.#passes.get(barrier);
    if (passes === undefined) {
      passes = { isNear: new Uint8Array(this.#threads), counts: new Uint32Array(this.#threads) };
      this.#passes.set(barrier, passes);
    }
    return passes;
  }
}
