/**
 * Measures the speed of the software device, compared with the same loops in C.
 *
 *     deno task bench software [--only NAME] [--rounds 10]
 *
 * `--only` selects the rows whose names contain NAME. Prints tables and writes no files. Exits with 1 if a row cannot
 * be measured or its results differ from C's. A missed goal does not change the exit code.
 *
 * @module
 */
import { formatTable } from "../../examples/table.ts";
import { type Cuda, open, type SanitizerCheck } from "../../mod.ts";
import { reportFailures, rowOf } from "../harness/failures.ts";
import { describeProcessor, describeRuntime } from "../harness/machine.ts";
import { compareTimes, formatSpread, median } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { openWithoutBoundsChecks } from "./bounds_checks.ts";
import { type CLoops, loadCLoops } from "./c_loops.ts";
import { prepareWorkload } from "./prepared_workload.ts";
import { loadings, timeLoading } from "./loading.ts";
import { type Workload, workloads } from "./workloads.ts";

interface Options {
  readonly only: string;
  readonly rounds: number;
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
  const { ratio, cells } = compareTimes(runLoop, device.run, { rounds });
  device.assertEqual(arrays);
  const { goal } = workload;
  return goal === undefined ? [...cells] : [...cells, goal.toFixed(1), verdict(ratio >= goal)];
}

async function printWorkloads({ only, rounds }: Options): Promise<void> {
  const chosen = workloads.filter(({ name }) => name.includes(only));
  if (chosen.length === 0) return;
  using loaded = loadCLoops();
  const { loops } = loaded;
  console.log(`\n${loaded.compiler}\n`);
  using cuda = open({ driver: "software", softwareThreads: 1 });
  const rows = [["kernel", "C, ms", "software device, ms", "C / device", "goal", "met"]];
  for (const workload of chosen) {
    rows.push(await rowOf(workload.name, () => measureWorkload(workload, { cuda, loops, rounds })));
  }
  console.log(formatTable(rows));
}

async function printLoadings({ only, rounds }: Options): Promise<void> {
  const rows = [["first thing that a program does", "ms", "goal", "met"]];
  for (const loading of loadings.filter(({ name }) => name.includes(only))) {
    rows.push(
      await rowOf(loading.name, async () => {
        const times = await timeLoading(loading, { rounds });
        return [formatSpread(times), `< ${loading.goal}`, verdict(median(times) < loading.goal)];
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
  const { cells: [with_, without, ratio] } = compareTimes(withChecks.run, withoutChecks.run, { rounds });
  return [without, with_, ratio];
}

async function printBoundsChecks({ only, rounds }: Options): Promise<void> {
  const chosen = workloads.filter(({ name, goal }) => goal !== undefined && `bounds checks of ${name}`.includes(only));
  if (chosen.length === 0) return;
  const rows = [["cost of bounds checks", "without, ms", "with, ms", "with / without"]];
  try {
    using unchecked = openWithoutBoundsChecks();
    using checked = open({ driver: "software", softwareThreads: 1 });
    for (const workload of chosen) {
      rows.push(await rowOf(workload.name, () => measureBoundsChecks(workload, { checked, unchecked, rounds })));
    }
  } catch (error) {
    rows.push(await rowOf("all kernels", () => Promise.reject(error)));
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
  { plain, checking, rounds, goal }: { plain: Cuda; checking: Cuda; rounds: number; goal: number },
): string[] {
  using unchecked = prepareWorkload(plain.device(0), workload);
  using checked = prepareWorkload(checking.device(0), workload);
  const { cells: [, without, cell], ratio } = compareTimes(checked.run, unchecked.run, { rounds });
  return [without, cell, `<= ${goal}`, verdict(ratio <= goal)];
}

async function printChecks({ only, rounds }: Options): Promise<void> {
  using plain = open({ driver: "software", softwareThreads: 1 });
  for (const { name, sanitize, goal } of checks) {
    const rows = [[name, "without, ms", "with / without", "goal", "met"]];
    using checking = open({ driver: "software", softwareThreads: 1, sanitize });
    for (const workload of workloads) {
      if (!`${name} of ${workload.name}`.includes(only)) continue;
      rows.push(await rowOf(workload.name, () => measureCheck(workload, { plain, checking, rounds, goal })));
    }
    if (rows.length > 1) console.log(`\n${formatTable(rows)}`);
  }
}

const options = readOptions(import.meta.url, { only: "", rounds: 10 });
console.log(`${describeProcessor()}\n${describeRuntime()}`);
console.log(`medians of ${options.rounds} rounds, with minimum and maximum in parentheses`);
await printWorkloads(options);
await printLoadings(options);
await printBoundsChecks(options);
await printChecks(options);
reportFailures();
