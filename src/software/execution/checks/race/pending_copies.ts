import { cellField, cellShift, pendingEpoch } from "../../../abi/check_state.ts";
import type { ShadowPage } from "./shadow_memory.ts";

/** The cells that an asynchronous copy writes. */
interface Copy {
  readonly page: ShadowPage;
  /** Its bytes, from the page's start on. */
  readonly begin: number;
  readonly end: number;
}

/** The asynchronous copies of a thread that it has not waited for. */
export class PendingCopies {
  /** The writer that cells name: one more than the number of the thread. */
  readonly #writer: number;
  readonly #groups: Copy[][] = [];
  #current: Copy[] = [];

  constructor(writer: number) {
    this.#writer = writer;
  }

  /** Records a copy. */
  add(copy: Copy): void {
    this.#current.push(copy);
  }

  /** Commits the copies so far as a group. */
  commit(): void {
    this.#groups.push(this.#current);
    this.#current = [];
  }

  /**
   * Waits until at most the given number of groups are pending; 0 waits for all copies. Completed copies count as
   * stores of the thread.
   */
  wait(groups: number, epoch: number): void {
    if (groups === 0) this.commit();
    while (this.#groups.length > groups) for (const copy of this.#groups.shift()!) this.#finish(copy, epoch);
  }

  #finish({ page: { cells, granularity }, begin, end }: Copy, epoch: number): void {
    for (let at = begin >> granularity << cellShift; at < end >> granularity << cellShift; at += 1 << cellShift) {
      const isPending = cells[at + cellField.writer] === this.#writer &&
        cells[at + cellField.writeEpoch] === pendingEpoch;
      if (isPending) cells[at + cellField.writeEpoch] = epoch;
    }
  }
}
