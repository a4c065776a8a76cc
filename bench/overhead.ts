/**
 * Measures the overhead of poolpass: the same calls as native functions, as methods of the driver, and through the
 * public objects.
 *
 *     deno task bench:overhead [--rounds 15] [--operations 30000] [--runtimes deno,bun,node]
 *     deno task bench:overhead --gpu [--operations 500]
 *
 * Needs gcc but no GPU: the calls go to a stub of CUDA that does nothing, which is built from `stub/cuda.c` into a
 * temporary folder. With `--gpu`, the calls go to the installed CUDA. Runtimes are found by their names, or through the
 * environment variables POOLPASS_BUN and POOLPASS_NODE. Prints tables and writes no files.
 *
 * @module
 */
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../examples/table.ts";
import { median, type Times } from "./measurement.ts";
import type { OverheadGarbage, OverheadTimes } from "./overhead_layers.ts";
import { commandIn } from "./runtimes.ts";
import { answerHelp } from "../tests/support/program_help.ts";

answerHelp(import.meta.url, ["rounds", "operations", "runtimes", "gpu"]);

interface Options {
  readonly rounds: number;
  readonly operations: number;
  /** The folder of the stub; undefined to use the installed CUDA. */
  readonly folder: string | undefined;
}

/** V8 flags: a heap that needs no collection while garbage is counted, and a trace of the collections. */
const roomForGarbage = "--min-semi-space-size=512,--max-semi-space-size=512";
const traceGarbage = "--trace-gc";
const garbageOperations = 20_000;
const pairs = 1_000_000;

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

function buildStub(folder: string): void {
  const args = ["-O2", "-shared", "-fPIC", "-o", `${folder}/libcuda.so.1`, path("stub/cuda.c")];
  const { success } = new Deno.Command("gcc", { args, stderr: "inherit" }).outputSync();
  if (!success) throw new Error("Cannot build libcuda.so.1: gcc failed");
}

/** Runs the measuring program in a runtime and returns its output. */
function run(
  runtime: string,
  { args, folder, v8Flags = "" }: { args: readonly (string | number)[]; folder?: string | undefined; v8Flags?: string },
): string {
  const flags = v8Flags === "" ? [] : [`--v8-flags=${v8Flags}`];
  const [command, ...commandArgs] = commandIn(runtime, path("overhead_layers.ts"), ["--allow-ffi", ...flags]);
  const { success, stdout } = new Deno.Command(command, {
    args: [...commandArgs, ...args.map(String)],
    env: folder === undefined ? {} : { LD_LIBRARY_PATH: folder },
    stderr: "inherit",
  }).outputSync();
  if (!success) throw new Error("it failed");
  return new TextDecoder().decode(stdout);
}

function printTimes(runtime: string, { rounds, operations, folder }: Options): void {
  const times: OverheadTimes = JSON.parse(run(runtime, { args: ["times", rounds, operations], folder }));
  const rows = Object.entries(times).map(([name, { raw, driver, objects }]) => {
    const added = Math.min(...objects) - Math.min(...raw);
    return [name, formatNanoseconds(raw), formatNanoseconds(driver), formatNanoseconds(objects), added.toFixed(1)];
  });
  console.log(`\n${runtime}: nanoseconds per call\n`);
  console.log(formatTable([["", "native function", "driver's method", "objects", "objects add"], ...rows]));
}

/**
 * Formats the median, with the minimum in parentheses: other programs on the same processors disturb the minimum less.
 */
function formatNanoseconds(times: Times): string {
  const [middle, least] = [median(times), Math.min(...times)].map((time) => time.toFixed(time < 100 ? 1 : 0));
  return `${middle} (${least})`;
}

function printGarbage({ folder }: Options): void {
  const args = ["garbage", 0, garbageOperations];
  const garbage: OverheadGarbage = JSON.parse(run("deno", { args, folder, v8Flags: roomForGarbage }));
  const rows = Object.entries(garbage).map(([name, bytes]) => [name, Math.round(bytes).toString()]);
  console.log("\nbytes that each call leaves on the heap, including its options and rest arguments (deno)\n");
  console.log(formatTable(rows));
  const trace = run("deno", { args: ["pairs", 0, pairs], folder, v8Flags: traceGarbage });
  const minor = trace.match(/\bScavenge\b/g)?.length ?? 0;
  const major = trace.match(/\bMark-Compact\b/g)?.length ?? 0;
  console.log(`\n${pairs} buffers allocated and freed: ${minor} minor collections, ${major} major`);
}

const { rounds, operations, runtimes, gpu } = parseArgs(Deno.args, {
  string: ["rounds", "operations", "runtimes"],
  boolean: ["gpu"],
  default: { rounds: "15", runtimes: "deno,bun,node" },
});
const folder = gpu ? undefined : Deno.makeTempDirSync();
try {
  if (folder !== undefined) buildStub(folder);
  const options = { rounds: Number(rounds), operations: Number(operations ?? (gpu ? 500 : 30_000)), folder };
  console.log(
    `${cpus()[0]?.model}; medians, with minimums in parentheses; "objects add" is a difference of minimums`,
  );
  for (const runtime of runtimes.split(",")) {
    try {
      printTimes(runtime, options);
    } catch (error) {
      console.log(`\n${runtime}: not measured: ${error instanceof Error ? error.message : error}`);
    }
  }
  printGarbage(options);
} finally {
  if (folder !== undefined) Deno.removeSync(folder, { recursive: true });
}
