/**
 * Measures the software device on several cores: each workload with several numbers of threads, launches that are too
 * short for several threads, timers while a kernel runs, and all cores beside C with OpenMP and POCL.
 *
 *     deno task bench cores [--threads 1,2] [--runtimes deno] [--only NAME] [--rounds 10] [--beside CHECKOUT]
 *
 * `--threads` has 1 and the number of cores unless it is given, `--only` selects the rows whose names contain NAME, and
 * `--beside` also measures another checkout of poolpass, such as one of an earlier commit, with the last number of
 * threads. A speedup is a quotient of medians, with that of minimums in parentheses, which other programs on the machine
 * disturb less. The comparison with C needs gcc, and that with POCL what `deno task bench opencl` needs; both are left out
 * where something is missing. Runtimes are found by their names, or through the environment variables POOLPASS_BUN and
 * POOLPASS_NODE. Prints tables and writes no files. Exits with 1 if a row cannot be measured or results differ. A missed
 * goal does not change the exit code.
 *
 * @module
 */
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { open } from "../../mod.ts";
import type { Contender } from "../harness/contender.ts";
import { reportFailures, rowOf } from "../harness/failures.ts";
import { describeProcessor } from "../harness/machine.ts";
import { formatSpread, median } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { outputOf, Programs } from "../harness/programs.ts";
import { commandIn, inEachRuntime } from "../harness/runtimes.ts";
import { loadNatives, measureBesideNatives, nativeColumns, nativeWorkloads } from "./native.ts";
import type { CoresAnswer, CoresRequest } from "./program.ts";
import { shortLaunches } from "./short_launches.ts";
import { coresWorkloads, goalOf } from "./workloads.ts";

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** A checkout and a number of threads, which a program runs with. */
interface Configuration {
  readonly checkout: string;
  readonly threads: number;
  /** What the columns of tables are called. */
  readonly name: string;
}

/** A program that runs with a configuration. */
interface Running extends Configuration {
  readonly contender: Contender;
}

interface Measurement {
  readonly runtime: string;
  readonly running: readonly Running[];
}

const { threads, runtimes, only, rounds, beside } = readOptions(import.meta.url, {
  threads: [...new Set([1, availableParallelism()])].join(),
  runtimes: "deno",
  only: "",
  rounds: 10,
  beside: "",
});

function configurations(): Configuration[] {
  const counts = threads.split(",").map(Number);
  const own = counts.map((count) => ({
    checkout: path("../.."),
    threads: count,
    name: count === 1 ? "1 thread" : `${count} threads`,
  }));
  return beside === "" ? own : [...own, { checkout: resolve(beside), threads: counts.at(-1)!, name: "beside" }];
}

const isChosen = ({ name }: { name: string }) => name.includes(only);

/**
 * The number of untimed rounds of each kind of request. The workers start during the first ones of a workload, and then
 * compile what they run.
 */
const untimedRounds: Readonly<Record<CoresRequest["kind"], number>> = { workload: 12, launches: 4, timers: 3 };

/** Asks all programs in turn, in each round. Resolves to the answers of each program. */
async function askInTurn(running: readonly Running[], request: CoresRequest, count: number): Promise<CoresAnswer[][]> {
  const answers = running.map((): CoresAnswer[] => []);
  for (let round = 1 - untimedRounds[request.kind]; round <= count; round++) {
    for (const [index, { contender }] of running.entries()) {
      const answer = await contender.ask<CoresAnswer>(JSON.stringify({ ...request, hasDigest: round === count }));
      if (round > 0) answers[index]!.push(answer);
    }
  }
  return answers;
}

const timesOf = (answers: readonly CoresAnswer[]) => answers.map(({ milliseconds }) => milliseconds);

