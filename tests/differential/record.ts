// Records the answers of the real driver: deno run -A tests/differential/record.ts FOLDER [--driver cuda] [--programs
// 3500]
//
// Writes programs.json, operations.json and operations.br to FOLDER; they belong in tests/differential/recorded. Also
// writes programs_*.gz, which compare.ts uses to locate differences and which are not kept. With --only programs or
// --only operations, records only those. With --missing, runs only the programs behind those that have an answer. With
// --compare, also compares the software device, as compare.ts does.
import { mkdirSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { loadDriver } from "../conformance/load_driver.ts";
import { compareWithRecorded } from "./compare_with_recorded.ts";
import { operations } from "./operations.ts";
import { type Machine, readPrograms, writeOperations, writeProgramOutputs, writePrograms } from "./recording.ts";
import { runAll } from "./run_all.ts";
import { type Subject, trialOf } from "./subjects.ts";
import { operationAnswer, type Outcome, programAnswer, questionOf } from "./trial.ts";

const { values: options, positionals: [folder, ...surplus] } = parseArgs({
  args: process.argv.slice(2),
  options: {
    driver: { type: "string", default: "cuda" },
    programs: { type: "string", default: "3500" },
    missing: { type: "boolean", default: false },
    only: { type: "string" },
    compare: { type: "boolean", default: false },
  },
  allowPositionals: true,
});
const isKnownSubject = options.only === undefined || options.only === "programs" || options.only === "operations";
if (folder === undefined || surplus.length > 0 || !isKnownSubject || !(Number(options.programs) > 0)) {
  console.error(
    "Usage: deno run -A tests/differential/record.ts FOLDER [--driver cuda] [--programs 3500] " +
      "[--only programs|operations] [--missing] [--compare]",
  );
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const machine = await describeMachine();
console.log(`Recording on ${machine.device}, CUDA ${machine.cuda}`);
if (options.only !== "programs") await recordOperations(folder);
if (options.only !== "operations") await recordPrograms(folder, Number(options.programs));
if (options.compare) compareWithRecorded(folder);

async function recordOperations(folder: string): Promise<void> {
  const outcomes = await run("operations", operations.length);
  const answers: Record<string, string> = {};
  const results: Uint8Array[] = [];
  outcomes.forEach((outcome, index) => {
    if (outcome instanceof Error) return;
    answers[operations[index]!.name] = operationAnswer(trialOf("operations", index), outcome);
    results.push(outcome);
  });
  writeOperations(folder, { ...machine, answers }, results);
}

async function recordPrograms(folder: string, count: number): Promise<void> {
  const kept = options.missing ? answersBefore() : [];
  const outcomes = await run("programs", count, kept.length);
  const answers = outcomes.map((outcome, seed) =>
    kept[seed] ?? (outcome instanceof Error ? "failed" : programAnswer(trialOf("programs", seed), outcome))
  );
  writePrograms(folder, { ...machine, answers });
  writeProgramOutputs(folder, outcomes.map((outcome) => outcome instanceof Error ? undefined : outcome));
}

/** The answers in the repository, up to the first one to another program. */
function answersBefore(): readonly string[] {
  const { answers = [] } = readPrograms() ?? {};
  const end = answers.findIndex((answer, seed) => !answer.startsWith(questionOf(trialOf("programs", seed))));
  return end === -1 ? answers : answers.slice(0, end);
}

async function run(subject: Subject, count: number, from = 0): Promise<Outcome[]> {
  const begin = performance.now();
  let shown = begin;
  const seconds = () => ((performance.now() - begin) / 1000).toFixed(1);
  const outcomes = await runAll({
    driverName: options.driver,
    subject,
    count,
    from,
    onProgress(done) {
      if (performance.now() - shown < 5000) return;
      shown = performance.now();
      console.log(`${done} of ${count} ${subject} after ${seconds()} s`);
    },
  });
  const failures = outcomes.flatMap((outcome, index) =>
    index >= from && outcome instanceof Error ? [{ index, outcome }] : []
  );
  console.log(`${count - from - failures.length} of ${count - from} ${subject} have an answer after ${seconds()} s`);
  for (const { index, outcome } of failures.slice(0, 50)) {
    const name = subject === "operations" ? operations[index]!.name : `seed ${index}`;
    console.log(`No answer: ${name}: ${outcome.message}`);
  }
  if (failures.length > 50) console.log(`No answer: ${failures.length - 50} more`);
  if (failures.length > 0) process.exitCode = 1;
  return outcomes;
}

async function describeMachine(): Promise<Machine> {
  const driver = (await loadDriver(options.driver))();
  const cuda = driver.driverGetVersion();
  const device = driver.deviceGetName(0);
  driver.close();
  return { cuda, device, date: new Date().toISOString().slice(0, "YYYY-MM-DD".length) };
}
