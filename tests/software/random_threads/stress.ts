/**
 * Runs random programs on the software device with several threads, and compares what they read and how their kernels
 * fault with the same programs on one thread. They use streams, events, copies, fills, memory in stream order, and
 * kernels that synchronize, allocate, count or fault. Some are disposed of while kernels run, and some processes killed.
 *
 *     deno task stress --programs 10000 --threads 16 --seed 1
 *
 * Prints memory and descriptors regularly. Exits with status 1 if a program differs or something has grown, and is
 * killed if a program hangs, after printing its seed. A seed always gives the same program.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { processWorkers } from "../../../src/software/execution/workers/workers.ts";
import { LinearMemory } from "../../../src/software/memory/linear_memory.ts";
import { Random } from "../../differential/random.ts";
import { startScript } from "../../support/child_process.ts";
import { answerHelp } from "../../support/program_help.ts";
import { check, type Ending } from "./check.ts";

answerHelp(import.meta.url, ["programs", "threads", "seed", "kills"]);

const { values } = parseArgs({
  options: {
    programs: { type: "string", default: "10000" },
    threads: { type: "string", default: "16" },
    seed: { type: "string", default: "1" },
    kills: { type: "string", default: "10" },
  },
});
const programs = Number(values.programs), threads = Number(values.threads), seed = Number(values.seed);
const kills = Number(values.kills);
/** A program that takes longer hangs. */
const hangSeconds = 60;
/** How much more memory in MiB the process may use at the end than after the first programs. */
const memorySlack = 128 + 24 * threads;
/** In so many programs the process reaches the memory that it keeps. */
const warmUpPrograms = 500;
/** Before it is killed, a process runs programs for at most this time in milliseconds. */
const longestLife = 500;

/** The seed of the running program, and the number of its step, which the watchdog reads. */
const position = new Int32Array(new SharedArrayBuffer(8));
// A timer of this thread would not fire while the thread blocks.
const watchdog = `const { workerData: position } = require("node:worker_threads");
let last = "", seconds = 0;
setInterval(() => {
  const now = position.join(", step ");
  seconds = now === last ? seconds + 1 : 0;
  last = now;
  if (seconds < ${hangSeconds}) return;
  require("node:fs").writeSync(2, "seed " + now + " with ${threads} threads: hangs\\n");
  process.kill(process.pid, "SIGKILL");
}, 1000);`;

/** In Bun, whose engine counts all of linear memory as used, and therefore seldom collects garbage. */
const { Bun: bun } = globalThis as unknown as { Bun?: { gc(isBlocking: boolean): void } };

function measure(): { megabytes: number; descriptors: number } {
  bun?.gc(true);
  const [, kibibytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))!;
  return { megabytes: Math.round(Number(kibibytes) / 1024), descriptors: readdirSync("/proc/self/fd").length };
}

/** Starts a process with the same programs, and kills it while it runs them. */
async function kill(random: Random): Promise<void> {
  const args = ["--programs", "1000", "--threads", `${threads}`, "--seed", `${random.below(2 ** 20)}`, "--kills", "0"];
  await using child = startScript("software/random_threads/stress.ts", args, { permissions: ["--allow-all"] });
  await child.nextLine();
  await new Promise((resolve) => setTimeout(resolve, random.below(longestLife)));
  child.kill("SIGKILL");
  const ended = await child.ended;
  if (ended !== "SIGKILL") throw new Error(`A process ended with ${ended}: ${await child.errors()}`);
}

new Worker(watchdog, { eval: true, workerData: position }).unref();
processWorkers(new LinearMemory()).startAll(threads);
console.log(`${threads} threads, seeds ${seed} to ${seed + programs - 1}`);
const random = new Random(seed);
const endings: Record<Ending, number> = { completed: 0, faulted: 0, disposed: 0 };
let failures = 0, early = measure();
for (let done = 1; done <= programs; done++) {
  position.set([seed + done - 1, 0]);
  try {
    endings[await check(seed + done - 1, { threads, onStep: () => void position[1]!++ })]++;
    if (kills > 0 && done % Math.ceil(programs / kills) === 0) await kill(random);
  } catch (error) {
    failures++;
    console.error((error as Error).message);
  }
  if (done === Math.min(warmUpPrograms, programs)) early = measure();
  if (done % Math.ceil(programs / 20) > 0) continue;
  const { megabytes, descriptors } = measure();
  console.log(`${done} programs, ${JSON.stringify(endings)}, ${megabytes} MiB, ${descriptors} descriptors`);
}
const late = measure();
const hasGrown = late.megabytes > early.megabytes + memorySlack || late.descriptors > early.descriptors;
if (hasGrown) console.error("Something has grown:", early, late);
console.log(`${failures} failures`);
process.exit(failures > 0 || hasGrown ? 1 : 0);
