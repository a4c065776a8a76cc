/**
 * Measures what waiting for another process costs in the current runtime. `../waking.ts` starts this program in each
 * runtime. Prints one line of JSON, a `WakingResult`.
 *
 *     measure.ts ROUNDS
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { Exporter, type Offer, open, UnixListener } from "../../mod.ts";
import { startChild } from "../../examples/child_process.ts";
import type { Times } from "../harness/measurement.ts";
import type { Role } from "./partner.ts";
import { idleShare } from "./idle.ts";
import { type IdleShares, pauseMilliseconds, type WakingResult } from "./results.ts";

/** The number of untimed samples that come first. Engines optimize code only after it has run for a while. */
const warmUp = 200;
/** Samples per round, by the length of the pause before each sample. Samples after long pauses are fewer. */
const samplesPerRound: Readonly<Record<number, number>> = { 0: 25, 20: 1, 120: 0.25 };
const deathsPerRound = 0.4;
/**
 * The random part of a pause, in milliseconds, so that pauses end at any moment between two polls of the other process.
 */
const pauseJitter = 5;
const byteLength = 2 ** 20;

const [rounds] = process.argv.slice(2).map(Number) as [number];
const folder = mkdtempSync(`${tmpdir()}/poolpass-waking-`);
using cleanup = new DisposableStack();
cleanup.defer(() => rmSync(folder, { recursive: true }));
using cuda = open({ driver: "software" });
const device = cuda.device(0);
using stream = device.createStream({ nonBlocking: true });
using pool = device.createPool({ handleType: "posix-fd" });
using buffer = pool.allocate(byteLength, stream);
await using listener = UnixListener.listen(`${folder}/socket`);

/** The other process. */
interface Partner {
  /** Aborted if the process fails. */
  readonly signal: AbortSignal;
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  kill(): void;
}

function startPartner(role: Role, connections = 0): Partner {
  const program = new URL("./partner.ts", import.meta.url);
  const { exited, kill } = startChild(program, { args: [role, folder, connections.toString()] });
  const failed = new AbortController();
  const ended = exited.then((code) => {
    if (code !== 0) failed.abort(new Error(`The partner process with the role "${role}" ended with exit code ${code}`));
  });
  return { signal: failed.signal, ended, kill: () => kill("SIGKILL") };
}

/** Samples an operation, which resolves to its duration, after each of the pauses. */
async function timeWaits(sample: () => Promise<number>): Promise<Times[]> {
  for (let i = 0; i < warmUp; i++) await sample();
  const results: Times[] = [];
  for (const milliseconds of pauseMilliseconds) {
    const times: number[] = [];
    const samples = Math.ceil(rounds * samplesPerRound[milliseconds]!);
    for (let i = 0; i < samples; i++) {
      if (milliseconds > 0) await sleep(milliseconds + Math.random() * pauseJitter);
      times.push(await sample());
    }
    results.push(times);
  }
  return results;
}

async function timeBytes(): Promise<Times[]> {
  const { signal, ended } = startPartner("echo");
  await using socket = await listener.accept({ signal });
  const byte = new Uint8Array(1);
  const times = await timeWaits(async () => {
    const start = performance.now();
    await socket.send(byte);
    await socket.receive(1);
    return performance.now() - start;
  });
  await socket[Symbol.asyncDispose]();
  await ended;
  return times;
}

/** Times an offer until `isComplete` resolves, and then withdraws the offer. */
async function timeOffer(
  { exporter, signal, isComplete }: {
    exporter: Exporter;
    signal: AbortSignal;
    isComplete: (offer: Offer) => Promise<unknown>;
  },
): Promise<number> {
  const start = performance.now();
  const offer = exporter.offer("buffer", buffer);
  await isComplete(offer);
  const time = performance.now() - start;
  await offer.released({ signal });
  offer.withdraw();
  await offer.ended();
  return time;
}

/** Times offers until the other process has mapped them and sent a byte. */
async function timeMappings(): Promise<Times[]> {
  await using exporter = listen();
  const { signal, ended } = startPartner("mapAndReport");
  await using socket = await listener.accept({ signal });
  const times = await timeWaits(() => timeOffer({ exporter, signal, isComplete: () => socket.receive(1) }));
  await exporter[Symbol.asyncDispose]();
  await ended;
  return times;
}

/** Times offers until this process knows that the other process has mapped and released them. */
async function timeReleases(): Promise<Times[]> {
  await using exporter = listen();
  const { signal, ended } = startPartner("map");
  const isComplete = (offer: Offer) => offer.released({ signal });
  const times = await timeWaits(() => timeOffer({ exporter, signal, isComplete }));
  await exporter[Symbol.asyncDispose]();
  await ended;
  return times;
}

/** Times the detection of deaths: kills idle processes that have mapped an offer. */
async function timeDeaths(): Promise<Record<string, Times>> {
  await using exporter = listen();
  const released: number[] = [];
  const exited: number[] = [];
  const deaths = Math.ceil(rounds * deathsPerRound);
  for (let i = 0; i < deaths; i++) {
    const offer = exporter.offer("held", buffer);
    const { signal, ended, kill } = startPartner("hold");
    await receiveFromPartner(1, signal);
    await sleep(pauseMilliseconds.at(-1)! + Math.random() * pauseJitter);
    const start = performance.now();
    kill();
    await Promise.all([
      offer.released().then(() => released.push(performance.now() - start)),
      ended.then(() => exited.push(performance.now() - start)),
    ]);
    offer.withdraw();
    await offer.ended();
  }
  return { "the exporter knows that the lease has ended": released, "the runtime reports the child's exit": exited };
}

async function measureIdle(connections: number): Promise<IdleShares> {
  await using _exporter = listen();
  const { signal, ended } = startPartner("idle", connections);
  await receiveFromPartner(1, signal);
  const share = await idleShare();
  const { buffer: bytes } = await receiveFromPartner(Float64Array.BYTES_PER_ELEMENT, signal);
  await ended;
  return { connections, exporter: share, importer: new Float64Array(bytes)[0]! };
}

function listen(): Exporter {
  return Exporter.listen(`${folder}/exporter`);
}

/** Resolves to the bytes that the partner sends on a new connection. */
async function receiveFromPartner(byteLength: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  await using socket = await listener.accept({ signal });
  return (await socket.receive(byteLength)).bytes;
}

const result: WakingResult = {
  waits: {
    "byte sent and returned": await timeBytes(),
    "offer mapped, byte returned": await timeMappings(),
    "offer mapped and released": await timeReleases(),
  },
  deaths: await timeDeaths(),
  idle: [await measureIdle(1), await measureIdle(16)],
};
console.log(JSON.stringify(result));
