/**
 * Measures all-reduces of `Communicator`, beside C++ that calls NCCL, and torch.distributed: a process for each GPU.
 *
 *     deno task bench collectives [--ranks 2] [--sizes 8,64KiB,1GiB] [--repetitions 5] [--iterations 1000]
 *       [--timeout 120] [--out FOLDER]
 *
 * The programs run in turn, `--repetitions` times each, with new processes each time. A number is the median of their
 * medians. Small all-reduces are also measured with each waited for. They take one process half as long again as the next
 * one, whoever calls: so C++ is also measured in poolpass's processes, in turns with it, and the ratio is the median of
 * those of each process. `--timeout` is in seconds: a run that takes longer is killed. Needs nvcc and NCCL (`NCCL_HOME`
 * may name its folder); PyTorch is measured if `python3`, or what `PYTHON` names, has it. On the software device, only
 * poolpass runs, with small sizes: this only shows that the benchmark works. Prints a table, and writes it to FOLDER as
 * JSON; without `--out`, to `bench/results` if it is a complete run on GPUs. Exits with 1 if something cannot be measured.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { formatSize, parseBytes } from "../../examples/command_line.ts";
import { formatTable } from "../../examples/table.ts";
import {
  buildNative,
  type Measurement,
  type Native,
  type Run,
  runNative,
  type Runner,
  runPoolpass,
  runTorch,
  type Times,
} from "./programs.ts";
import { describeDevice, describeProcessor } from "../harness/machine.ts";
import { median } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { missingPackage, python } from "../harness/programs.ts";
import { writeReport } from "../harness/results.ts";

/** 8 B to 1 GiB, eight times as large each, and 256 MiB, at which nccl-tests are usually compared. */
const allSizes: readonly number[] = [...Array.from({ length: 9 }, (_, index) => 8 ** (index + 1)), 2 ** 28, 2 ** 30];
const softwareSizes: readonly number[] = allSizes.slice(0, 5);

interface Contender {
  readonly name: "C++" | "poolpass" | "PyTorch";
  readonly run: Runner;
  /** What each run has measured. */
  readonly runs: Run[];
  version: string | undefined;
}

function contender(name: Contender["name"], run: Runner): Contender {
  return { name, run, runs: [], version: undefined };
}

/** Microseconds of each run of a contender, and those of C++ in the same processes, where they were measured. */
function timesOf({ runs }: Contender, byteLength: number, time: keyof Times): { own: number[]; native: number[] } {
  const measured = runs.flatMap(({ sizes }) => sizes.filter((each) => each.byteLength === byteLength));
  const numbers = (times: readonly (Times | undefined)[]) => {
    return times.map((each) => each?.[time]).filter((each) => each !== undefined);
  };
  return { own: numbers(measured), native: numbers(measured.map(({ native }) => native)) };
}

/** Finds the programs that this machine can run. Those that it should run, and cannot, are failures. */
async function findContenders(folder: string, isSoftware: boolean, failures: string[]): Promise<Contender[]> {
  const found: Contender[] = [];
  let native: Native | undefined;
  if (!isSoftware) {
    try {
      native = await buildNative(folder);
      found.push(contender("C++", runNative(native)));
    } catch (error) {
      failures.push(`C++: ${(error as Error).message}`);
    }
  }
  const own = contender("poolpass", runPoolpass(native));
  own.version = `Deno ${Deno.version.deno}`;
  found.push(own);
  if (isSoftware) return found;
  const missing = await missingPackage(["torch"]).catch((error: Error) => error.message);
  if (missing === undefined) found.push(contender("PyTorch", runTorch(python(), folder)));
  else console.log(`PyTorch is not measured: ${missing}`);
  return found;
}

/** Runs each program in turn, and in each repetition begins with another one. Leaves out those that fail. */
async function measure(
  contenders: readonly Contender[],
  { measurement, repetitions, failures }: { measurement: Measurement; repetitions: number; failures: string[] },
): Promise<void> {
  const failed = new Set<Contender>();
  for (let repetition = 0; repetition < repetitions; repetition++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      const each = contenders[(repetition + turn) % contenders.length]!;
      if (failed.has(each)) continue;
      const begin = performance.now();
      let run: Run;
      try {
        run = await each.run(measurement);
      } catch (error) {
        failed.add(each);
        failures.push(`${each.name}, repetition ${repetition + 1}: ${(error as Error).message}`);
        continue;
      }
      each.version ??= run.version;
      each.runs.push(run);
      const seconds = ((performance.now() - begin) / 1000).toFixed(1);
      console.error(`${each.name}, repetition ${repetition + 1}: ${seconds} s`);
    }
  }
}

/** A size, as the table and the file have it. */
interface Row {
  readonly name: string;
  readonly byteLength: number;
  readonly unit: "microseconds";
  readonly contenders: Readonly<
    Record<string, {
      rounds: number[];
      median: number;
      ofNative?: number;
      /** The same of C++ in the same processes, and how many times as long the contender takes. */
      beside?: { rounds: number[]; median: number; ofNative: number };
      busBandwidth: number;
    }>
  >;
}

