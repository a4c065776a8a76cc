/**
 * `poolpass weights`: publishes safetensors files in a store, lists and verifies the weights there, moves them to host
 * memory or files and back, and saves and restores them.
 *
 * @module
 */
import { type Cuda, StoreClient, type StoreEntry } from "../mod.ts";
import { resolve } from "node:path";
import {
  mapWeights,
  offloadWeights,
  publishWeights,
  restoreWeights,
  type SavedWeights,
  saveWeights,
} from "../weights.ts";
import { summaryOfWeights } from "../src/weights/weights_metadata.ts";
import { type Command, readOptions, type Terminal, UsageError } from "./command_line.ts";
import { openCuda } from "./open_cuda.ts";
import { formatTable, printable } from "./status/table.ts";
import { formatBytes, formatCount } from "./status/units.ts";

const help = `Usage: poolpass weights publish FILE --name NAME --store SOCKET [options]
       poolpass weights list --store SOCKET [options]
       poolpass weights verify NAME --store SOCKET [options]
       poolpass weights offload NAME --to host|FOLDER --store SOCKET [options]
       poolpass weights wake NAME --store SOCKET [options]
       poolpass weights save FOLDER [NAME...] --store SOCKET [options]
       poolpass weights restore FOLDER --store SOCKET [options]

Weights that stay on the GPU: publish loads a safetensors file into a store, from which other processes map it by its
name. A model in several files is published by the path of its index, such as model.safetensors.index.json. Weights have
a revision, a digest of their names, dtypes, shapes and bytes. verify computes the digest of what is in memory now, and
fails if it is not the one that was published; NAME may be NAME@DIGEST, with at least 8 digits.

offload moves weights to host memory of the store, or to a safetensors file in a folder, and frees the GPU's memory; no
process may have them mapped. wake brings them back now; a process that maps them brings them back, too. save writes the
weights of a store to files in a folder, and restore publishes them again, for instance after a reboot. What cannot be
saved or restored is named, and the rest is done; the exit status is 1 then. All of this concerns all ranks of a name.

Options:
  --store SOCKET  the socket of the store, as it was given to poolpass store
  --name NAME     the name to publish the weights under
  --keep          publish weights that the store never evicts to make room
  --verify        publish only if the CPU computes the same digest from the file
  --to PLACE      where offload moves the weights: host, or a folder
  --timeout N     how many seconds offload waits for processes that have the weights mapped; otherwise, not at all
  --device N      the device to load them on, by its number as poolpass devices lists it; otherwise, the first
  --json          print the list as JSON
  --driver NAME   cuda or software; otherwise, what POOLPASS_DRIVER says, or a GPU if there is one

Examples:
  poolpass weights publish model.safetensors --name llama-8b --store /run/poolpass.sock
  poolpass weights list --store /run/poolpass.sock
  poolpass weights verify llama-8b@3fa9c1d2 --store /run/poolpass.sock
  poolpass weights offload llama-8b --to host --store /run/poolpass.sock
  poolpass weights save /nvme/models --store /run/poolpass.sock`;

const options = {
  store: { type: "string" },
  name: { type: "string" },
  keep: { type: "boolean" },
  verify: { type: "boolean" },
  to: { type: "string" },
  timeout: { type: "string" },
  device: { type: "string" },
  json: { type: "boolean" },
  driver: { type: "string" },
} as const;

/** The command `poolpass weights`. */
export const weightsCommand: Command = {
  name: "weights",
  summary: "publish a model's weights in a store, and manage them there",
  help,
  run,
};