async function printWorkloads({ runtime, running }: Measurement): Promise<void> {
  const others = running.slice(1);
  const rows = [["kernel, ms", ...running.map(({ name }) => name), ...others.map(({ name }) => `${name}, speedup`)]];
  for (const workload of coresWorkloads.filter(isChosen)) {
    rows.push(
      await rowOf(workload.name, async () => {
        const answers = await askInTurn(running, { kind: "workload", name: workload.name }, rounds);
        const digests = answers.map((ofOne) => ofOne.at(-1)!.digest);
        if (digests.some((digest) => digest !== digests[0])) throw new Error("the results differ");
        const times = answers.map(timesOf);
        const speedups = others.map(({ threads, name }, index) => {
          const [first, own] = [times[0]!, times[index + 1]!];
          const speedup = median(first) / median(own);
          const cell = `${speedup.toFixed(2)} (${(Math.min(...first) / Math.min(...own)).toFixed(2)})`;
          const goal = name === "beside" ? undefined : goalOf(workload, threads, runtime);
          return goal === undefined ? cell : `${cell}, goal ${goal.toFixed(1)} ${speedup >= goal ? "met" : "MISSED"}`;
        });
        return [...times.map((ofOne) => formatSpread(ofOne)), ...speedups];
      }),
    );
  }
  if (rows.length > 1) console.log(`\n${runtime}\n\n${formatTable(rows)}`);
}

async function printShortLaunches({ runtime, running }: Measurement): Promise<void> {
  const rows = [["microseconds per launch", ...running.map(({ name }) => name)]];
  for (const { name } of shortLaunches.filter(isChosen)) {
    rows.push(
      await rowOf(name, async () => {
        const answers = await askInTurn(running, { kind: "launches", name }, rounds);
        return answers.map((ofOne) => formatSpread(timesOf(ofOne).map((time) => time * 1000)));
      }),
    );
  }
  if (rows.length > 1) console.log(`\n${runtime}\n\n${formatTable(rows)}`);
}

async function printTimers({ runtime, running }: Measurement): Promise<void> {
  const name = "timers while a kernel runs";
  if (!isChosen({ name })) return;
  const row = await rowOf(name, async () => {
    const answers = await askInTurn(running, { kind: "timers", name }, Math.min(rounds, 5));
    return answers.map((ofOne) => {
      const lateness = ofOne.map(({ lateness }) => lateness!);
      return `${formatSpread(lateness)} of ${median(timesOf(ofOne)).toFixed(0)}`;
    });
  });
  const head = ["ms that a timer of 2 ms is late at most, of the kernel's time", ...running.map(({ name }) => name)];
  console.log(`\n${runtime}\n\n${formatTable([head, row])}`);
}

async function printStarts(runtime: string, all: readonly Configuration[]): Promise<void> {
  const name = "start, small launch and end";
  if (!isChosen({ name })) return;
  const row = await rowOf(name, async () => {
    const times = all.map((): number[] => []);
    for (let round = -1; round < rounds; round++) {
      for (const [index, { checkout, threads }] of all.entries()) {
        const start = performance.now();
        await outputOf([...commandIn(runtime, path("start.ts"), ["--allow-all"]), checkout, String(threads)]);
        if (round >= 0) times[index]!.push(performance.now() - start);
      }
    }
    return times.map((ofOne) => formatSpread(ofOne));
  });
  console.log(`\n${runtime}\n\n${formatTable([["ms of a process", ...all.map(({ name }) => name)], row])}`);
}

async function measureIn(runtime: string): Promise<void> {
  const all = configurations();
  await using programs = new Programs();
  const running: Running[] = [];
  for (const configuration of all) {
    const [command, ...args] = commandIn(runtime, path("program.ts"), ["--allow-all"]);
    const { contender } = await programs.start({
      name: configuration.name,
      command,
      args: [...args, configuration.checkout, String(configuration.threads)],
    });
    running.push({ ...configuration, contender });
  }
  const measurement = { runtime, running };
  await printWorkloads(measurement);
  await printShortLaunches(measurement);
  await printTimers(measurement);
  await printStarts(runtime, all);
}

async function printNatives(): Promise<void> {
  const chosen = nativeWorkloads.filter(({ name }) => `beside C: ${name}`.includes(only));
  if (chosen.length === 0) return;
  using natives = loadNatives();
  using cuda = open({ driver: "software" });
  console.log(`\nall cores; ${natives.descriptions.join("; ")}\n`);
  const rows = [["kernel", ...nativeColumns]];
  for (const workload of chosen) {
    rows.push(
      await rowOf(workload.name, () => measureBesideNatives(workload, { device: cuda.device(0), natives, rounds })),
    );
  }
  console.log(formatTable(rows));
}

console.log(`${describeProcessor()}; medians of ${rounds} rounds, with minimum and maximum in parentheses`);
await inEachRuntime(runtimes, measureIn);
await printNatives();
reportFailures();
