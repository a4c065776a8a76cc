/**
 * Finds threads of a block that have skipped a barrier at which other lanes of their warps wait.
 *
 * @module
 */
import { barrierMarks } from "../../abi/launch_record.ts";

/** The state of one barrier of the kernel, for each thread of the block. */
interface Passes {
  /** Whether the thread may be about to skip the barrier. */
  readonly isNear: Uint8Array;
  /** How often it has skipped the barrier since other lanes of its warp left it. */
  readonly counts: Uint32Array;
}

/** A lane that waits at a barrier, and one that has skipped it. */
export interface SkippedBarrier {
  readonly waiting: number;
  readonly skipping: number;
}

/** Counts how often the threads of a block skip barriers. */
export class SkippedBarriers {
  readonly #threads: number;
  /** The state of each barrier, by number. */
  readonly #passes = new Map<number, Passes>();
  /** The last barrier that each thread reached. */
  readonly #last: Int32Array;

  /** @param threads of a block */
  constructor(threads: number) {
    this.#threads = threads;
    this.#last = new Int32Array(threads).fill(-1);
  }

  /** Whether no thread has reached a marked barrier yet. */
  get isEmpty(): boolean {
    return this.#passes.size === 0;
  }

  /** Clears the state of the previous block. */
  start(): void {
    this.#passes.clear();
    this.#last.fill(-1);
  }

  /** Takes a mark of a thread, as compiled code reports it. */
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

  /** Finds, in each warp, a lane that has skipped a barrier whose threads are about to resume. */
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
          // The lane that has skipped less often has waited longer.
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
