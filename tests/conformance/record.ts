/**
 * Records the answers of the real driver:
 *
 *     deno run -A tests/conformance/record.ts OUTPUT [--driver cuda] [--missing]
 *
 * Writes a recording of every row to OUTPUT. With --missing, only rows without an answer in recorded.json run. Rows
 * that do not run keep their answer, as do rows that need more devices than there are.
 *
 * @module
 */
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { loadDriver } from "./load_driver.ts";
import { type Equipment, equipmentOf, reasonNotToRun } from "./needs.ts";
import { isSame, type Outcome, type Result } from "./outcome.ts";
import { readRecording, type Recording } from "./recording.ts";
import { runEach } from "./run_in_own_process.ts";
import type { Situation } from "./situation.ts";
import { situations } from "./table.ts";
import { answerHelp } from "../support/program_help.ts";

answerHelp(import.meta.url, ["driver", "missing"]);

type Machine = Omit<Recording, "answers" | "date"> & { readonly devices: number };

const { output, driverName, onlyMissing } = readArguments(process.argv.slice(2));
const before = readRecording();
const { machine, equipment } = await describeMachine();
const isRun = (situation: Situation) =>
  !reasonNotToRun(situation, equipment) && !(onlyMissing && situation.name in before.answers);
const rows = situations.filter(isRun);
const results = new Map<string, Result>();
await runEach(rows, driverName, {
  concurrency: Math.max(1, Math.floor(navigator.hardwareConcurrency / 2)),
  onResult({ name }, result) {
    results.set(name, result);
    console.log(`${results.size}/${rows.length} ${name}: ${JSON.stringify(result)}`);
  },
});

const answers: Record<string, Outcome> = {};
const failed: string[] = [];
for (const situation of situations) {
  const { name } = situation;
  const result: Result | undefined = isRun(situation) ? results.get(name) : before.answers[name];
  if (result === undefined) continue;
  if ("failure" in result) failed.push(name);
  else answers[name] = result;
}
const isKept = situations.some((situation) => !isRun(situation) && situation.name in answers);
const devices = isKept ? Math.max(machine.devices, before.devices ?? 0) : machine.devices;
const date = new Date().toISOString().slice(0, "YYYY-MM-DD".length);
const recording: Recording = { ...machine, devices, date, answers };
writeFileSync(output, JSON.stringify(recording, null, 2) + "\n");
console.log(`${output} has answers for ${Object.keys(answers).length} of ${situations.length} rows`);
for (const [name, result] of results) {
  if ("crash" in result || "hang" in result) console.log(`No reliable answer, ${JSON.stringify(result)}: ${name}`);
  const earlier = before.answers[name];
  if (earlier !== undefined && !isSame(earlier, result)) console.log(`Differs from recorded.json: ${name}`);
}
if (failed.length > 0) {
  console.error(`${failed.length} rows are broken and were not recorded: ${failed.join("; ")}`);
  process.exitCode = 1;
}

function readArguments(args: string[]): { output: string; driverName: string; onlyMissing: boolean } {
  const { values, positionals: [output, ...surplus] } = parseArgs({
    args,
    options: { driver: { type: "string", default: "cuda" }, missing: { type: "boolean", default: false } },
    allowPositionals: true,
  });
  if (output === undefined || surplus.length > 0) {
    console.error("Usage: deno run -A tests/conformance/record.ts OUTPUT [--driver cuda] [--missing]");
    process.exit(2);
  }
  return { output, driverName: values.driver, onlyMissing: values.missing };
}

async function describeMachine(): Promise<{ machine: Machine; equipment: Equipment }> {
  const driver = (await loadDriver(driverName))();
  const equipment = equipmentOf(driver);
  const version = kernelModuleVersion();
  const machine = {
    ...version !== undefined && { driver: version },
    cuda: driver.driverGetVersion(),
    device: driver.deviceGetName(0),
    devices: equipment.devices,
  };
  driver.close();
  return { machine, equipment };
}

function kernelModuleVersion(): string | undefined {
  try {
    return /Kernel Module.*?\s(\d+(?:\.\d+)+)\s/.exec(readFileSync("/proc/driver/nvidia/version", "utf8"))?.[1];
  } catch {
    return undefined;
  }
}
