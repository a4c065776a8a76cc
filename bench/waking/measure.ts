/**
 * Measures what waiting for another process costs in the runtime that it runs in. A program of its own, which
 * `../waking.ts` starts in each. Prints one line of JSON, a `WakingResult`.
 *
 *     measure.ts ROUNDS
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import process from "node:process";
import { Exporter, type Offer, open, UnixListener } from "../../mod.ts";
import { startChild } from "../../examples/child_process.ts";
import type { Times } from "../measurement.ts";
import type { Role } from "./partner.ts";
import { idleShare, rest } from "./rest.ts";
import { type IdleShares, restMilliseconds, type WakingResult } from "./results.ts";

/** Engines make code fast once it has run for a while. */
const warmUp = 200;
/** Samples for each round, by the milliseconds of rest before: those that take long are fewer. */
const samplesPerRound: Readonly<Record<number, number>> = { 0: 25, 20: 1, 120: 0.25 };
const deathsPerRound = 0.4;
/** Rests differ by so many milliseconds, so that they end at any moment between two looks of the other process. */
const restSpread = 5;
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

interface Partner {
  /** Aborted when it fails. */
  readonly signal: AbortSignal;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
  kill(): void;
}

function startPartner(role: Role, connections = 0): Partner {
  const program = new URL("./partner.ts", import.meta.url);
  const { exited, kill } = startChild(program, { args: [role, folder, connections.toString()] });
  const failed = new AbortController();
  const ended = exited.then((code) => {
    if (code !== 0) failed.abort(new Error(`The process that was to ${role} has ended with code ${code}`));
  });
  return { signal: failed.signal, ended, kill: () => kill("SIGKILL") };
}

/** The times of an operation, which gives how long it took, for each of the rests before it. */
async function timeWaits(sample: () => Promise<number>): Promise<Times[]> {
  for (let i = 0; i < warmUp; i++) await sample();
  const results: Times[] = [];
  for (const milliseconds of restMilliseconds) {
    const times: number[] = [];
    const samples = Math.ceil(rounds * samplesPerRound[milliseconds]!);
    for (let i = 0; i < samples; i++) {
      if (milliseconds > 0) await rest(milliseconds + Math.random() * restSpread);
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

/** How long it takes from an offer until what is waited for; then the offer is taken back. */
async function timeOffer(
  { exporter, signal, isThere }: {
    exporter: Exporter;
    signal: AbortSignal;
    isThere: (offer: Offer) => Promise<unknown>;
  },
): Promise<number> {
  const start = performance.now();
  const offer = exporter.offer("buffer", buffer);
  await isThere(offer);
  const time = performance.now() - start;
  await offer.released({ signal });
  offer.withdraw();
  await offer.ended();
  return time;
}

/** Until the other process has said by a byte that it has mapped the offer. */
async function timeMappings(): Promise<Times[]> {
  await using exporter = listen();
  const { signal, ended } = startPartner("mapAndSay");
  await using socket = await listener.accept({ signal });
  const times = await timeWaits(() => timeOffer({ exporter, signal, isThere: () => socket.receive(1) }));
  await exporter[Symbol.asyncDispose]();
  await ended;
  return times;
}

/** Until this process knows that the other has mapped the offer and released it. */
async function timeReleases(): Promise<Times[]> {
  await using exporter = listen();
  const { signal, ended } = startPartner("map");
  const isThere = (offer: Offer) => offer.released({ signal });
  const times = await timeWaits(() => timeOffer({ exporter, signal, isThere }));
  await exporter[Symbol.asyncDispose]();
  await ended;
  return times;
}

/** From the moment at which a process that has mapped an offer, and rests, is killed. */
async function timeDeaths(): Promise<Record<string, Times>> {
  await using exporter = listen();
  const released: number[] = [];
  const exited: number[] = [];
  const deaths = Math.ceil(rounds * deathsPerRound);
  for (let i = 0; i < deaths; i++) {
    const offer = exporter.offer("held", buffer);
    const { signal, ended, kill } = startPartner("hold");
    await hear(1, signal);
    await rest(restMilliseconds.at(-1)! + Math.random() * restSpread);
    const start = performance.now();
    kill();
    await Promise.all([
      offer.released().then(() => released.push(performance.now() - start)),
      ended.then(() => exited.push(performance.now() - start)),
    ]);
    offer.withdraw();
    await offer.ended();
  }
  return { "the exporter knows that its lease is over": released, "the runtime says that its child is gone": exited };
}

async function measureIdle(connections: number): Promise<IdleShares> {
  await using _exporter = listen();
  const { signal, ended } = startPartner("idle", connections);
  await hear(1, signal);
  const share = await idleShare();
  const { buffer: bytes } = await hear(Float64Array.BYTES_PER_ELEMENT, signal);
  await ended;
  return { connections, exporter: share, importer: new Float64Array(bytes)[0]! };
}

function listen(): Exporter {
  return Exporter.listen(`${folder}/exporter`);
}

/** What a partner says, which then closes the connection. */
async function hear(byteLength: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  await using socket = await listener.accept({ signal });
  return (await socket.receive(byteLength)).bytes;
}

const result: WakingResult = {
  waits: {
    "a byte there and back": await timeBytes(),
    "an offer until it is mapped, and a byte back": await timeMappings(),
    "an offer until it is mapped and released": await timeReleases(),
  },
  deaths: await timeDeaths(),
  idle: [await measureIdle(1), await measureIdle(16)],
};
console.log(JSON.stringify(result));
