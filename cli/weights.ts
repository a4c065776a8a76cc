/**
 * `poolpass weights`: publishes safetensors files in a store, lists the weights there, and verifies them.
 *
 * @module
 */
import { type Cuda, StoreClient, type StoreEntry } from "../mod.ts";
import { mapWeights, publishWeights } from "../weights.ts";
import { summaryOfWeights } from "../src/weights/weights_metadata.ts";
import { type Command, readOptions, type Terminal, UsageError } from "./command_line.ts";
import { openCuda } from "./open_cuda.ts";
import { formatTable, printable } from "./status/table.ts";
import { formatBytes, formatCount } from "./status/units.ts";

const help = `Usage: poolpass weights publish FILE --name NAME --store SOCKET [options]
       poolpass weights list --store SOCKET [options]
       poolpass weights verify NAME --store SOCKET [options]

Weights that stay on the GPU: publish loads a safetensors file into a store, from which other processes map it by its
name. A model in several files is published by the path of its index, such as model.safetensors.index.json. Weights have
a revision, a digest of their names, dtypes, shapes and bytes. verify computes the digest of what is in memory now, and
fails if it is not the one that was published; NAME may be NAME@DIGEST, with at least 8 digits.

Options:
  --store SOCKET  the socket of the store, as it was given to poolpass store
  --name NAME     the name to publish the weights under
  --device N      the device to load them on, by its number as poolpass devices lists it; otherwise, the first
  --json          print the list as JSON
  --driver NAME   cuda or software; otherwise, what POOLPASS_DRIVER says, or a GPU if there is one

Examples:
  poolpass weights publish model.safetensors --name llama-8b --store /run/poolpass.sock
  poolpass weights list --store /run/poolpass.sock
  poolpass weights verify llama-8b@3fa9c1d2 --store /run/poolpass.sock`;

const options = {
  store: { type: "string" },
  name: { type: "string" },
  device: { type: "string" },
  json: { type: "boolean" },
  driver: { type: "string" },
} as const;

/** The command `poolpass weights`. */
export const weightsCommand: Command = {
  name: "weights",
  summary: "publish a model's weights in a store, list and verify them",
  help,
  run,
};

/** The number of digits of a revision that are printed: enough to tell any weights apart. */
const printedDigits = 12;
const actions = ["publish", "list", "verify"] as const;

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files: [action, argument, ...surplus], values } = readOptions(args, options);
  const isKnown = actions.some((each) => each === action);
  if (!isKnown) throw new UsageError(`Say what to do: poolpass weights ${actions.join(", ")}`);
  const takesArgument = action !== "list";
  if (takesArgument !== (argument !== undefined) || surplus.length > 0) {
    const needed = action === "list" ? "no argument" : `one argument: ${action === "publish" ? "a file" : "a name"}`;
    throw new UsageError(`poolpass weights ${action} takes ${needed}`);
  }
  const { store, name, device, json, driver } = values;
  if (store === undefined) throw new UsageError("Say where the store is: --store SOCKET");
  if ((action === "publish") !== (name !== undefined)) {
    throw new UsageError(name === undefined ? "Say under which name: --name NAME" : "--name is for publish alone");
  }
  using cuda = openCuda(driver);
  const { signal } = terminal;
  await using client = await StoreClient.connect(cuda, store, { signal });
  if (action === "list") terminal.print(listOf(await client.entries(), json));
  else if (action === "verify") await verify(client, argument!, terminal);
  else await publish({ cuda, client, file: argument!, name: name!, device }, terminal);
  return 0;
}

interface Publication {
  readonly cuda: Cuda;
  readonly client: StoreClient;
  readonly file: string;
  readonly name: string;
  readonly device: string | undefined;
}

async function publish({ cuda, client, file, name, device }: Publication, terminal: Terminal): Promise<void> {
  const { signal, progress } = terminal;
  if (device !== undefined && !/^\d+$/.test(device)) {
    throw new UsageError(`There is no device "${device}": give a number, as poolpass devices prints it`);
  }
  const begin = performance.now();
  await using weights = await publishWeights(client, name, file, {
    signal,
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
  const [own] = name.split("@");
  const entries = await client.entries();
  if (!entries.some((entry) => entry.name === own)) {
    const names = entries.map((entry) => printable(JSON.stringify(entry.name))).join(", ");
    throw new Error(
      `Nothing is published as ${JSON.stringify(own)}; the store has ${names === "" ? "nothing" : names}`,
    );
  }
  await using weights = await mapWeights(client, name, { signal });
  const digest = await weights.verify({ signal });
  const isStated = weights.digest !== undefined;
  print(`${printable(weights.name)}@${digest}: ${isStated ? "as published" : "its publisher has stated no digest"}`);
}

const columns = [
  { name: "name" },
  { name: "revision" },
  { name: "generation", align: "right" },
  { name: "size", align: "right" },
  { name: "tensors", align: "right" },
  { name: "dtypes" },
  { name: "readers", align: "right" },
] as const;

/** Returns the weights among the entries of a store, as a table or as JSON. */
function listOf(entries: readonly StoreEntry[], asJson: boolean): string {
  const weights = entries.flatMap((entry) => {
    const summary = summaryOfWeights(entry.metadata);
    return summary === undefined ? [] : [{ entry, summary }];
  });
  if (asJson) {
    const members = weights.map(({ entry: { name, generation, byteLength, device, readers }, summary }) => (
      { name, ...summary, generation, byteLength, device, readers: readers.map(({ pid }) => pid) }
    ));
    return JSON.stringify(members, undefined, 2);
  }
  if (weights.length === 0) return "The store has no weights";
  const rows = weights.map(({ entry, summary: { digest, tensors, dtypes } }) => [
    printable(entry.name),
    digest?.slice(0, printedDigits) ?? "unknown",
    String(entry.generation),
    formatBytes(entry.byteLength),
    tensors === undefined ? "" : formatCount(tensors),
    dtypes.map(printable).join(", "),
    formatCount(entry.readers.length),
  ]);
  return formatTable(columns, rows).join("\n");
}
