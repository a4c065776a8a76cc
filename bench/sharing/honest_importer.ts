/**
 * Measures how soon an importer is served while other processes take as many connections as they can.
 *
 *     deno run -A --import-map import_map.json bench/sharing/honest_importer.ts [--rounds 200]
 *
 * Needs no GPU, because it uses the software device. Needs python3. Prints a table and writes no files.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../../examples/table.ts";
import { Exporter, Importer, open } from "../../mod.ts";
import { quantile } from "../channel/statistics.ts";

/** The attacks: a script of tests/sharing/hostile and its arguments, after the path. */
const attacks: Readonly<Record<string, readonly string[]>> = {
  "alone": [],
  "900 silent connections": ["silent_importers.py", "900", "once"],
  "silent connections, again and again": ["silent_importers.py", "900"],
};

const { rounds } = parseArgs(Deno.args, { string: ["rounds"], default: { rounds: "200" } });
using cuda = open({ driver: "software" });
using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
const rows: string[][] = [];
for (const [attack, args] of Object.entries(attacks)) rows.push([attack, ...await measure(args)]);
console.log(`${cpus().length} cores of ${cpus()[0]?.model}\n`);
console.log(formatTable([["milliseconds to be served", "median", "90 %", "99 %", "maximum"], ...rows]));

async function measure([script, ...args]: readonly string[]): Promise<string[]> {
  const folder = Deno.makeTempDirSync();
  await using exporter = Exporter.listen(`${folder}/exporter`);
  using buffer = pool.allocate(64);
  exporter.offer("buffer", buffer);
  const attacker = script === undefined ? undefined : await start(script, [exporter.path, ...args]);
  const times: number[] = [];
  for (let round = 0; round < Number(rounds); round++) {
    const begin = performance.now();
    const importer = await Importer.connect(cuda, exporter.path);
    const offer = await importer.offer("buffer");
    (await offer.map()).free();
    times.push(performance.now() - begin);
    await importer[Symbol.asyncDispose]();
  }
  attacker?.kill("SIGKILL");
  return [...[0.5, 0.9, 0.99].map((part) => quantile(times, part)), Math.max(...times)].map((time) => time.toFixed(1));
}

/** Starts an attack, and waits until it is under way. */
async function start(script: string, args: readonly string[]): Promise<ReturnType<typeof spawn>> {
  const path = fileURLToPath(new URL(`../../tests/sharing/hostile/${script}`, import.meta.url));
  const child = spawn("python3", [path, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  return child;
}
