/**
 * `poolpass store`: runs a store, whose memory outlives the processes that created it.
 *
 * @module
 */
import { resolve } from "node:path";
import { savedEntries } from "../src/weights/moved_weights.ts";
import { MemoryStore, type MemoryStoreOptions, prometheusText, type StoreStatus } from "../mod.ts";
import { type Command, interrupted, readOptions, type Terminal, UsageError } from "./command_line.ts";
import { openCuda } from "./open_cuda.ts";
import { serveMetrics } from "./serve_metrics.ts";
import { printable } from "./status/table.ts";
import { parseByteLength } from "./sizes.ts";

const help = `Usage: poolpass store SOCKET [options]

Keeps memory for other processes until it is stopped: they create it, write it, publish it under a name, and map what was
published, with StoreClient. The store holds descriptors and a table. It does not map the memory or create a context.

Options:
  --device N          only this device, by its number as poolpass devices lists it; can be given several times
  --limit SIZE        the maximum amount of memory on each device, such as 64GiB
  --user-limit SIZE   the maximum amount of memory of each user
  --host SIZE         the maximum amount of host memory for what is moved from its device; otherwise, there is no limit
  --users IDS         other users who may connect, such as 1001,1002
  --evict             if there is no room, remove the least recently used memory that nobody maps
  --evict-to host     if there is no room, have clients move it to host memory instead, and back when it is mapped
  --restore FOLDER    serve what poolpass weights save has written there: it is loaded when it is mapped
  --standby SOCKET    run two stores with the same sockets: the second one has a copy of the table, and takes over
  --metrics PORT      serve numbers for Prometheus at http://127.0.0.1:PORT/metrics; 0 for any port that is free
  --driver NAME       cuda or software; otherwise, what POOLPASS_DRIVER says, or a GPU if there is one

As a service of systemd with FileDescriptorStoreMax, it has its memory again after a restart.

Examples:
  poolpass store /run/poolpass.sock --limit 64GiB
  poolpass store /run/poolpass.sock --standby /run/poolpass.standby.sock`;

const options = {
  device: { type: "strings" },
  limit: { type: "string" },
  "user-limit": { type: "string" },
  host: { type: "string" },
  users: { type: "string" },
  evict: { type: "boolean" },
  "evict-to": { type: "string" },
  restore: { type: "string" },
  standby: { type: "string" },
  metrics: { type: "string" },
  driver: { type: "string" },
} as const;

/** The command `poolpass store`. */
export const storeCommand: Command = {
  name: "store",
  summary: "keep memory after the processes that created it have ended",
  help,
  run,
};

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files: [path, ...surplus], values } = readOptions(args, options);
  if (path === undefined || surplus.length > 0) throw new UsageError("One argument is needed: the path of the socket");
  const {
    driver,
    device,
    limit,
    "user-limit": userLimit,
    host,
    users,
    evict,
    "evict-to": evictTo,
    restore,
    standby,
    metrics,
  } = values;
  if (evictTo !== undefined && evictTo !== "host") throw new UsageError(`--evict-to takes host, and not "${evictTo}"`);
  using cuda = openCuda(driver);
  const listen: MemoryStoreOptions = {
    evict: evictTo ?? evict,
    onServe: () => terminal.print(`Serving at ${printable(path)}`),
    onStandby: () => terminal.print("A standby has everything, and can take over"),
    onError: (error) => terminal.printError(error.message),
    ...limit === undefined ? {} : { maxSize: parseByteLength(limit, "--limit") },
    ...userLimit === undefined ? {} : { maxSizeOfUser: parseByteLength(userLimit, "--user-limit") },
    ...host === undefined ? {} : { maxHostSize: parseByteLength(host, "--host") },
    ...users === undefined ? {} : { users: users.split(",").map((user) => parseNumber(user, "--users")) },
    ...standby === undefined ? {} : { standby },
  };
  if (device.length > 0) listen.devices = device.map((number) => cuda.device(parseNumber(number, "--device")));
  if (restore !== undefined) {
    const { entries, refused } = await savedEntries(resolve(restore), listen.devices ?? cuda.devices);
    for (const { name, error } of refused) {
      terminal.printError(`${printable(name)}: not restored: ${printable(error.message)}`);
    }
    listen.saved = entries;
  }
  await using served = MemoryStore.listen(cuda, path, listen);
  if (!served.isServing) terminal.print(`Standing by for the store at ${printable(path)}`);
  await using server = metrics === undefined
    ? undefined
    : await serveMetrics(parseNumber(metrics, "--metrics"), () => textOf(served.status()));
  if (server !== undefined) terminal.print(`Serving the numbers at ${server.url}`);
  await interrupted(terminal.signal);
  return 0;
}

function textOf(status: StoreStatus | undefined): string {
  if (status === undefined) throw new Error("This store stands by for another one, which has the numbers");
  return prometheusText(status);
}

function parseNumber(text: string, option: string): number {
  if (!/^\d{1,10}$/.test(text)) throw new UsageError(`${option} takes whole numbers, and "${text}" was given`);
  return Number(text);
}
