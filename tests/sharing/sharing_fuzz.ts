/**
 * Sends streams of invalid messages through the parser and into a live end of sharing: half of them into an exporter,
 * half into importers. They bring descriptors of every kind. They must cause nothing but typed errors, must not stop
 * this process's event loop, must not disturb a well-behaved bystander, and must leave no resources once their process
 * has ended.
 *
 * deno run --allow-all --v8-flags=--expose-gc tests/sharing/sharing_fuzz.ts --streams 200000 --seed 1
 *
 * @module
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Cuda } from "../../src/objects/cuda.ts";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import { open } from "../../src/open.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import type { RemoteOffer } from "../../src/sharing/importer/remote_offer.ts";
import { startScript } from "../support/child_process.ts";
import { countResources, difference, type Resources } from "../support/resources.ts";
import { isLegal } from "./protocol/mutations.ts";
import { answerHelp } from "../support/program_help.ts";

/** The options of `fuzz`. */
export interface FuzzOptions {
  readonly streams: number;
  /** Seed of the first stream. Each further stream has the next seed. */
  readonly seed: number;
}

/** The results of the streams. */
export interface FuzzSummary {
  /** Number of connections to the exporter by their end: the code of their error, or "goodbye". */
  readonly exporter: ReadonlyMap<string, number>;
  /** Number of ends of importers' connections, and of failed uses of offers, by code. */
  readonly importer: ReadonlyMap<string, number>;
  /** Numbers of valid sessions, which must end with "goodbye". */
  readonly legal: { readonly exporter: number; readonly importer: number };
  /** Number of frames sent to the bystander meanwhile. */
  readonly frames: number;
  readonly seconds: number;
  /** The longest time in milliseconds for which the event loop did not run, after the first batches. */
  readonly standstill: number;
  /** Why no files of FUSE were sent, or undefined if they were. */
  readonly withoutFuse: string | undefined;
  /** MiB of the heap in use after the first batch of streams, and at the end. Includes garbage unless gc is exposed. */
  readonly megabytes: readonly [early: number, late: number];
}

/** The streams of one process. */
interface FuzzerOptions extends FuzzOptions {
  /** The socket from which files of FUSE come, if there are any. */
  readonly dealer: string | undefined;
}

/** Number of streams for which one pair of processes is started. Half of them go to the exporter. */
const batchSize = 1000;
/** In these batches a runtime creates what it creates on first use and keeps. */
const warmUpBatches = 3;
const warmUpSize = 100;
/** Milliseconds in which all resources of an ended process must be released. */
const promptly = 1000;
/** Milliseconds for a batch. */
const batchTimeout = 60_000;
/** Milliseconds to wait for a slot, beside processes that send without pause. */
const frameTimeout = 10_000;
/** Number of concurrent importers. */
const importers = 8;
/**
 * Limit on the mappings of the test's process between batches: those of its pools, of its own events, and of the events
 * that the bystander lends it at a time.
 */
const maximumMappings = 64;
/** Milliseconds for which the event loop may stand still. */
const maximumStandstill = 2000;
/** Milliseconds between two frames to the bystander. */
const framePause = 10;

