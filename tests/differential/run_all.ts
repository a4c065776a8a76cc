/**
 * Runs programs or operations in processes of their own, and goes on after those that end such a process.
 *
 * @module
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { startScript } from "../support/child_process.ts";
import { readFrames } from "./frames.ts";
import { batchSize, type Subject } from "./subjects.ts";
import type { Outcome } from "./trial.ts";

/** Milliseconds without any news after which a process is taken to hang. */
const patience = 45_000;

/** What is run, on what, and who is told how far it has come. */
export interface RunAllOptions {
  readonly driverName: string;
  readonly subject: Subject;
  readonly count: number;
  readonly onProgress: (done: number) => void;
}

/** What came of each, by its index. */
export async function runAll({ driverName, subject, count, onProgress }: RunAllOptions): Promise<Outcome[]> {
  const folder = mkdtempSync(`${tmpdir()}/differential-`);
  const output = `${folder}/outcomes`;
  writeFileSync(output, "");
  const failed = new Map<number, Error>();
  try {
    let next = 0;
    let alone = 0;
    while (next < count) {
      // After a failure the batch that it was in is run one by one.
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
      (_, index) => outcomes.get(index) ?? failed.get(index) ?? new Error("It has no outcome"),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Part {
  readonly driverName: string;
  readonly subject: Subject;
  readonly from: number;
  readonly to: number;
  readonly batch: number;
  readonly output: string;
}

/** Says how the process ended. */
async function runSome(
  { driverName, subject, from, to, batch, output }: Part,
  onProgress: (done: number) => void,
): Promise<string> {
  const args = [driverName, subject, String(from), String(to), String(batch), output];
  await using child = startScript("differential/record_worker.ts", args, { permissions: ["--allow-all"] });
  let isLate = false;
  for (;;) {
    const timer = setTimeout(() => {
      isLate = true;
      child.kill("SIGKILL");
    }, patience);
    const line = await child.nextLine();
    clearTimeout(timer);
    if (line === undefined) break;
    onProgress(Number(line));
  }
  const end = await child.ended;
  return isLate
    ? `it gave no sign for ${patience / 1000} s`
    : `${end}: ${(await child.errors()).trim().slice(0, 2000)}`;
}
