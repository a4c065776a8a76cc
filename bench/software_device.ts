/**
 * Measures the speed of the software device, compared with the same loops in C.
 *
 *     deno task bench:software [--only NAME] [--rounds 10]
 *
 * `--only` selects the rows whose names contain NAME. Prints tables and writes no files. Exits with 1 if a row cannot
 * be measured or its results differ from C's. A missed goal does not change the exit code.
 *
 * @module
 */
import { availableParallelism, cpus } from "node:os";
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../examples/table.ts";
import { type Cuda, open, type SanitizerCheck } from "../mod.ts";
import { openWithoutBoundsChecks } from "./bounds_checks.ts";
import { type CLoops, loadCLoops } from "./c_loops.ts";
import { prepareWorkload } from "./prepared_workload.ts";
import { loadings, timeLoading } from "./loading.ts";
import { formatTimes, median, timeInterleaved } from "./measurement.ts";
import { type Workload, workloads } from "./workloads.ts";
import { answerHelp } from "../tests/support/program_help.ts";

answerHelp(import.meta.url, ["only", "rounds"]);

interface Options {
  readonly only: string;
  readonly rounds: number;
}

/** Why rows could not be measured, printed below all tables, one per line. */
const failures: string[] = [];

async function rowOf({ name }: { name: string }, measure: () => string[] | Promise<string[]>): Promise<string[]> {
  try {
    return [name, ...await measure()];
  } catch (error) {
    failures.push(`${name}: ${error instanceof Error ? error.message : error}`);
    return [name, "not measured"];
  }
}

function verdict(isMet: boolean): string {
  return isMet ? "yes" : "NO";
}

function measureWorkload(
  workload: Workload,
  { cuda, loops, rounds }: { cuda: Cuda; loops: CLoops; rounds: number },
): string[] {
  using device = prepareWorkload(cuda.device(0), workload);
  const arrays = workload.arrays();
  const runLoop = () => workload.loop(loops, arrays);
  runLoop();
  device.run();
  device.assertEqual(arrays);
  const [loopTimes, deviceTimes] = timeInterleaved([runLoop, device.run], { rounds });
  device.assertEqual(arrays);
  const ratio = median(loopTimes!) / median(deviceTimes!);
  const { goal } = workload;
  const cells = [formatTimes(loopTimes!), formatTimes(deviceTimes!), ratio.toFixed(2)];
  return goal === undefined ? cells : [...cells, goal.toFixed(1), verdict(ratio >= goal)];
}

async function printWorkloads({ only, rounds }: Options): Promise<void> {
  const chosen = workloads.filter(({ name }) => name.includes(only));
  if (chosen.length === 0) return;
  using loaded = loadCLoops();
  const { loops } = loaded;
  console.log(`\n${loaded.compiler}\n`);
  using cuda = open({ driver: "software" });
  const rows = [["kernel", "C, ms", "software device, ms", "C / device", "goal", "met"]];
  for (const workload of chosen) {
    rows.push(await rowOf(workload, () => measureWorkload(workload, { cuda, loops, rounds })));
  }
  console.log(formatTable(rows));
}

async function printLoadings({ only, rounds }: Options): Promise<void> {
  const rows = [["first thing that a program does", "ms", "goal", "met"]];
  for (const loading of loadings.filter(({ name }) => name.includes(only))) {
    rows.push(
      await rowOf(loading, async () => {
        const times = await timeLoading(loading, { rounds });
        return [formatTimes(times), `< ${loading.goal}`, verdict(median(times) < loading.goal)];
      }),
    );
  }
  if (rows.length > 1) console.log(`\n${formatTable(rows)}`);
}

function measureBoundsChecks(
  workload: Workload,
  { checked, unchecked, rounds }: { checked: Cuda; unchecked: Cuda; rounds: number },
): string[] {
  using withChecks = prepareWorkload(checked.device(0), workload);
  using withoutChecks = prepareWorkload(unchecked.device(0), workload);
  const [with_, without] = timeInterleaved([withChecks.run, withoutChecks.run], { rounds });
  return [formatTimes(without!), formatTimes(with_!), (median(with_!) / median(without!)).toFixed(2)];
}

