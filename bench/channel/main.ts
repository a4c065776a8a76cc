/**
 * Streams frames from a kernel of one process to a kernel of another, compared with the same in Python and C++.
 *
 *     deno task bench channel [--rounds 4] [--frames 300] [--json FILE]
 *
 * Prints tables, and writes all times to FILE if it is given. On the software device, only poolpass runs, with small
 * slots. Exits with 1 if a contender cannot be measured or a frame is wrong.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { Contender } from "../harness/contender.ts";
import { fail, reportFailures } from "../harness/failures.ts";
import { describeProcessor } from "../harness/machine.ts";
import { formatSpread, quantile } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { outputOf, python } from "../harness/programs.ts";
import { formatJob, type Greeting, type Job, type RoundTimes } from "./job.ts";
import { resultOf, type RoundResult } from "./statistics.ts";

interface Mode extends Pick<Job, "slots" | "interval" | "isHostWaiting"> {
  readonly name: string;
}

const modes: readonly Mode[] = [
  { name: "4 slots, as fast as the streams run", slots: 4, interval: 0, isHostWaiting: false },
  {
    name: "4 slots, each read before the host enqueues its next write",
    slots: 4,
    interval: 0,
    isHostWaiting: true,
  },
  { name: "1 slot: each frame is read before the next is written", slots: 1, interval: 0, isHostWaiting: true },
  { name: "4 slots, 5 ms of sleep after each frame", slots: 4, interval: 5, isHostWaiting: false },
];

/** The number of frames at the start of a round that are not counted. */
const uncounted = 50;

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** Starts a program and prints its greeting. */
async function start(
  name: string,
  [command, ...args]: readonly [string, ...string[]],
): Promise<{ contender: Contender; isSoftware: boolean } | undefined> {
  let contender: Contender | undefined;
  try {
    contender = new Contender({ name, command, args });
    const { device, isSoftware, versions } = await contender.greeting<Greeting>();
    console.log(`${name}: ${versions}, on ${device}`);
    return { contender, isSoftware };
  } catch (error) {
    await contender?.end();
    return fail(name, error);
  }
}

async function startNative(): Promise<{ contender: Contender } | undefined> {
  const folder = await Deno.makeTempDir();
  try {
    const program = `${folder}/native`;
    const args = ["-O2", "-std=c++17", "-arch=native", "-o", program, path("native.cu")];
    await outputOf(["nvcc", ...args]);
    return await start("C++", [program]);
  } catch (error) {
    return fail("C++", error);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Starts all contenders, poolpass first. On the software device, starts only poolpass. */
async function startContenders(): Promise<{ contenders: Contender[]; isSoftware: boolean }> {
  const poolpass = await start("poolpass", [Deno.execPath(), "run", "--allow-all", path("producer.ts")]);
  if (poolpass === undefined || poolpass.isSoftware) {
    return { contenders: poolpass === undefined ? [] : [poolpass.contender], isSoftware: true };
  }
  const others = await Promise.all([
    start("cuda.core", [python(), path("cuda_core.py")]),
    start("torch.multiprocessing", [python(), path("torch_channel.py")]),
    startNative(),
  ]);
  const contenders = [poolpass, ...others].filter((started) => started !== undefined).map(({ contender }) => contender);
  return { contenders, isSoftware: false };
}

type Results = Map<Mode, Map<Contender, RoundResult[]>>;

/** Measures the rounds of all contenders in turn, so that other load on the machine affects all of them equally. */
async function measure(
  contenders: readonly Contender[],
  { rounds, frames, slotByteLength }: { rounds: number; frames: number; slotByteLength: number },
): Promise<Results> {
  const results: Results = new Map(modes.map((mode) => [mode, new Map(contenders.map((each) => [each, []]))]));
  const running = new Set(contenders);
  let firstFrame = 0;
  for (let round = 0; round < rounds; round++) {
    for (const mode of modes) {
      for (let turn = 0; turn < contenders.length; turn++) {
        const contender = contenders[(round + turn) % contenders.length]!;
        if (!running.has(contender)) continue;
        try {
          const job = { ...mode, frames: uncounted + frames, slotByteLength, firstFrame };
          const times = await contender.ask<RoundTimes>(formatJob(job));
          results.get(mode)!.get(contender)!.push(resultOf(times, { uncounted }));
        } catch (error) {
          running.delete(contender);
          fail(contender.name, error);
        }
        firstFrame += uncounted + frames;
      }
    }
  }
  return results;
}

function rowOf({ name }: Contender, rounds: readonly RoundResult[], { isSoftware }: { isSoftware: boolean }): string[] {
  if (rounds.length === 0) return [name, "not measured"];
  const rates = rounds.map(({ framesPerSecond }) => framesPerSecond);
  const cell = formatSpread(rates, (rate) => rate.toFixed(0));
  // The software devices of two processes have different clocks, so latencies cannot be computed.
  if (isSoftware) return [name, cell];
  const latency = (numbers: readonly number[]) => [0.5, 0.99].map((part) => quantile(numbers, part).toFixed(0));
  return [
    name,
    cell,
    ...latency(rounds.flatMap(({ fromSend }) => fromSend)),
    ...latency(rounds.flatMap(({ fromWritten }) => fromWritten)),
    quantile(rounds.flatMap(({ writing }) => writing), 0.5).toFixed(0),
    quantile(rounds.flatMap(({ reading }) => reading), 0.5).toFixed(0),
  ];
}

function print(results: Results, { isSoftware }: { isSoftware: boolean }): void {
  for (const [mode, ofContenders] of results) {
    const heads = ["send to start: p50", "p99", "written to start: p50", "p99", "writing: p50", "reading: p50"];
    const rows = [["", "frames/s", ...isSoftware ? [] : heads]];
    for (const [contender, rounds] of ofContenders) rows.push(rowOf(contender, rounds, { isSoftware }));
    console.log(`\n${mode.name}\n${formatTable(rows)}`);
  }
  const errors = [...results.values()].flatMap((of) => [...of.values()].flat()).map(({ clockError }) => clockError);
  if (!isSoftware) console.log(`\nThe clocks are aligned to within ${Math.max(...errors).toFixed(1)} us.`);
}

function write(file: string, results: Results): void {
  const modesOf = [...results].map(([mode, ofContenders]) => ({
    ...mode,
    contenders: [...ofContenders].map(([{ name }, rounds]) => ({ name, rounds })),
  }));
  Deno.writeTextFileSync(file, `${JSON.stringify(modesOf)}\n`);
}

const { rounds, frames, json } = readOptions(import.meta.url, { rounds: 4, frames: 300, json: "" });
console.log(describeProcessor());
const { contenders, isSoftware } = await startContenders();
const slotByteLength = isSoftware ? 2 ** 20 : 64 * 2 ** 20;
if (isSoftware) console.log("no GPU: only the software device runs, without latencies");
console.log(`slots of ${slotByteLength / 2 ** 20} MiB, ${rounds} rounds of ${frames} frames; times in microseconds`);
const results = await measure(contenders, { rounds, frames, slotByteLength });
await Promise.all(contenders.map((contender) => contender.end()));
print(results, { isSoftware });
if (json !== "") write(json, results);
reportFailures();
