/**
 * Measures what a hostile importer costs its exporter that releases a buffer with events that never fire.
 *
 *     deno task bench unfired
 *
 * Needs no GPU, because it uses the software device, and python3 for the importer, which shares no code with the
 * library. Prints a table and writes no files.
 *
 * @module
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { formatTable } from "../../examples/table.ts";
import { Exporter, open } from "../../mod.ts";
import { startHostile } from "../../tests/sharing/hostile/hostile_peers.ts";
import { readOptions } from "../harness/options.ts";

readOptions(import.meta.url, {});

const eventsPerConnection = 1024;
const numbersOfConnections = [1, 8];
/** The seconds for which the exporter's processor time is measured, from the moment that all events are lent. */
const seconds = [1, 4];

/** Returns the share of a processor that this process takes while it waits. */
async function shareOf(seconds: number): Promise<string> {
  const before = process.cpuUsage();
  const begin = performance.now();
  await sleep(1000 * seconds);
  const { user, system } = process.cpuUsage(before);
  return `${((user + system) / 10 / (performance.now() - begin)).toFixed(1)} %`;
}

using cuda = open({ driver: "software" });
using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
using buffer = pool.allocate(64);
const folder = Deno.makeTempDirSync();
const rows: string[][] = [];
for (const connections of numbersOfConnections) {
  const path = `${folder}/${connections}.sock`;
  await using exporter = Exporter.listen(path, { closeTimeout: 0 });
  exporter.offer("bait", buffer);
  const uuid = cuda.device(0).uuid.replace("GPU-", "").replaceAll("-", "");
  const row = [`${connections} x ${eventsPerConnection}`, await shareOf(1)];
  await using hoarder = startHostile("event_hoarders.py", [path, "bait", uuid, connections, eventsPerConnection]);
  await hoarder.nextLine();
  while (exporter.leases.length < connections) await sleep(10);
  for (const each of seconds) row.push(await shareOf(each));
  hoarder.kill("SIGUSR1");
  await hoarder.nextLine();
  while (exporter.importers.length > 0) await sleep(10);
  for (const each of seconds) row.push(await shareOf(each));
  rows.push(row);
}
Deno.removeSync(folder, { recursive: true });
console.log(formatTable([
  ["events that never fire", "before", "first second", "next 4 s", "first second after the end", "next 4 s"],
  ...rows,
]));