/** The number of digits of a revision that are printed: enough to tell any weights apart. */
const printedDigits = 12;
/** The number of arguments that each action accepts, and a phrase that describes them. */
const actions = {
  publish: { needs: "one argument: a file", least: 1, most: 1 },
  list: { needs: "no argument", least: 0, most: 0 },
  verify: { needs: "one argument: a name", least: 1, most: 1 },
  offload: { needs: "one argument: a name", least: 1, most: 1 },
  wake: { needs: "one argument: a name", least: 1, most: 1 },
  save: { needs: "a folder, and then names", least: 1, most: Infinity },
  restore: { needs: "one argument: a folder", least: 1, most: 1 },
} as const;

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files: [action, ...given], values } = readOptions(args, options);
  if (action === undefined || !Object.hasOwn(actions, action)) {
    throw new UsageError(`Say what to do: poolpass weights ${Object.keys(actions).join(", ")}`);
  }
  const known = action as keyof typeof actions;
  const { needs, least, most } = actions[known];
  if (given.length < least || given.length > most) throw new UsageError(`poolpass weights ${action} takes ${needs}`);
  const { store, name, keep, verify: isVerified, to, timeout = "0", device, json, driver } = values;
  if (store === undefined) throw new UsageError("Say where the store is: --store SOCKET");
  if ((known === "publish") !== (name !== undefined)) {
    throw new UsageError(name === undefined ? "Say under which name: --name NAME" : "--name is for publish alone");
  }
  if (known !== "publish" && (keep || isVerified)) {
    throw new UsageError(`${keep ? "--keep" : "--verify"} is for publish alone`);
  }
  if ((known === "offload") !== (to !== undefined)) {
    throw new UsageError(to === undefined ? "Say where to: --to host, or --to FOLDER" : "--to is for offload alone");
  }
  using cuda = openCuda(driver);
  const { signal, print } = terminal;
  await using client = await StoreClient.connect(cuda, store, { signal });
  const [argument = "", ...names] = given;
  switch (known) {
    case "publish":
      await publish({ cuda, client, file: argument, name: name!, device, keep, verify: isVerified }, terminal);
      return 0;
    case "list":
      print(listOf(await client.entries(), json));
      return 0;
    case "verify":
      await verify(client, argument, terminal);
      return 0;
    case "offload":
      for (const rank of await ranksOf(client, argument)) {
        await offloadWeights(client, argument, {
          to: to === "host" ? to : resolve(to!),
          rank,
          timeout: 1000 * parseSeconds(timeout),
          signal,
        });
      }
      return await printPlace(client, argument, print);
    case "wake":
      for (const rank of await ranksOf(client, argument)) {
        await using _weights = await mapWeights(client, argument, { rank, signal });
      }
      return await printPlace(client, argument, print);
    case "save": {
      const options = names.length === 0 ? { signal } : { names, signal };
      return report("saved", await saveWeights(client, resolve(argument), options), terminal);
    }
    case "restore":
      return report(
        "restored",
        await restoreWeights(client, resolve(argument), { devices: cuda.devices, signal }),
        terminal,
      );
  }
}

function parseSeconds(text: string): number {
  if (/^\d{1,6}(?:\.\d{1,3})?$/.test(text)) return Number(text);
  throw new UsageError(`--timeout takes seconds, and "${text}" was given`);
}

/**
 * Returns the ranks of weights, which are named with or without a revision. Throws if nothing is published under the
 * name, for which a client would wait.
 */
async function ranksOf(client: StoreClient, name: string): Promise<readonly StoreEntry["rank"][]> {
  const [own, digits = ""] = name.split("@");
  const entries = await client.entries();
  const ranks = entries.filter((entry) => entry.name === own);
  if (ranks.length === 0) {
    const names = entries.map((entry) => printable(JSON.stringify(entry.name))).join(", ");
    throw new Error(
      `Nothing is published as ${JSON.stringify(own)}; the store has ${names === "" ? "nothing" : names}`,
    );
  }
  const found = ranks.filter(({ digest = "" }) => digest.startsWith(digits));
  // The store may have a revision that was replaced, or says which it has.
  return (found.length === 0 ? ranks.slice(0, 1) : found).map(({ rank }) => rank);
}

/** Prints where weights are now. */
async function printPlace(client: StoreClient, name: string, print: Terminal["print"]): Promise<number> {
  const [own] = name.split("@");
  for (const entry of await client.entries()) {
    if (entry.name !== own) continue;
    const { place, device, byteLength, rank } = entry;
    const where = place === "device" ? device : place;
    const text = printable(where === "host" ? "host memory" : where);
    print(`${nameWith(rank, entry.name)}: ${formatBytes(byteLength)} in ${text}`);
  }
  return 0;
}

