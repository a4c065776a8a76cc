/**
 * The mistakes that are found in a launch.
 *
 * @module
 */
import type { LaunchFinding } from "../../../kernel_checker.ts";

/** A mistake, before it is counted. */
export type Finding = Omit<LaunchFinding, "count">;

/** Mistakes, each once with a count: the same instructions make the same mistake in many threads. */
export class Findings {
  readonly #found = new Map<string, { finding: Finding; count: number }>();

  /**
   * Counts a mistake.
   *
   * @param key the same for all that are one mistake: its kind, and the instructions that make it
   * @param describe called if it is the first
   */
  add(key: string, describe: () => Finding): void {
    const found = this.#found.get(key);
    if (found === undefined) this.#found.set(key, { finding: describe(), count: 1 });
    else found.count++;
  }

  /** Counts a mistake that was added before. */
  countAgain(key: string): void {
    this.#found.get(key)!.count++;
  }

  /** Adds a mistake that was made so many times. */
  addCounted(key: string, finding: Finding, count: number): void {
    this.#found.set(key, { finding, count });
  }

  /** All of them, in the order in which they were found. */
  toArray(): LaunchFinding[] {
    return [...this.#found.values()].map(({ finding, count }) => ({ ...finding, count }));
  }
}