/** Returns undefined if nothing has measured it. */
function rowOf(
  byteLength: number,
  { time, contenders, ranks }: { time: keyof Times; contenders: readonly Contender[]; ranks: number },
): Row | undefined {
  const measured = contenders.map((each) => ({ name: each.name, ...timesOf(each, byteLength, time) }))
    .filter(({ own }) => own.length > 0);
  if (measured.length === 0) return undefined;
  const native = measured.find(({ name }) => name === "C++")?.own;
  const entries = measured.map(({ name, own: rounds, native: beside }) => {
    const middle = median(rounds);
    return [name, {
      rounds,
      median: middle,
      ...native === undefined ? {} : { ofNative: middle / median(native) },
      ...beside.length === 0 ? {} : {
        beside: {
          rounds: beside,
          median: median(beside),
          ofNative: median(rounds.map((time, round) => time / beside[round]!)),
        },
      },
      // GB/s, as nccl-tests count it.
      busBandwidth: byteLength / middle / 1000 * 2 * (ranks - 1) / ranks,
    }] as const;
  });
  return {
    name: `all-reduce, ${formatSize(byteLength)}${time === "waitedMicroseconds" ? ", each waited for" : ""}`,
    byteLength,
    unit: "microseconds",
    contenders: Object.fromEntries(entries),
  };
}

function formatRows(rows: readonly Row[], contenders: readonly Contender[]): string {
  const names = contenders.map(({ name }) => name);
  const ratios = names.includes("C++") ? names.filter((name) => name !== "C++") : [];
  const sideways = names.filter((name) => rows.some(({ contenders }) => contenders[name]?.beside !== undefined));
  const number = (value: number | undefined, digits: number) => value === undefined ? "" : value.toFixed(digits);
  return formatTable([
    [
      "all-reduce",
      ...names.map((name) => `${name}, us`),
      ...ratios.map((name) => `${name} / C++`),
      ...sideways.flatMap((name) => [`C++ in its processes, us`, `${name} / that`]),
      ...names.map((name) => `${name}, busbw GB/s`),
    ],
    ...rows.map(({ name, contenders }) => [
      name.replace("all-reduce, ", ""),
      ...names.map((name) => number(contenders[name]?.median, 2)),
      ...ratios.map((name) => number(contenders[name]?.ofNative, 3)),
      ...sideways.flatMap((name) => {
        const { median, ofNative } = contenders[name]?.beside ?? {};
        return [number(median, 2), number(ofNative, 3)];
      }),
      ...names.map((name) => number(contenders[name]?.busBandwidth, 2)),
    ]),
  ]);
}

function parseSizes(text: string): number[] {
  return text.split(",").map((size) => {
    const byteLength = parseBytes(size);
    if (byteLength % 4 === 0) return byteLength;
    throw new TypeError(`Cannot reduce ${byteLength} bytes: floats have 4 each`);
  });
}

async function main(): Promise<void> {
  const options = readOptions(import.meta.url, {
    ranks: 0,
    sizes: "",
    repetitions: 5,
    iterations: 0,
    timeout: 120,
    out: "",
  });
  const { repetitions } = options;
  const timeout = 1000 * options.timeout;
  const given = options.sizes === "" ? undefined : parseSizes(options.sizes);
  const device = describeDevice();
  const { isSoftware } = device;
  const ranks = options.ranks || (isSoftware ? 2 : device.count);
  if (!isSoftware && ranks > device.count) {
    throw new TypeError(`Cannot measure ${ranks} ranks: there are ${device.count} GPUs, and each needs one`);
  }
  const sizes = given ?? (isSoftware ? softwareSizes : allSizes);
  const iterations = options.iterations || (isSoftware ? 20 : 1000);
  const host = describeProcessor();
  console.log(`${ranks} ranks, ${device.name}, ${device.uuid}\n${host}`);
  if (isSoftware) console.log("There is no GPU: only poolpass runs, which only shows that the benchmark works.");
  const failures: string[] = [];
  const folder = await Deno.makeTempDir({ prefix: "poolpass-collectives-" });
  try {
    const contenders = await findContenders(folder, isSoftware, failures);
    await measure(contenders, { measurement: { ranks, sizes, iterations, timeout }, repetitions, failures });
    const rows = (["microseconds", "waitedMicroseconds"] as const).flatMap((time) => {
      return sizes.map((size) => rowOf(size, { time, contenders, ranks })).filter((row) => row !== undefined);
    });
    for (const { name, version } of contenders) if (version !== undefined) console.log(`${name}: ${version}`);
    console.log(`\nmedians of ${repetitions} runs, each the median of 7 rounds\n\n${formatRows(rows, contenders)}`);
    const isComplete = !isSoftware && given === undefined && failures.length === 0;
    const results = isComplete ? fileURLToPath(new URL("../results", import.meta.url)) : "";
    const out = options.out || results;
    const versions = Object.fromEntries(contenders.map(({ name, version }) => [name, version]));
    const report = { date: new Date().toISOString(), host, device, ranks, versions, rows, failures };
    const name = isSoftware ? "software" : device.uuid.slice(0, "GPU-12345678".length);
    if (out !== "") await writeReport(report, out, `collectives-${name}`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  if (failures.length === 0) return;
  console.log(`\nNot measured:\n${failures.join("\n")}`);
  Deno.exitCode = 1;
}

try {
  await main();
} catch (error) {
  console.error(`error: ${(error as Error).message}`);
  Deno.exitCode = 1;
}