function nameWith([rank, count]: StoreEntry["rank"], name: string): string {
  return count === 1 ? printable(name) : `${printable(name)} (rank ${rank} of ${count})`;
}

/** Prints the names that were saved or restored, and the errors of the others. Returns the exit status. */
function report(done: string, { names, refused }: SavedWeights, { print }: Terminal): number {
  for (const name of names) print(`${printable(name)}: ${done}`);
  for (const { name, error } of refused) print(`${printable(name)}: not ${done}: ${printable(error.message)}`);
  return refused.length === 0 ? 0 : 1;
}

interface Publication {
  readonly cuda: Cuda;
  readonly client: StoreClient;
  readonly file: string;
  readonly name: string;
  readonly device: string | undefined;
  readonly keep: boolean;
  readonly verify: boolean;
}

async function publish(
  { cuda, client, file, name, device, keep, verify }: Publication,
  terminal: Terminal,
): Promise<void> {
  const { signal, progress } = terminal;
  if (device !== undefined && !/^\d+$/.test(device)) {
    throw new UsageError(`There is no device "${device}": give a number, as poolpass devices prints it`);
  }
  const begin = performance.now();
  await using weights = await publishWeights(client, name, file, {
    signal,
    keep,
    verify,
    ...device === undefined ? {} : { device: cuda.device(Number(device)) },
    ...progress === undefined ? {} : { onProgress: ({ loaded, total }) => progress(loaded, total) },
  });
  const seconds = (performance.now() - begin) / 1000;
  const { byteLength } = weights.buffer;
  terminal.print(
    `${printable(name)}@${weights.digest!.slice(0, printedDigits)}: ${formatCount(weights.size)} tensors, ` +
      `${formatBytes(byteLength)} in ${seconds.toFixed(2)} s`,
  );
}

async function verify(client: StoreClient, name: string, { print, signal }: Terminal): Promise<void> {
  for (const rank of await ranksOf(client, name)) {
    await using weights = await mapWeights(client, name, { rank, signal });
    const revision = `${weights.name}@${await weights.verify({ signal })}`;
    const isStated = weights.digest !== undefined;
    print(`${nameWith(rank, revision)}: ${isStated ? "as published" : "its publisher has stated no digest"}`);
  }
}

const columns = [
  { name: "name" },
  { name: "revision" },
  { name: "generation", align: "right" },
  { name: "rank" },
  { name: "size", align: "right" },
  { name: "tensors", align: "right" },
  { name: "dtypes" },
  { name: "place" },
  { name: "readers", align: "right" },
  { name: "sleepers", align: "right" },
] as const;

/** Returns the weights among the entries of a store, as a table or as JSON. */
function listOf(entries: readonly StoreEntry[], asJson: boolean): string {
  const weights = entries.flatMap((entry) => {
    const summary = summaryOfWeights(entry.metadata);
    return summary === undefined ? [] : [{ entry, summary }];
  });
  if (asJson) {
    const pidsOf = (peers: StoreEntry["readers"]) => peers.map(({ pid }) => pid);
    const members = weights.map(({ entry, summary }) => {
      const { name, generation, rank, byteLength, device, place, readers, sleepers } = entry;
      const holders = { readers: pidsOf(readers), sleepers: pidsOf(sleepers) };
      return { name, ...summary, generation, rank, byteLength, device, place, ...holders };
    });
    return JSON.stringify(members, undefined, 2);
  }
  if (weights.length === 0) return "The store has no weights";
  const rows = weights.map(({ entry, summary: { digest, tensors, dtypes } }) => [
    printable(entry.name),
    digest?.slice(0, printedDigits) ?? "unknown",
    String(entry.generation),
    entry.rank.join(" of "),
    formatBytes(entry.byteLength),
    tensors === undefined ? "" : formatCount(tensors),
    dtypes.map(printable).join(", "),
    printable(entry.place),
    formatCount(entry.readers.length),
    formatCount(entry.sleepers.length),
  ]);
  return formatTable(columns, rows).join("\n");
}
