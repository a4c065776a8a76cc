import type { Result } from "./outcome.ts";
import { runInOwnProcess, runTogether } from "./run_in_own_process.ts";
import type { Situation } from "./situation.ts";
import { fileOf } from "./table.ts";

/** More processes would only wait for each other to create contexts. */
const maxProcesses = 16;
const concurrency = Math.min(Math.max(2, navigator.hardwareConcurrency), maxProcesses);
/** Batches to start ahead of the row that is waited for, so that a slow row leaves no processor idle. */
const batchesAhead = 8 * concurrency;

interface BatchOptions {
  readonly together: number;
  readonly mixed: boolean;
}

/** Runs rows concurrently and ahead of the tests that wait for them, up to a limit. */
export class RowsAhead {
  readonly #batches: readonly (readonly Situation[])[];
  readonly #driverName: string;
  readonly #results = new Map<readonly Situation[], Promise<Result[]>>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /**
   * Prepares rows for a driver. No row starts yet.
   *
   * @param options.together The number of rows that run in one process, one after the other.
   * @param options.mixed Whether they may be rows of several files.
   */
  constructor(situations: readonly Situation[], driverName: string, options: BatchOptions) {
    this.#batches = batchesOf(situations, options);
    this.#driverName = driverName;
  }

  /** Resolves with the result of a row. Starts the rows that follow it. */
  async resultOf(situation: Situation): Promise<Result> {
    const index = this.#batches.findIndex((batch) => batch.includes(situation));
    for (const next of this.#batches.slice(index, index + batchesAhead)) {
      if (this.#results.has(next)) continue;
      const results = this.#run(next);
      // The tests of these rows await the results later.
      results.catch(() => {});
      this.#results.set(next, results);
    }
    const batch = this.#batches[index]!;
    return (await this.#results.get(batch)!)[batch.indexOf(situation)]!;
  }

  async #run(batch: readonly Situation[]): Promise<Result[]> {
    if (this.#running === concurrency) await new Promise<void>((resolve) => this.#waiting.push(resolve));
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
        // The row's result in a process of its own tells more than a crash or a hang in a shared process. An answer
        // there is a failure nevertheless, because earlier rows must not affect later ones.
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

function batchesOf(situations: readonly Situation[], { together, mixed }: BatchOptions): Situation[][] {
  const batches: Situation[][] = [];
  for (const situation of situations) {
    const last = batches.at(-1);
    const fits = last !== undefined && last.length < together && (mixed || fileOf(last[0]!) === fileOf(situation));
    if (fits) last.push(situation);
    else batches.push([situation]);
  }
  return batches;
}

function isAnswer(result: Result): boolean {
  return !("crash" in result || "hang" in result || "failure" in result);
}
