/**
 * The findings of one launch: mistakes of its threads, each counted once per instruction.
 *
 * @module
 */
import type { LaunchFinding } from "../../../kernel_checker.ts";

/** A finding without its count. */
export type KernelFinding = Omit<LaunchFinding, "count">;

/** Findings with their counts: many threads make the same mistake at the same instructions. */
export class Findings {
  readonly #found = new Map<string, { finding: KernelFinding; count: number }>();

  /**
   * Counts a finding.
   *
   * @param key identifies the finding: its kind and the instructions that cause it
   * @param describe called for the first occurrence only
   */
  add(key: string, describe: () => KernelFinding): void {
    const found = this.#found.get(key);
    if (found === undefined) this.#found.set(key, { finding: describe(), count: 1 });
    else found.count++;
  }

  /** Counts another occurrence of a finding that was added before. */
  countAgain(key: string): void {
    this.#found.get(key)!.count++;
  }

  /** Adds a finding with the number of its occurrences. */
  addCounted(key: string, finding: KernelFinding, count: number): void {
    this.#found.set(key, { finding, count });
  }

  /** All findings, in the order in which they were found. */
  toArray(): LaunchFinding[] {
    return [...this.#found.values()].map(({ finding, count }) => ({ ...finding, count }));
  }
}
