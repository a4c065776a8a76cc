import type { Result } from "./outcome.ts";
import { runInOwnProcess, runTogether } from "./run_in_own_process.ts";
import type { Situation } from "./situation.ts";
import { fileOf } from "./table.ts";

/** More processes than this would only wait for one another's contexts. */
const mostAtOnce = 16;
const atOnce = Math.min(Math.max(2, navigator.hardwareConcurrency), mostAtOnce);
/** So far ahead of the row that is waited for: a slow one must not leave processors idle. */
const processesAhead = 8 * atOnce;

/** Rows that run several at once, ahead of the tests that wait for them, and no further than those may get. */
export class RowsAhead {
  readonly #batches: readonly (readonly Situation[])[];
  readonly #driverName: string;
  readonly #results = new Map<readonly Situation[], Promise<Result[]>>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /**
   * Of a driver; none is started yet.
   *
   * @param options.together So many rows of a file run in one process, one after the other.
   */
  constructor(situations: readonly Situation[], driverName: string, { together }: { together: number }) {
    this.#batches = batchesOf(situations, together);
    this.#driverName = driverName;
  }

  /** Resolves with what came of a row, and has those that follow it started. */
  async resultOf(situation: Situation): Promise<Result> {
    const index = this.#batches.findIndex((batch) => batch.includes(situation));
    for (const next of this.#batches.slice(index, index + processesAhead)) {
      if (this.#results.has(next)) continue;
      const results = this.#run(next);
      // They are awaited by their own tests, which come later.
      results.catch(() => {});
      this.#results.set(next, results);
    }
    const batch = this.#batches[index]!;
    return (await this.#results.get(batch)!)[batch.indexOf(situation)]!;
  }

  async #run(batch: readonly Situation[]): Promise<Result[]> {
    if (this.#running === atOnce) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await this.#resultsOf(batch);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }

  async #resultsOf(batch: readonly Situation[]): Promise<Result[]> {
    const results: Result[] = [];
    while (results.length < batch.length) {
      const rest = batch.slice(results.length);
      const found = await runTogether(rest, this.#driverName);
      const last = found.at(-1)!;
      if (found.length > 1 && !isAnswer(last)) {
        // Its own answer is of more use than that, but what ran there before must not matter either.
        const alone = await runInOwnProcess(rest[found.length - 1]!, this.#driverName);
        const before = rest.slice(0, found.length - 1).map(({ name }) => name).join("; ");
        const failure = `${JSON.stringify(last)} in one process after: ${before}; alone ${JSON.stringify(alone)}`;
        found[found.length - 1] = isAnswer(alone) ? { failure } : alone;
      }
      results.push(...found);
    }
    return results;
  }
}

function batchesOf(situations: readonly Situation[], most: number): Situation[][] {
  const batches: Situation[][] = [];
  for (const situation of situations) {
    const last = batches.at(-1);
    if (last !== undefined && last.length < most && fileOf(last[0]!) === fileOf(situation)) last.push(situation);
    else batches.push([situation]);
  }
  return batches;
}

function isAnswer(result: Result): boolean {
  return !("crash" in result || "hang" in result || "failure" in result);
}
