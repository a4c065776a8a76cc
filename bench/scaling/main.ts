/**
 * Measures how the processor time to load a kernel and to launch it for the first time grows with its lines, on the software
 * device, and the time of an empty launch.
 *
 *     deno task bench scaling [--only NAME] [--lines 10000] [--rounds 3]
 *
 * `--only` selects the shapes whose names contain NAME, `--lines` sets the longest kernels. Prints tables and writes no
 * files.
 *
 * @module
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { formatTable } from "../../examples/table.ts";
import { type Cuda, type CudaStream, type DeviceBuffer, open } from "../../mod.ts";
import { reportFailures, rowOf } from "../harness/failures.ts";
import { describeProcessor, describeRuntime } from "../harness/machine.ts";
import { readOptions } from "../harness/options.ts";
import { outputOf } from "../harness/programs.ts";
import { kernelShapes } from "./kernel_shapes.ts";
import type { KernelShape } from "./kernel_text.ts";

/** The least processor times of a kernel, in milliseconds. */
interface Times {
  readonly lines: number;
  readonly load: number;
  readonly launch: number;
  /** The most memory that the process has had so far, in MB. */
  readonly memory: number;
}

interface Bench {
  readonly cuda: Cuda;
  readonly stream: CudaStream;
  readonly buffer: DeviceBuffer;
  readonly rounds: number;
}

/** The processor time in which a process counts as idle, within ten times that, and the longest wait for that, in ms. */
const idleTime = 5;
const longestWait = 60_000;

/** Enough threads to have the kernel compiled for gangs. They do nothing. */
const geometry = { grid: 16, block: 512 } as const;

async function timeKernel(
  shape: KernelShape,
  lines: number,
  { cuda, stream, buffer, rounds }: Bench,
): Promise<Times> {
  const { ptx, kernel } = shape.write(lines);
  let [load, launch] = [Infinity, Infinity];
  for (let round = 0; round < rounds; round++) {
    await settle();
    const begin = processorTime();
    // The comment makes it another module, which is not kept.
    using module = cuda.device(0).loadModule(`${ptx}\n// ${performance.now()}`);
    const loaded = processorTime();
    module.kernel(kernel).launch({ ...geometry, stream }, buffer, 0);
    stream.synchronize();
    load = Math.min(load, loaded - begin);
    launch = Math.min(launch, processorTime() - loaded);
  }
  return { lines: ptx.split("\n").length, load, launch, memory: process.resourceUsage().maxRSS / 1024 };
}

/** Waits until the engine has optimized the kernel before, which takes it seconds that belong to none of the next. */
async function settle(): Promise<void> {
  const end = performance.now() + longestWait;
  for (let spent = Infinity; spent > idleTime && performance.now() < end;) {
    const before = processorTime();
    await sleep(10 * idleTime);
    spent = processorTime() - before;
  }
}

/** Of all threads, those of the engine's compiler included, in milliseconds. */
function processorTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** A number's growth for four times the lines. */
function growth(times: readonly Times[], sum: (times: Times) => number): string {
  return times.slice(1).map((next, index) => {
    const before = times[index]!;
    return ((sum(next) / sum(before)) ** (Math.log(4) / Math.log(next.lines / before.lines))).toFixed(1);
  }).join(", ");
}

/** The lengths up to the longest one, each four times the one before. */
function lengthsTo(longest: number): number[] {
  const lengths: number[] = [];
  for (let lines = longest; lines >= 100; lines /= 4) lengths.unshift(Math.round(lines));
  return lengths;
}

/** Measures each shape in a process of its own, so that none pays for the garbage of another. */
async function printShapes(only: string, { longest, rounds }: { longest: number; rounds: number }): Promise<void> {
  const heads = lengthsTo(longest).map((lines) => `${lines} lines`);
  const rows = [["kernel", ...heads, "growth for 4 times the lines", "peak memory, MB"]];
  for (const { name } of kernelShapes.filter(({ name }) => name.includes(only))) {
    const options = ["--shape", name, "--lines", `${longest}`, "--rounds", `${rounds}`];
    const command = ["run", "--allow-all", "--no-check", "--import-map", importMap, Deno.mainModule, ...options];
    rows.push(
      await rowOf(name, async () => {
        const times: Times[] = JSON.parse(await outputOf([Deno.execPath(), ...command]));
        const cells = times.map(({ load, launch }) => `${load.toFixed(1)} + ${launch.toFixed(1)}`);
        const sum = ({ load, launch }: Times) => load + launch;
        return [...cells, growth(times, sum), `${Math.round(times.at(-1)!.memory)}`];
      }),
    );
  }
  if (rows.length === 1) return;
  console.log(`processor time of load + first launch, least of ${rounds}, in ms\n\n${formatTable(rows)}\n`);
}

const emptyKernel = `.version 7.0
.target sm_60
.address_size 64
.visible .entry empty() { ret; }`;

function printEmptyLaunches({ cuda, stream, rounds }: Bench): void {
  using module = cuda.device(0).loadModule(emptyKernel);
  const kernel = module.kernel("empty");
  const rows = [["empty launch", "call, us", "call and work, us", "launch and synchronize, us"]];
  for (const { grid, block } of [{ grid: 1, block: 1 }, { grid: 1, block: 256 }, { grid: 32, block: 256 }]) {
    let [call, all, waited] = [Infinity, Infinity, Infinity];
    const count = 1000;
    const launch = () => kernel.launch({ grid, block, stream });
    for (let round = 0; round < 30 * rounds; round++) {
      const begin = performance.now();
      for (let index = 0; index < count; index++) launch();
      const called = performance.now();
      stream.synchronize();
      const done = performance.now();
      for (let index = 0; index < count; index++) {
        launch();
        stream.synchronize();
      }
      call = Math.min(call, called - begin);
      all = Math.min(all, done - begin);
      waited = Math.min(waited, performance.now() - done);
    }
    const cells = [call, all, waited].map((time) => (time / count * 1000).toFixed(2));
    rows.push([`${grid} block${grid > 1 ? "s" : ""} of ${block}`, ...cells]);
  }
  console.log(formatTable(rows));
}

const importMap = new URL("../../import_map.json", import.meta.url).href;
// A process that measures one shape has its name as an option.
const options = { only: "", lines: 10_000, rounds: 3, shape: "" };
const { only, lines, rounds, shape: shapeName } = readOptions(import.meta.url, options);
if (shapeName === "") {
  console.log(`${describeProcessor()}\n${describeRuntime()}\n`);
  await printShapes(only, { longest: lines, rounds });
  reportFailures();
}
if (shapeName !== "" || only === "") {
  using cuda = open({ driver: "software" });
  using stream = cuda.device(0).createStream();
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(4 * geometry.grid * geometry.block, stream);
  const bench: Bench = { cuda, stream, buffer, rounds };
  const shape = kernelShapes.find(({ name }) => name === shapeName);
  if (shape === undefined) printEmptyLaunches(bench);
  else {
    const times: Times[] = [];
    for (const length of lengthsTo(lines)) times.push(await timeKernel(shape, length, bench));
    console.log(JSON.stringify(times));
  }
}