/** Sends the streams, and throws on any unexpected outcome. */
export async function fuzz({ streams, seed }: FuzzOptions): Promise<FuzzSummary> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    return await fuzzIn(folder, { streams, seed });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function fuzzIn(folder: string, { streams, seed }: FuzzOptions): Promise<FuzzSummary> {
  await using stack = new AsyncDisposableStack();
  const cuda = stack.use(open({ driver: "software" }));
  const pool = stack.use(cuda.device(0).createPool({ handleType: "posix-fd" }));
  const dealer = stack.use(await startDealer(folder));
  const outcomes = { exporter: new Map<string, number>(), importer: new Map<string, number>() };
  const legal = { exporter: 0, importer: 0 };
  const exporter = stack.use(Exporter.listen(`${folder}/fuzzed`, {
    closeTimeout: 0,
    onDisconnect: ({ pid }, error) => {
      if (pid !== bystander.pid) count(outcomes.exporter, error);
    },
  }));
  const weights = stack.use(pool.allocateArray(Uint32Array, 1024));
  weights.fill(0);
  weights.copyFrom(Uint32Array.of(7));
  exporter.offer("weights", weights);
  const dropping = exporter.createChannel("dropping", { pool, slots: 4, slotByteLength: 4, overflow: "drop-oldest" });
  exporter.offer("everything", pool);
  const quiet = stack.use(Exporter.listen(`${folder}/quiet`, { closeTimeout: 0 }));
  const frames = quiet.createChannel("frames", { pool, slots: 4, slotByteLength: 4 });
  const bystander = stack.use(startScript(
    "children/sharing/abuse_bystander.ts",
    [quiet.path, `${folder}/bystander`, exporter.path],
  ));
  if (await bystander.nextLine() !== "ready") throw new Error(await bystander.errors());

  let frame = 0;
  /** Sends a frame to the bystander, and one to the fuzzers. */
  async function sendFrames(): Promise<void> {
    const signal = AbortSignal.timeout(frameTimeout);
    for (const channel of [frames, dropping]) {
      using slot = channel === frames || channel.freeSlots > 0 ? await channel.reserve({ signal }) : undefined;
      if (slot === undefined) continue;
      slot.buffer.copyFrom(Uint32Array.of(++frame));
      channel.send(slot, { metadata: frame });
    }
  }
  /** Checks that the bystander is served, and that ended processes hold nothing. */
  async function checkRest(): Promise<void> {
    await sendFrames();
    await until(() => frames.freeSlots === 4, "A frame was not released");
    const isRest = (): boolean =>
      exporter.leases.every(({ peer }) => peer.pid === bystander.pid) && exporter.importers.length === 1;
    await until(isRest, "The leases of an ended process stay");
  }

  const since = performance.now();
  let before: Resources | undefined;
  let early = 0;
  let batches = 0;
  let standstill = 0;
  for (let begun = 0, batch: number; begun < streams; begun += batch) {
    batch = Math.min(batches < warmUpBatches ? warmUpSize : batchSize, streams - begun);
    const first = seed + begun;
    const half = Math.ceil(batch / 2);
    for (let seed = first; seed < first + batch; seed++) {
      if (isLegal(seed)) legal[seed < first + half ? "exporter" : "importer"]++;
    }
    const onUncaught = (error: unknown): void => {
      console.error(`Uncaught in the batch of ${batch} streams from seed ${first} on:`, error);
      process.exit(1);
    };
    process.on("uncaughtException", onUncaught);
    process.on("unhandledRejection", onUncaught);
    let isOver = false;
    const frameLoop = (async () => {
      while (!isOver) {
        await sendFrames();
        const paused = performance.now();
        await new Promise((resolve) => setTimeout(resolve, framePause));
        const late = performance.now() - paused - framePause;
        if (late > maximumStandstill) throw new Error(`The event loop stood still for ${late.toFixed()} ms`);
        if (before !== undefined) standstill = Math.max(standstill, late);
      }
    })();
    try {
      await within(batchTimeout, [
        fuzzExporter(exporter.path, { seed: first, streams: half, dealer: dealer.path }),
        fuzzImporter(`${folder}/false`, {
          cuda,
          seed: first + half,
          streams: batch - half,
          dealer: dealer.path,
          onError: (error) => count(outcomes.importer, error),
        }),
      ]);
      isOver = true;
      await frameLoop;
      await checkRest();
      batches++;
      if (batches === warmUpBatches) {
        before = descriptors();
        early = usedMegabytes();
      } else if (before !== undefined) {
        const known = before;
        await until(() => isNoMore(known, descriptors()), () => difference(known, descriptors()));
        const mappings = countResources().get("mapping") ?? 0;
        if (mappings > maximumMappings) throw new Error(`There are ${mappings} mappings`);
      }
    } catch (error) {
      throw new Error(`A batch of ${batch} streams from seed ${first} on failed`, { cause: error });
    } finally {
      isOver = true;
      process.off("uncaughtException", onUncaught);
      process.off("unhandledRejection", onUncaught);
    }
  }
  const seconds = (performance.now() - since) / 1000;
  bystander.kill("SIGKILL");
  await bystander.ended;
  for (const channel of [frames, dropping]) await channel[Symbol.asyncDispose]();
  weights.free();
  await until(() => pool.usage().used === 0, "The memory is not free");
  const megabytes: [number, number] = [early, usedMegabytes()];
  return { ...outcomes, legal, frames: frames.sent, seconds, standstill, withoutFuse: dealer.refusal, megabytes };
}

/** Sends half of the streams to the exporter. */
async function fuzzExporter(path: string, options: FuzzerOptions): Promise<void> {
  await using child = startFuzzer("importer", path, options);
  if (await child.nextLine() !== "done") throw new Error(await child.errors());
  await child.ended;
}

/** Receives half of the streams in several concurrent importers. */
async function fuzzImporter(
  path: string,
  { cuda, onError, ...options }: FuzzerOptions & { cuda: Cuda; onError: (error: unknown) => void },
): Promise<void> {
  const { streams } = options;
  if (streams === 0) return;
  await using child = startFuzzer("exporter", path, options);
  if (await child.nextLine() !== "ready") throw new Error(await child.errors());
  let begun = 0;
  await Promise.all(Array.from({ length: importers }, async () => {
    while (begun++ < streams) await useOnce(cuda, path, onError);
  }));
  if (await child.nextLine() !== "done") throw new Error(await child.errors());
  await child.ended;
}

