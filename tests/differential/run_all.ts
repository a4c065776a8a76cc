/**
 * Runs programs or operations in child processes, and continues after those that end their process.
 *
 * @module
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { startScript } from "../support/child_process.ts";
import { readFrames } from "./frames.ts";
import { batchSize, type Subject } from "./subjects.ts";
import type { Outcome } from "./trial.ts";

/** Milliseconds without progress after which a process counts as hanging. */
const hangTimeout = 45_000;

/** What to run, on which driver, and a callback for progress. */
export interface RunAllOptions {
  readonly driverName: string;
  readonly subject: Subject;
  readonly count: number;
  /** The first index to run. Default: 0. Those before it have no outcome. */
  readonly from?: number;
  readonly onProgress: (done: number) => void;
}

/** Returns the outcomes, by index. */
export async function runAll({ driverName, subject, count, from = 0, onProgress }: RunAllOptions): Promise<Outcome[]> {
  const folder = mkdtempSync(`${tmpdir()}/differential-`);
  const output = `${folder}/outcomes`;
  writeFileSync(output, "");
  const failed = new Map<number, Error>();
  try {
    let next = from;
    let alone = 0;
    while (next < count) {
      // After a failure, the trials of its batch run one by one.
      const end = alone > 0 ? Math.min(next + alone, count) : count;
      const ending = await runSome({
        driverName,
        subject,
        from: next,
        to: end,
        batch: alone > 0 ? 1 : batchSize,
        output,
      }, (done) => {
        next = done;
        onProgress(done);
      });
      if (next >= end) {
        alone = 0;
      } else if (alone > 0) {
        failed.set(next, new Error(ending));
        console.log(`${subject} ${next} ended its process: ${ending}`);
        alone = Math.max(0, end - next - 1);
        next++;
      } else {
        console.log(
          `One of ${subject} ${next} to ${next + batchSize - 1} ended the process, they are run one by one: ${ending}`,
        );
        alone = batchSize;
      }
    }
    const outcomes = readFrames(output);
    return Array.from(
      { length: count },
      (_, index) => outcomes.get(index) ?? failed.get(index) ?? new Error("There is no outcome"),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Range {
  readonly driverName: string;
  readonly subject: Subject;
  readonly from: number;
  readonly to: number;
  readonly batch: number;
  readonly output: string;
}

/** Runs a range in one process. Returns how the process ended. */
async function runSome(
  { driverName, subject, from, to, batch, output }: Range,
  onProgress: (done: number) => void,
): Promise<string> {
  const args = [driverName, subject, String(from), String(to), String(batch), output];
  await using child = startScript("differential/record_worker.ts", args, { permissions: ["--allow-all"] });
  let isLate = false;
  for (;;) {
    const timer = setTimeout(() => {
      isLate = true;
      child.kill("SIGKILL");
    }, hangTimeout);
    const line = await child.nextLine();
    clearTimeout(timer);
    if (line === undefined) break;
    onProgress(Number(line));
  }
  const end = await child.ended;
  return isLate
    ? `there was no progress for ${hangTimeout / 1000} s`
    : `${end}: ${(await child.errors()).trim().slice(0, 2000)}`;
}
