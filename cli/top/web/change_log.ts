import { type Row, rowsOf } from "../../status/rows.ts";
import { formatBytes } from "../../status/units.ts";
import type { Sample } from "../sampler.ts";
import { nameOfProcess, nameOfRow } from "./page_state.ts";

/** The number of changes that are kept. */
const maximumChanges = 100;

/** What has changed between two samples. */
export interface Change {
  /** The time of the second sample in milliseconds since 1970. */
  readonly time: number;
  readonly text: string;
}

/** The latest changes of what a listener shares, and of who holds it. */
export class ChangeLog {
  #changes: readonly Change[] = [];
  #last: Sample | undefined;
  #problem: string | undefined;

  /** The changes, the newest first. */
  get changes(): readonly Change[] {
    return this.#changes;
  }

  /** Adds what has changed since the last sample. */
  addSample(sample: Sample): void {
    const last = this.#last;
    if (this.#problem !== undefined) this.#add(["It answers again"], sample.time);
    if (last !== undefined) {
      const isSame = last.status.pid === sample.status.pid &&
        last.status.statistics.since === sample.status.statistics.since;
      this.#add(isSame ? changesIn(last, sample) : ["Another process listens"], sample.time);
    }
    this.#last = sample;
    this.#problem = undefined;
  }

  /** Adds why there is no sample, once. */
  addProblem(problem: string): void {
    if (problem !== this.#problem) this.#add([problem], Date.now());
    this.#problem = problem;
  }

  #add(texts: Iterable<string>, time: number): void {
    const added: Change[] = [];
    for (const text of texts) {
      added.unshift({ time, text });
      // The command line of each process is read: do so for no more of them than are kept.
      if (added.length === maximumChanges) break;
    }
    this.#changes = [...added, ...this.#changes].slice(0, maximumChanges);
  }
}

function* changesIn(before: Sample, after: Sample): Iterable<string> {
  const isVisible = after.status.pid === after.listenerPid;
  const [old, current] = [rowsByKey(before), rowsByKey(after)];
  for (const [key, row] of old) if (!current.has(key)) yield `${titleOf(row)} is gone`;
  for (const [key, row] of current) {
    const earlier = old.get(key);
    const title = titleOf(row);
    if (earlier === undefined) yield `${title} is new, ${formatBytes(row.byteLength)}`;
    else if (earlier.state !== row.state) yield `${title} is ${row.state === "" ? "published" : row.state}`;
    const [held, holders] = [statesByPid(earlier), statesByPid(row)];
    for (const [pid, state] of holders) {
      if (held.get(pid) !== state) yield `${title}: ${state} by ${nameOfProcess(pid, isVisible)}`;
    }
    for (const pid of held.keys()) {
      if (!holders.has(pid)) yield `${title}: no longer held by ${nameOfProcess(pid, isVisible)}`;
    }
    const [dropped, drops] = [before, after].map(({ channels }) => (channels.get(row.name)?.droppedPerSecond ?? 0) > 0);
    if (dropped !== drops) yield `${title} ${drops ? "drops" : "no longer drops"} frames`;
  }
}

/** Returns the rows of a sample. A new offer has another key than an earlier one of the same name. */
function rowsByKey({ status }: Sample): ReadonlyMap<string, Row> {
  return new Map(rowsOf(status).map((row) => [`${row.kind} ${row.generation ?? row.since} ${row.name}`, row]));
}

function titleOf(row: Row): string {
  return `${row.kind} ${nameOfRow(row)}`;
}

/** Returns how each process holds a row. */
function statesByPid(row: Row | undefined): ReadonlyMap<number, string> {
  return new Map(row?.holders.map(({ pid, state }) => [pid, state]));
}