function startFuzzer(mode: "importer" | "exporter", path: string, { seed, streams, dealer }: FuzzerOptions) {
  const args = [mode, path, String(seed), String(streams), ...dealer === undefined ? [] : [dealer]];
  // A device file, among others, takes every permission.
  return startScript("children/sharing/abuse_fuzzer.ts", args, { permissions: ["--allow-all"] });
}

/** Starts the process that gives files of FUSE. It needs root, FUSE and Python; `path` is undefined without them. */
async function startDealer(
  folder: string,
): Promise<AsyncDisposable & { readonly path: string | undefined; readonly refusal: string | undefined }> {
  const [mount, path] = [`${folder}/files`, `${folder}/dealer`];
  mkdirSync(mount);
  const program = fileURLToPath(new URL("./hostile/descriptor_dealer.py", import.meta.url));
  const child = spawn("python3", [program, mount, path], { stdio: ["pipe", "pipe", "ignore"] });
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  const answer = await Promise.race([
    new Promise<string>((resolve) => child.stdout.once("data", (data) => resolve(String(data).trim()))),
    ended.then(() => "python3 does not run"),
  ]);
  return {
    path: answer === "ready" ? path : undefined,
    refusal: answer === "ready" ? undefined : answer,
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await ended;
    },
  };
}

/** Connects, uses every offer, and disconnects when the connection ends. */
async function useOnce(cuda: Cuda, path: string, onError: (error: unknown) => void): Promise<void> {
  let importer: Importer;
  try {
    importer = await Importer.connect(cuda, path, { closeTimeout: 0 });
  } catch (error) {
    return onError(error);
  }
  await using connected = importer;
  const uses: Promise<void>[] = [];
  try {
    for await (const offer of connected) uses.push(use(connected, offer).catch(onError));
    onError(undefined);
  } catch (error) {
    onError(error);
  }
  await Promise.all(uses);
}

async function use(importer: Importer, offer: RemoteOffer): Promise<void> {
  switch (offer.kind) {
    case "buffer": {
      using buffer = await offer.map();
      await buffer.read(Uint8Array);
      break;
    }
    case "pool": {
      using _pool = offer.importPool();
      break;
    }
    case "channel": {
      await using consumer = await importer.channel(offer.name);
      for await (const slot of consumer) slot.release();
    }
  }
}

function count(outcomes: Map<string, number>, error: unknown): void {
  const isTyped = error === undefined || error instanceof SharingError || error instanceof CudaError;
  if (!isTyped) throw new Error("An error is neither a SharingError nor a CudaError", { cause: error });
  const code = error === undefined ? "goodbye" : (error as SharingError | CudaError).code;
  outcomes.set(code, (outcomes.get(code) ?? 0) + 1);
}

async function within(milliseconds: number, promises: readonly Promise<void>[]): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Something waits for more than ${milliseconds} ms`)), milliseconds);
  });
  await Promise.race([Promise.all(promises), late]).finally(() => clearTimeout(timer));
}

/** Counts all resources except mappings. */
function descriptors(): Resources {
  return new Map([...countResources()].filter(([kind]) => kind !== "mapping"));
}

function isNoMore(before: Resources, after: Resources): boolean {
  return after.entries().every(([kind, count]) => count <= (before.get(kind) ?? 0));
}

async function until(isSo: () => boolean, what: string | (() => string)): Promise<void> {
  const deadline = performance.now() + promptly;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error(`${typeof what === "string" ? what : what()} for ${promptly} ms`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

function usedMegabytes(): number {
  (globalThis as { gc?: () => void }).gc?.();
  return Math.round(process.memoryUsage().heapUsed / 2 ** 20);
}

if (import.meta.main) {
  answerHelp(import.meta.url, ["streams", "seed"]);
  const { values } = parseArgs({ options: { streams: { type: "string" }, seed: { type: "string" } } });
  const streams = Number(values.streams ?? 200_000);
  const seed = Number(values.seed ?? 1);
  const { exporter, importer, frames, seconds, standstill, withoutFuse, megabytes: [early, late] } = await fuzz({
    streams,
    seed,
  });
  const list = (outcomes: ReadonlyMap<string, number>) => [...outcomes].map(([code, n]) => `${code} ${n}`).join(", ");
  console.log(
    `${streams} streams from seed ${seed} on in ${seconds.toFixed(1)} s, ${
      withoutFuse === undefined ? "with files of FUSE" : `without files of FUSE (${withoutFuse})`
    }; exporter: ${list(exporter)}; importers: ${
      list(importer)
    }; ${frames} frames to the bystander; the event loop stood still for ${standstill.toFixed()} ms at most; ${early} MiB of the heap early, ${late} MiB late`,
  );
}
