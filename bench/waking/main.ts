/**
 * Measures what it costs to wait for another process in each runtime: how soon the waiting process wakes up, and how
 * much processor time waiting takes.
 *
 *     deno task bench waking [--rounds 40] [--runtimes deno,bun,node]
 *
 * Needs no GPU, because it uses the software device. Runtimes are found by their names, or through the environment
 * variables POOLPASS_BUN and POOLPASS_NODE. Prints tables for each runtime and writes no files.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { describeProcessor } from "../harness/machine.ts";
import { median, quantile, type Times } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { outputOf } from "../harness/programs.ts";
import { commandIn, inEachRuntime } from "../harness/runtimes.ts";
import { pauseMilliseconds, type WakingResult } from "./results.ts";

const permissions = ["--allow-ffi", "--allow-run", "--allow-read", "--allow-write", "--allow-env"];

async function measure(runtime: string, rounds: number): Promise<WakingResult> {
  const program = fileURLToPath(new URL("./measure.ts", import.meta.url));
  return JSON.parse(await outputOf([...commandIn(runtime, program, permissions), String(rounds)]));
}

function print(runtime: string, { waits, deaths, idle }: WakingResult): void {
  const pauses = pauseMilliseconds.map((pause) => pause === 0 ? "back to back" : `after a ${pause} ms pause`);
  const rows = Object.entries(waits).map(([name, perPause]) => [name, ...perPause.map(formatWaits)]);
  console.log(`\n${runtime}: milliseconds, median (99th percentile)\n`);
  console.log(formatTable([["", ...pauses], ...rows]));
  const deathRows = Object.entries(deaths).map(([name, times]) => [name, formatDeaths(times)]);
  console.log(`\n${formatTable([["milliseconds after a process is killed", "median (maximum)"], ...deathRows])}`);
  const idleRows = idle.map(({ connections, exporter, importer }) => [
    connections.toString(),
    formatShare(exporter),
    formatShare(importer),
  ]);
  console.log(`\n${formatTable([["idle connections, share of a processor", "exporter", "importer"], ...idleRows])}`);
}

function formatWaits(times: Times): string {
  return `${median(times).toFixed(3)} (${quantile(times, 0.99).toFixed(3)})`;
}

function formatDeaths(times: Times): string {
  return `${median(times).toFixed(2)} (${Math.max(...times).toFixed(2)})`;
}

function formatShare(share: number): string {
  return `${(share * 100).toFixed(2)} %`;
}

const { rounds, runtimes } = readOptions(import.meta.url, { rounds: 40, runtimes: "deno,bun,node" });
console.log(describeProcessor());
await inEachRuntime(runtimes, async (runtime) => print(runtime, await measure(runtime, rounds)));
