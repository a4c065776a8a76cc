/**
 * Checks that a million offers that are mapped and released, and a million frames of a channel, leave nothing behind.
 *
 *     deno task soak [--cycles 1000000] [--frames 1000000]
 *
 * Runs two processes, on a GPU if there is one and otherwise on the software device. Prints memory, descriptors and
 * pool usage of both processes regularly, and exits with status 1 if they have grown since the first thousand rounds.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "@std/cli/parse-args";
import { Exporter, open } from "../../mod.ts";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { Growth, measure, type Measurements } from "./growth.ts";
import { answerHelp } from "../support/program_help.ts";

answerHelp(import.meta.url, ["cycles", "frames"]);

const concurrency = 32;
const slots = 8;
const byteLength = 4096;
/** The number of reports in each half, after the first one. */
const reports = 20;

const args = parseArgs(Deno.args, {
  string: ["cycles", "frames"],
  default: { cycles: "1000000", frames: "1000000" },
});
const cycles = Number(args.cycles);
const frames = Number(args.frames);
const everyCycles = Math.ceil(cycles / reports);
const everyFrames = Math.ceil(frames / reports);

using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
using pool = gpu.createPool({ handleType: "posix-fd", releaseThreshold: Infinity });
const folder = mkdtempSync(join(tmpdir(), "poolpass-soak-"));
let exitCode = 1;
try {
  exitCode = await soak();
} finally {
  rmSync(folder, { recursive: true });
}
Deno.exit(exitCode);

async function soak(): Promise<number> {
  const path = join(folder, "soak.sock");
  await using exporter = Exporter.listen(path, {
    onDisconnect: (peer, error) => error === undefined || console.error(`process ${peer.pid}:`, error),
  });
  await using child = startScript("soak/importer.ts", [path, `${everyCycles}`, `${everyFrames}`], {
    permissions: ["--allow-all", "--v8-flags=--expose-gc"],
  });
  console.log(`${gpu.name}: ${cycles} cycles, ${frames} frames of ${byteLength} bytes`);
  const cycleGrowth = await runCycles(exporter, child);
  const frameGrowth = await runFrames(exporter, child);
  const lines = await remainingLines(child);
  const code = await child.ended;
  if (code !== 0) console.error(`the importer ended with ${code}: ${await child.errors()}`);
  console.log(...lines);
  const grown = [...cycleGrowth.findGrowth("cycles"), ...frameGrowth.findGrowth("frames")];
  console.log(grown.length === 0 ? "flat" : `NOT FLAT: ${grown.join("; ")}`);
  return code === 0 && grown.length === 0 ? 0 : 1;
}

/** Offers buffers, several at a time. Each is freed when the importer has released it. */
async function runCycles(exporter: Exporter, child: ChildProcess): Promise<Growth> {
  const growth = new Growth();
  const begin = performance.now();
  let next = 0;
  let done = 0;
  await Promise.all(Array.from({ length: concurrency }, async () => {
    while (next < cycles) {
      await cycle(exporter, next++);
      done++;
      if (done === 1000 || done % everyCycles === 0) {
        await report(growth, child, `${done} cycles, ${rate(done, begin)}`);
      }
    }
  }));
  exporter.offer("no more cycles", pool);
  return growth;
}

async function cycle(exporter: Exporter, index: number): Promise<void> {
  using buffer = pool.allocate(byteLength, stream);
  buffer.fill(index & 255);
  const offer = exporter.offer(`cycle ${index}`, buffer, { metadata: index });
  await offer.released();
}

async function runFrames(exporter: Exporter, child: ChildProcess): Promise<Growth> {
  const growth = new Growth();
  await using channel = exporter.createChannel("frames", { pool, slots, slotByteLength: byteLength, stream });
  const begin = performance.now();
  for (let frame = 1; frame <= frames; frame++) {
    const slot = await channel.reserve();
    slot.buffer.fill(frame & 255);
    channel.send(slot, { metadata: frame });
    if (frame === 1000 || frame % everyFrames === 0) {
      await report(growth, child, `${frame} frames, ${rate(frame, begin)}`);
    }
  }
  return growth;
}

function rate(count: number, begin: number): string {
  return `${Math.round(count / (performance.now() - begin) * 1000)} a second`;
}

async function report(growth: Growth, child: ChildProcess, progress: string): Promise<void> {
  const { used, reserved } = pool.usage();
  const ours: Measurements = { ...measure(), reserved };
  const line = await child.nextLine();
  if (line === undefined) throw new Error(`The importer has ended: ${await child.errors()}`);
  const theirs = JSON.parse(line) as Measurements;
  growth.add([ours, theirs]);
  const [exporting, importing] = [ours, theirs].map(({ rss, heap, descriptors }) =>
    `${(heap / 2 ** 20).toFixed(1)} of ${(rss / 2 ** 20).toFixed(0)} MiB, ${descriptors} descriptors`
  );
  console.log(`${progress}; exporter ${exporting}; importer ${importing}; pool ${used} of ${reserved} bytes`);
}
