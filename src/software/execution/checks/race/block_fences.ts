import { keyOf, Knowledge } from "./knowledge.ts";

/**
 * The sequentially consistent fences of a block, in scopes wider than the block. PTX has one order of all of them, in
 * which each synchronizes with the next. A fence is certainly behind another one if a thread that is ordered behind that
 * has written what a thread that is ordered before this one has read: neither thread has to be the one that fences. So
 * all threads of a block may fence, meet at a barrier, and let one of them set the flag.
 */
export class BlockFences {
  /** By thread, what the fences ordered before the thread have released. */
  readonly #released: (Knowledge | undefined)[] = [];
  /** By thread, what its next fence acquires. */
  readonly #observed: (Knowledge | undefined)[] = [];
  /** By thread, the time of its last fence. */
  readonly #times: number[] = [];
  /** Whether the next barrier has anything to propagate. */
  isNew = false;

  /** Starts a block. */
  clear(): void {
    this.#released.length = this.#observed.length = this.#times.length = 0;
    this.isNew = false;
  }

  /** Records a fence. It releases everything observed before it. */
  note(thread: number, released: Knowledge, time: number): void {
    this.#released[thread] = released;
    this.#observed[thread] = undefined;
    this.#times[thread] = time;
    this.isNew = true;
  }

  /** Records what a thread has read. */
  observe(thread: number, released: Knowledge): void {
    const before = this.observedBy(thread);
    const observed = before.and(released);
    if (observed === before) return;
    this.#observed[thread] = observed;
    this.isNew = true;
  }

  /** What the fences before a thread have released. */
  releasedBefore(thread: number): Knowledge {
    return this.#released[thread] ?? Knowledge.none;
  }

  /** What the next fence of a thread acquires. */
  observedBy(thread: number): Knowledge {
    return this.#observed[thread] ?? Knowledge.none;
  }

  /** Propagates fences among threads that meet at a barrier. */
  share(threads: readonly number[]): void {
    this.#set(threads, this.#joined(this.#released, threads), this.#joined(this.#observed, threads));
  }

  /** Propagates fences among all threads, at a time. Their own fences are stored as one array. */
  shareAll(
    { threads, base, block, time }: { threads: readonly number[]; base: number; block: number; time: number },
  ): void {
    const isOwn = (key: number) =>
      key % 4 === 0 && key >= keyOf.thread(base) && key < keyOf.thread(base + threads.length);
    const times = Int32Array.from(threads, (thread) => this.#times[thread] ?? 0);
    const released = this.#joined(this.#released, threads, isOwn).withFences(block, { time, times });
    this.#set(threads, released, this.#joined(this.#observed, threads));
    this.isNew = false;
  }

  #joined(
    all: readonly (Knowledge | undefined)[],
    threads: readonly number[],
    isLeftOut: (key: number) => boolean = () => false,
  ): Knowledge {
    return Knowledge.joined(threads.map((thread) => all[thread]), isLeftOut);
  }

  #set(threads: readonly number[], released: Knowledge, observed: Knowledge): void {
    for (const thread of threads) {
      this.#released[thread] = released;
      this.#observed[thread] = observed;
    }
  }
}
