/**
 * The barrier of a cluster of blocks, `barrier.cluster`: PTX ISA, section 9.7.13.3.
 *
 * @module
 */

/**
 * The barrier of a cluster. A phase completes when all threads of the cluster that have not exited have arrived. A thread
 * that has arrived may go on, and waits for the phase later.
 */
export class ClusterBarrier {
  /** Whether the cluster has several blocks. */
  readonly isShared: boolean;
  /** The number of phases that have completed. */
  phase = 0;
  /** The number of threads that have not exited, and of those that have not arrived in this phase. */
  #live = 0;
  #missing = 0;
  /** The blocks that have threads which have not exited, and those of them that cannot go on before the phase completes. */
  readonly #blocks = new Set<object>();
  readonly #blocked = new Set<object>();

  constructor({ isShared }: { readonly isShared: boolean }) {
    this.isShared = isShared;
  }

  /** Adds a block with a number of threads. All blocks must be added before any thread runs. */
  join(block: object, threads: number): void {
    this.#blocks.add(block);
    this.#live += threads;
    this.#missing += threads;
  }

  /** Counts a thread that arrives. Returns the number of the phase. */
  arrive(): number {
    const { phase } = this;
    this.#missing--;
    this.#completeIfAll();
    return phase;
  }

  /** Counts a thread that exits. */
  exit({ hasArrived }: { readonly hasArrived: boolean }): void {
    this.#live--;
    if (hasArrived) return;
    this.#missing--;
    this.#completeIfAll();
  }

  /** Removes a block of which all threads have exited. */
  leave(block: object): void {
    this.#blocks.delete(block);
    this.#blocked.delete(block);
  }

  /** Records that a block cannot go on before the phase completes. Returns whether no block of the cluster can. */
  block(block: object): boolean {
    this.#blocked.add(block);
    return this.#blocked.size === this.#blocks.size;
  }

  #completeIfAll(): void {
    if (this.#missing > 0) return;
    this.phase++;
    this.#missing = this.#live;
    this.#blocked.clear();
  }
}
