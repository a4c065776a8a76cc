/**
 * Measures the overhead of poolpass: the same calls as native functions, as methods of the driver, and through the
 * public objects.
 *
 *     deno task bench overhead [--rounds 15] [--operations 30000] [--runtimes deno,bun,node]
 *     deno task bench overhead --gpu [--operations 500]
 *
 * Needs gcc but no GPU: the calls go to a stub of CUDA that does nothing, which is built from `cuda.c` into a
 * temporary folder. With `--gpu`, the calls go to the installed CUDA. Runtimes are found by their names, or through the
 * environment variables POOLPASS_BUN and POOLPASS_NODE. Prints tables and writes no files.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { describeProcessor } from "../harness/machine.ts";
import { median, type Times } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { outputOf } from "../harness/programs.ts";
import { commandIn, inEachRuntime } from "../harness/runtimes.ts";
import type { OverheadGarbage, OverheadTimes } from "./layers.ts";

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

/** Runs the measuring program in a runtime and resolves to its output. */
function run(
  runtime: string,
  { args, folder, v8Flags = "" }: { args: readonly (string | number)[]; folder?: string | undefined; v8Flags?: string },
): Promise<string> {
  const flags = v8Flags === "" ? [] : [`--v8-flags=${v8Flags}`];
  const command = commandIn(runtime, path("layers.ts"), ["--allow-ffi", ...flags]);
  return outputOf([...command, ...args.map(String)], { env: folder === undefined ? {} : { LD_LIBRARY_PATH: folder } });
}

async function printTimes(runtime: string, { rounds, operations, folder }: Options): Promise<void> {
  const args = ["times", rounds, operations];
  const measure = async (...more: string[]): Promise<OverheadTimes> =>
    JSON.parse(await run(runtime, { args: [...args, ...more], folder }));
  const times = await measure();
  const file = Deno.makeTempFileSync();
  const traced: OverheadTimes[] = [];
  for (const kernels of [[], ["kernels"]]) {
    Deno.removeSync(file);
    traced.push(await measure(file, ...kernels));
  }
  Deno.removeSync(file);
  const rows = Object.entries(times).map(([name, { raw, driver, objects }]) => {
    const least = [raw, objects, ...traced.map((each) => each[name]!.objects)].map((each) => Math.min(...each));
    const added = least.slice(1).map((time, index) => (time - least[index]!).toFixed(1));
    return [name, ...[raw, driver, objects].map(formatNanoseconds), ...added];
  });
  console.log(`\n${runtime}: nanoseconds per call\n`);
  const titles = ["", "native function", "driver's method", "objects", "objects add", "a trace adds", "times add"];
  console.log(formatTable([titles, ...rows]));
}

/**
 * Formats the median, with the minimum in parentheses: other programs on the same processors disturb the minimum less.
 */
function formatNanoseconds(times: Times): string {
  const [middle, least] = [median(times), Math.min(...times)].map((time) => time.toFixed(time < 100 ? 1 : 0));
  return `${middle} (${least})`;
}

async function printGarbage({ folder }: Options): Promise<void> {
  const args = ["garbage", 0, garbageOperations];
  const garbage: OverheadGarbage = JSON.parse(await run("deno", { args, folder, v8Flags: roomForGarbage }));
  const rows = Object.entries(garbage).map(([name, bytes]) => [name, Math.round(bytes).toString()]);
  console.log("\nbytes that each call leaves on the heap, including its options and rest arguments (deno)\n");
  console.log(formatTable(rows));
  const trace = await run("deno", { args: ["pairs", 0, pairs], folder, v8Flags: traceGarbage });
  const minor = trace.match(/\bScavenge\b/g)?.length ?? 0;
  const major = trace.match(/\bMark-Compact\b/g)?.length ?? 0;
  console.log(`\n${pairs} buffers allocated and freed: ${minor} minor collections, ${major} major`);
}

const { rounds, operations, runtimes, gpu } = readOptions(import.meta.url, {
  rounds: 15,
  operations: 0,
  runtimes: "deno,bun,node",
  gpu: false,
});
const folder = gpu ? undefined : Deno.makeTempDirSync();
try {
  if (folder !== undefined) {
    await outputOf(["gcc", "-O2", "-shared", "-fPIC", "-o", `${folder}/libcuda.so.1`, path("cuda.c")]);
  }
  const options = { rounds, operations: operations || (gpu ? 500 : 30_000), folder };
  console.log(
    `${describeProcessor()}; medians, with minimums in parentheses; what is added is a difference of minimums`,
  );
  await inEachRuntime(runtimes, (runtime) => printTimes(runtime, options));
  await printGarbage(options);
} finally {
  if (folder !== undefined) Deno.removeSync(folder, { recursive: true });
}
