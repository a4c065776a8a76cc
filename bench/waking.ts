/**
 * Measures what it costs to wait for another process in each runtime: how soon the waiting process wakes up, and how
 * much processor time waiting takes.
 *
 *     deno task bench:waking [--rounds 40] [--runtimes deno,bun,node]
 *
 * Needs no GPU, because it uses the software device. Runtimes are found by their names, or through the environment
 * variables POOLPASS_BUN and POOLPASS_NODE. Prints tables for each runtime and writes no files.
 *
 * @module
 */
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../examples/table.ts";
import { quantile } from "./channel/statistics.ts";
import { median, type Times } from "./measurement.ts";
import { commandIn } from "./runtimes.ts";
import { pauseMilliseconds, type WakingResult } from "./waking/results.ts";
import { answerHelp } from "../tests/support/program_help.ts";

answerHelp(import.meta.url, ["rounds", "runtimes"]);

const permissions = ["--allow-ffi", "--allow-run", "--allow-read", "--allow-write", "--allow-env"];

function measure(runtime: string, rounds: string): WakingResult {
  const program = fileURLToPath(new URL("./waking/measure.ts", import.meta.url));
  const [command, ...args] = commandIn(runtime, program, permissions);
  const { success, stdout } = new Deno.Command(command, { args: [...args, rounds], stderr: "inherit" }).outputSync();
  if (!success) throw new Error("it failed");
  return JSON.parse(new TextDecoder().decode(stdout));
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

const { rounds, runtimes } = parseArgs(Deno.args, {
  string: ["rounds", "runtimes"],
  default: { rounds: "40", runtimes: "deno,bun,node" },
});
console.log(`${cpus().length} cores of ${cpus()[0]?.model}`);
for (const runtime of runtimes.split(",")) {
  try {
    print(runtime, measure(runtime, rounds));
  } catch (error) {
    console.log(`\n${runtime}: not measured: ${error instanceof Error ? error.message : error}`);
  }
}