async function printBoundsChecks({ only, rounds }: Options): Promise<void> {
  const chosen = workloads.filter(({ name, goal }) => goal !== undefined && `bounds checks of ${name}`.includes(only));
  if (chosen.length === 0) return;
  const rows = [["cost of bounds checks", "without, ms", "with, ms", "with / without"]];
  try {
    using unchecked = openWithoutBoundsChecks();
    using checked = open({ driver: "software" });
    for (const workload of chosen) {
      rows.push(await rowOf(workload, () => measureBoundsChecks(workload, { checked, unchecked, rounds })));
    }
  } catch (error) {
    rows.push(await rowOf({ name: "all kernels" }, () => Promise.reject(error)));
  }
  console.log(`\n${formatTable(rows)}`);
}

/** Checks of kernels that are measured together, and how many times as long kernels may take with them. */
interface MeasuredChecks {
  readonly name: string;
  readonly sanitize: true | readonly SanitizerCheck[];
  readonly goal: number;
}

const checks: readonly MeasuredChecks[] = [
  { name: "check memory", sanitize: ["memory"], goal: 3 },
  { name: "check initialization", sanitize: ["initialization"], goal: 8 },
  { name: "check race", sanitize: ["race"], goal: 12 },
  { name: "all checks", sanitize: true, goal: 20 },
];

function measureCheck(
  workload: Workload,
  { plain, checking, rounds }: { plain: Cuda; checking: Cuda; rounds: number },
): [times: string, ratio: number] {
  using unchecked = prepareWorkload(plain.device(0), workload);
  using checked = prepareWorkload(checking.device(0), workload);
  const [without, with_] = timeInterleaved([unchecked.run, checked.run], { rounds });
  return [`${formatTimes(without!)}`, median(with_!) / median(without!)];
}

async function printChecks({ only, rounds }: Options): Promise<void> {
  using plain = open({ driver: "software" });
  for (const { name, sanitize, goal } of checks) {
    const rows = [[name, "without, ms", "with / without", "goal", "met"]];
    using checking = open({ driver: "software", sanitize });
    for (const workload of workloads) {
      if (!`${name} of ${workload.name}`.includes(only)) continue;
      rows.push(
        await rowOf(workload, () => {
          const [times, ratio] = measureCheck(workload, { plain, checking, rounds });
          return [times, ratio.toFixed(2), `<= ${goal}`, verdict(ratio <= goal)];
        }),
      );
    }
    if (rows.length > 1) console.log(`\n${formatTable(rows)}`);
  }
}

function parseOptions(args: readonly string[]): Options {
  const { only, rounds, _: rest, ...unknown } = parseArgs([...args], {
    string: ["only", "rounds"],
    default: { only: "", rounds: "10" },
  });
  const count = Number(rounds);
  const isKnown = rest.length === 0 && Object.keys(unknown).length === 0;
  if (!isKnown || !Number.isInteger(count) || count < 1) {
    throw new TypeError("Cannot parse the arguments: usage: deno task bench:software [--only NAME] [--rounds 10]");
  }
  return { only, rounds: count };
}

const options = parseOptions(Deno.args);
console.log(`${cpus()[0]?.model ?? "unknown processor"}, ${availableParallelism()} cores`);
console.log(`Deno ${Deno.version.deno}, V8 ${Deno.version.v8}, ${Deno.build.target}`);
console.log(`medians of ${options.rounds} rounds, with minimum and maximum in parentheses`);
await printWorkloads(options);
await printLoadings(options);
await printBoundsChecks(options);
await printChecks(options);
if (failures.length > 0) {
  console.log(`\nNot measured:\n${failures.join("\n")}`);
  Deno.exitCode = 1;
}
