/**
 * Records the outcomes of asynchronous copies. After a fault, which ends the use of a GPU, another process goes on. With
 * `--compare`, prints what a GPU and the software device differ in; with `--save`, writes the outcomes to recorded.json.
 * A case is given by a part of its name:
 *
 *     deno run -A tests/objects/copies/record.ts [--driver cuda] [--save] [CASE...]
 *     deno run -A tests/objects/copies/record.ts --compare [CASE...]
 *
 * @module
 */
import process from "node:process";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { open } from "../../../mod.ts";
import { answerHelp } from "../../support/program_help.ts";
import { cases, type Outcome, outcomeOf } from "./cases.ts";
import { condensed } from "./recorded.ts";

answerHelp(import.meta.url, ["driver", "here", "compare", "save"]);

/** Prints the outcomes of cases as lines of JSON, in this process, until one ends the use of the device. */
function record(names: readonly string[], driver: "cuda" | "software"): void {
  const gpu = open({ driver }).device(0);
  for (const name of names) {
    const outcome = outcomeOf(gpu, name);
    console.log(JSON.stringify(outcome));
    if (outcome.isLost) return;
  }
}

/** Runs cases in processes, each of which goes on until a case ends the use of the device, and returns the outcomes. */
async function outcomesOf(names: readonly string[], driver: "cuda" | "software"): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  while (outcomes.length < names.length) {
    const script = [fileURLToPath(import.meta.url), "--driver", driver, "--here", ...names.slice(outcomes.length)];
    const run = promisify(execFile)(process.execPath, ["run", "-A", "--no-check", ...script], { timeout: 30_000 });
    const { stdout, code } = await run.catch((error: { stdout: string; code: unknown }) => error) as {
      stdout: string;
      code?: unknown;
    };
    const lines = stdout.trim().split("\n").filter((line) => line.startsWith("{"));
    outcomes.push(...lines.map((line) => JSON.parse(line) as Outcome));
    if (code === undefined && lines.length > 0) continue;
    const name = names[outcomes.length];
    if (name !== undefined) outcomes.push({ name, outcome: `ended with ${code}` });
  }
  return outcomes;
}

/** Runs all cases, some at a time, and returns the outcomes in the order of the cases. */
async function allOutcomes(names: readonly string[], driver: "cuda" | "software"): Promise<Outcome[]> {
  const groups = Array.from(
    { length: Math.ceil(names.length / 8) },
    (_, group) => names.slice(8 * group, 8 * group + 8),
  );
  const results: Outcome[][] = [];
  const next = groups.entries();
  const runGroups = async () => {
    for (const [index, group] of next) results[index] = await outcomesOf(group, driver);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, runGroups));
  return results.flat();
}

const args = process.argv.slice(2);
const isComparison = args[0] === "--compare" && args.shift() !== undefined;
const driver = args[0] === "--driver" ? args.splice(0, 2)[1] as "cuda" : "software";
if (args[0] === "--here") {
  record(args.slice(1), driver);
  process.exit(0);
}
const saves = args[0] === "--save" && args.shift() !== undefined;
const names = args.length > 0
  ? Object.keys(cases).filter((name) => args.some((part) => name.includes(part)))
  : Object.keys(cases);
if (isComparison) {
  const [onGpu, onSoftware] = [await allOutcomes(names, "cuda"), await allOutcomes(names, "software")];
  const different = onGpu.flatMap((cuda, index) =>
    cuda.outcome === onSoftware[index]!.outcome ? [] : [{ name: cuda.name, cuda, software: onSoftware[index]! }]
  );
  console.log(JSON.stringify({ same: names.length - different.length, different, onGpu }, undefined, 1));
} else {
  const outcomes = await allOutcomes(names, driver);
  for (const outcome of outcomes) console.log(JSON.stringify(outcome));
  if (saves) {
    const recorded = Object.fromEntries(outcomes.map(({ name, outcome }) => [name, condensed(outcome)]));
    writeFileSync(new URL("recorded.json", import.meta.url), `${JSON.stringify(recorded, undefined, 2)}\n`);
  }
}
