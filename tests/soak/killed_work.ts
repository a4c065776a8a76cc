/**
 * Measures what happens to the work of a process that is killed while its kernels write to shared memory, and when the
 * exporter learns of the end of the process: its work must have ended by then, because the memory is reused.
 *
 *     deno run --allow-all --import-map import_map.json tests/soak/killed_work.ts [--rounds 10] [--endings kill,fork]
 *
 * With the ending "fork", the process has forked a child that calls no `exec`. The clocks of the kernels are compared
 * with the exporter's only on a GPU; the software device has a clock for each process.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "@std/cli/parse-args";
import { type DeviceBuffer, Exporter, open } from "../../mod.ts";
import { stampedByteLength, StampKernels } from "../children/sharing/stamp_kernels.ts";
import { buildLibrary } from "./c_library.ts";
import { startScript } from "../support/child_process.ts";
import { answerHelp } from "../support/program_help.ts";

answerHelp(import.meta.url, ["rounds", "endings"]);

/** Milliseconds that the kernels run if nothing ends them, and after which the process is killed. */
const [duration, lifetime] = [1000, 150];
/** Milliseconds for a child to start, and for the lease of a killed one to end. */
const [startTimeout, endTimeout] = [60_000, 10_000];
/** The pool's size in bytes, and that of a buffer of which only one fits. */
const [poolByteLength, largeByteLength] = [2 ** 25, 3 * 2 ** 23];

/** What was seen of one death. */
interface Death {
  /** Milliseconds from the signal until the runtime reported the exit, and until the lease had ended. */
  readonly exit: number;
  readonly lease: number;
  /** Milliseconds from the last write of the dead process until the lease had ended; negative if it wrote later. */
  readonly margin: number;
  /** Whether the memory was reused at the same address. */
  readonly isReused: boolean;
  /** Whether the dead process wrote to the memory after it was reused. */
  readonly isOverwritten: boolean;
  /** Whether the kernels were stopped before they would have ended by themselves. */
  readonly isStopped: boolean;
  readonly mps: boolean;
}

const args = parseArgs(Deno.args, { string: ["rounds", "endings"], default: { rounds: "10", endings: "kill,fork" } });
const folder = mkdtempSync(join(tmpdir(), "poolpass-killed-"));
using cleanup = new DisposableStack();
cleanup.defer(() => rmSync(folder, { recursive: true }));
using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream({ nonBlocking: true });
using kernels = new StampKernels(cuda);
console.log(
  `${gpu.name}, ${cuda.driver} ${cuda.driverVersion}; kernels of ${duration} ms, killed after ${lifetime} ms`,
);
const forkLibrary = buildLibrary("fork_and_wait", folder);
for (const ending of args.endings.split(",")) {
  if (ending === "fork" && forkLibrary === undefined) {
    console.log(`\nending "fork": not measured, because there is no compiler`);
    continue;
  }
  const deaths: Death[] = [];
  const failures: string[] = [];
  for (let round = 0; round < Number(args.rounds); round++) {
    try {
      deaths.push(await observe(ending));
    } catch (error) {
      failures.push(String(error));
    }
  }
  print(ending, deaths, failures);
}

async function observe(ending: string): Promise<Death> {
  using pool = gpu.createPool({ handleType: "posix-fd", maxSize: poolByteLength, releaseThreshold: Infinity });
  await using exporter = Exporter.listen(`${folder}/exporter`, { closeTimeout: 0 });
  using kept = pool.allocate(stampedByteLength, stream);
  const freed = pool.allocate(largeByteLength, stream);
  for (const buffer of [kept, freed]) buffer.fill(0);
  const { address } = freed;
  exporter.offer("kept", kept);
  const offer = exporter.offer("freed", freed);
  await stream.finished();
  const args = [exporter.path, `${duration}`, ...ending === "fork" ? [forkLibrary!] : []];
  await using child = startScript("soak/killed_importer.ts", args, { permissions: ["--allow-all"] });
  const timer = setTimeout(() => child.kill("SIGKILL"), startTimeout);
  const line = await child.nextLine();
  clearTimeout(timer);
  if (line === undefined) throw new Error(`The importer does not start: ${await errorsOf(child)}`);
  const { child: forked, mps } = JSON.parse(line) as { child: number; mps: boolean };
  using _forked = { [Symbol.dispose]: () => void (forked > 0 && process.kill(forked, "SIGKILL")) };
  const deadline = performance.now() + startTimeout;
  while (await latest(kept) === 0n) if (performance.now() > deadline) throw new Error("The kernels do not start");
  const begin = performance.now();
  await sleep(lifetime);
  freed.free();
  const killed = performance.now();
  child.kill("SIGKILL");
  const exited = child.ended.then(() => performance.now() - killed);
  await offer.ended({ signal: AbortSignal.timeout(endTimeout) });
  const lease = performance.now() - killed;
  const atEnd = await kernels.clock(stream);
  using reused = await pool.allocateAsync(largeByteLength, { stream, signal: AbortSignal.timeout(endTimeout) });
  reused.fill(0);
  await stream.finished();
  let isOverwritten = false;
  do {
    isOverwritten ||= await latest(reused) !== 0n;
  } while (performance.now() - begin < duration * 1.5);
  const last = await latest(kept);
  const wasReused = reused.address === address;
  const now = await kernels.clock(stream);
  return {
    exit: await exited,
    lease,
    margin: Number(atEnd - last) / 1e6,
    isReused: wasReused,
    isOverwritten,
    // The kernels would have stamped until shortly before the measurement ended.
    isStopped: Number(now - last) / 1e6 > duration,
    mps,
  };
}

/** Resolves with the last time that the kernels have written. */
async function latest(buffer: DeviceBuffer): Promise<bigint> {
  const times = await buffer.read(BigUint64Array, { length: stampedByteLength / BigUint64Array.BYTES_PER_ELEMENT });
  return times.reduce((last, time) => time > last ? time : last);
}

function print(ending: string, deaths: readonly Death[], failures: readonly string[]): void {
  const spread = (of: (death: Death) => number): string => {
    const sorted = deaths.map(of).sort((a, b) => a - b);
    const [low, middle, high] = [0, 0.5, 1].map((share) => sorted[Math.round(share * (sorted.length - 1))]?.toFixed(3));
    return `${middle} (${low} to ${high})`;
  };
  const count = (of: (death: Death) => boolean): string => `${deaths.filter(of).length} of ${deaths.length}`;
  console.log(`\nending "${ending}"${deaths.some(({ mps }) => mps) ? ", under MPS" : ""}: median (minimum to maximum)`);
  console.log(`  from the signal to the exit reported by the runtime, ms: ${spread(({ exit }) => exit)}`);
  console.log(`  from the signal to the end of the lease, ms: ${spread(({ lease }) => lease)}`);
  if (cuda.driver === "cuda") {
    console.log(`  from the last write of the dead to the end of the lease, ms: ${spread(({ margin }) => margin)}`);
    console.log(`  kernels stopped early: ${count(({ isStopped }) => isStopped)}`);
  }
  console.log(`  memory reused at its address: ${count(({ isReused }) => isReused)}`);
  console.log(`  reused memory overwritten by the dead: ${count(({ isOverwritten }) => isOverwritten)}`);
  for (const failure of failures) console.log(`  failed: ${failure}`);
}

async function errorsOf(child: ReturnType<typeof startScript>): Promise<string> {
  child.kill("SIGKILL");
  return (await child.errors()).slice(-2000);
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
