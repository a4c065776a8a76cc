import type { Result } from "./outcome.ts";
import { runInOwnProcess } from "./run_in_own_process.ts";
import type { Situation } from "./situation.ts";

/** More processes than this would only wait for one another's contexts. */
const mostAtOnce = 16;
const atOnce = Math.min(Math.max(2, navigator.hardwareConcurrency), mostAtOnce);
/** So far ahead of the row that is waited for: a slow one must not leave processors idle. */
const rowsAhead = 8 * atOnce;

/** Rows that run several at once, ahead of the tests that wait for them, and no further than those may get. */
export class RowsAhead {
  readonly #situations: readonly Situation[];
  readonly #driverName: string;
  readonly #results = new Map<Situation, Promise<Result>>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** Of a driver; none is started yet. */
  constructor(situations: readonly Situation[], driverName: string) {
    this.#situations = situations;
    this.#driverName = driverName;
  }

  /** Resolves with what came of a row, and has those that follow it started. */
  resultOf(situation: Situation): Promise<Result> {
    const index = this.#situations.indexOf(situation);
    for (const next of this.#situations.slice(index, index + rowsAhead)) {
      if (this.#results.has(next)) continue;
      const result = this.#run(next);
      // It is awaited by its own test, which comes later.
      result.catch(() => {});
      this.#results.set(next, result);
    }
    return this.#results.get(situation)!;
  }

  async #run(situation: Situation): Promise<Result> {
    if (this.#running === atOnce) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await runInOwnProcess(situation, this.#driverName);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}
