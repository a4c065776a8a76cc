/**
 * Measures how long an honest importer waits for an exporter, alone and beside processes that attack one of them.
 *
 *     deno task bench attacks [--rounds 300] [--only NAME]
 *
 * Needs no GPU, because it uses the software device. Prints a table and writes no files.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { type Cuda, Importer, open } from "../../mod.ts";
import type { Role } from "./roles.ts";
import { describeProcessor } from "../harness/machine.ts";
import { quantile, type Times } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { commandIn } from "../harness/runtimes.ts";

const attacks: readonly (Role | "alone")[] = [
  "alone",
  "silent connections",
  "event hoarder",
  "frame hoarder",
  "flood of offers",
];
/** The number of untimed rounds that come first. */
const warmUp = 50;
/** Milliseconds of pause before a round, plus a random part of up to as much. */
const pause = 5;
/** Milliseconds after which a round has failed, and for an attack to begin. */
const [roundTimeout, startTimeout] = [30_000, 60_000];

/** What the rounds beside an attack have shown. */
interface Result {
  /** The milliseconds of the rounds that were served. */
  readonly times: Times;
  /** The errors of the others. */
  readonly failures: readonly string[];
}

const { rounds, only } = readOptions(import.meta.url, { rounds: 300, only: "" });
console.log(`${describeProcessor()}; ${rounds} rounds each`);
const rows = [["milliseconds", "p50", "p99", "maximum", "not served"]];
for (const attack of attacks) {
  if (!attack.includes(only)) continue;
  const { times, failures } = await measure(attack);
  const numbers = times.length === 0
    ? ["", "", ""]
    : [quantile(times, 0.5), quantile(times, 0.99), Math.max(...times)].map((time) => time.toFixed(2));
  rows.push([attack, ...numbers, describe(failures)]);
}
console.log(`\n${formatTable(rows)}`);

async function measure(attack: Role | "alone"): Promise<Result> {
  const folder = mkdtempSync(`${tmpdir()}/poolpass-attacks-`);
  using cleanup = new DisposableStack();
  cleanup.defer(() => rmSync(folder, { recursive: true }));
  await using _exporter = await start("exporter", `${folder}/exporter`);
  using cuda = open({ driver: "software" });
  const times: number[] = [];
  const failures: string[] = [];
  for (let round = 0; round < warmUp; round++) await serve(cuda, `${folder}/exporter`);
  // A flood comes to those that connect to the attacker; the other attacks go to the exporter.
  const isFlood = attack === "flood of offers";
  await using _attacker = attack === "alone"
    ? undefined
    : await start(attack, isFlood ? `${folder}/attacker` : `${folder}/exporter`);
  const over = new AbortController();
  const drained = isFlood ? drain(cuda, `${folder}/attacker`, over.signal) : undefined;
  for (let round = 0; round < rounds; round++) {
    await sleep(pause * (1 + Math.random()));
    const begin = performance.now();
    try {
      await serve(cuda, `${folder}/exporter`);
      times.push(performance.now() - begin);
    } catch (error) {
      failures.push((error as { code?: string }).code ?? String(error));
    }
  }
  over.abort();
  await drained;
  return { times, failures };
}

/** What an honest importer does: connects, maps an offer, reads it, releases it and says goodbye. */
async function serve(cuda: Cuda, path: string): Promise<void> {
  const signal = AbortSignal.timeout(roundTimeout);
  await using importer = await Importer.connect(cuda, path, { signal });
  const offer = await importer.offer("weights", { signal });
  using buffer = await offer.map({ signal });
  const [byte] = await buffer.read(Uint8Array, { length: 1, signal });
  if (byte !== 7) throw new Error(`The weights are ${byte}`);
}

/** Receives whatever an exporter offers, and connects again when the connection ends. */
async function drain(cuda: Cuda, path: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await using importer = await Importer.connect(cuda, path, { signal, closeTimeout: 0 });
      for await (const _offer of importer.offers({ signal }));
    } catch {
      // The flood was ended, or the measurement is over.
    }
    await sleep(pause);
  }
}

/** Starts a process and resolves when it is ready. */
async function start(role: Role, path: string): Promise<AsyncDisposable> {
  const program = fileURLToPath(new URL("./roles.ts", import.meta.url));
  const [command, ...args] = commandIn("deno", program, ["--allow-ffi"]);
  const child = new Deno.Command(command, { args: [...args, role, path], stdout: "piped", stderr: "inherit" }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), startTimeout);
  const reader = child.stdout.getReader();
  const { done } = await reader.read();
  clearTimeout(timer);
  if (done) throw new Error(`The process with the role "${role}" did not begin`);
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
    },
  };
}

/** Lists errors with their numbers. */
function describe(failures: readonly string[]): string {
  const counts = Map.groupBy(failures, (failure) => failure);
  return [...counts].map(([failure, all]) => `${all.length} ${failure}`).join(", ");
}
