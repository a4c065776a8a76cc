/**
 * Weights in a second: loads a safetensors file to the device once, and leaves it in a store. Other processes map all of
 * it in a moment, also when the process that has loaded it has ended.
 *
 *     deno run -A examples/weights_store.ts demo
 *
 *     deno run -A examples/weights_store.ts make /tmp/model.safetensors --size 1GiB
 *     deno run -A examples/weights_store.ts serve --store /tmp/weights.sock
 *     deno run -A examples/weights_store.ts publish /tmp/model.safetensors --store /tmp/weights.sock
 *     deno run -A examples/weights_store.ts map --store /tmp/weights.sock
 *
 * All tensors are one entry of the store, which programs in other languages can use as well.
 *
 * @module
 */
import { open as openFile } from "node:fs/promises";
import { MemoryStore, open, StoreClient } from "../mod.ts";
import { mapWeights, publishWeights } from "../weights.ts";
import { parseBytes, parseCount, printable, readArguments, runProgram, say, UsageError } from "./command_line.ts";
import { formatRate, Progress } from "./progress.ts";
import { formatTable } from "./table.ts";
import { runDemo } from "./weights/demo.ts";
import { writeSample } from "./weights/sample_file.ts";

const name = "weights_store";
const usage = "weights_store demo | make FILE | serve | publish FILE | map, with --store SOCKET";
const about = `
Loads a safetensors file to the device once and leaves it in a store, from which other processes map it in a moment.

demo          all of the following, with processes that die
make FILE     writes a sample file with the tensors of a language model
serve         runs a store until Ctrl-C
publish FILE  loads a file and publishes it
map           maps what was published, and prints its tensors; waits until there is something

--store <path>   the socket of the store
--name <name>    the name under which it is published: weights by default. With map also NAME@DIGEST
--size <n>       the size of a sample file: 256MiB by default
--rows <n>       how many tensors map prints: 16 by default
--verify yes     makes publish hash the file on the CPU, too, and map compute the digest of the memory again
--stay yes       makes publish stay until Ctrl-C
`;

const optionNames = ["store", "name", "size", "rows", "verify", "stay"] as const;
type Options = { readonly [Name in typeof optionNames[number]]?: string };

async function main(signal: AbortSignal): Promise<void> {
  const { positional: [command, file, ...surplus], named } = readArguments(optionNames);
  const takesFile = command === "make" || command === "publish";
  if (takesFile !== (file !== undefined) || surplus.length > 0) {
    throw new UsageError(takesFile ? "One argument is needed: a file" : "There are too many arguments");
  }
  switch (command) {
    case "demo":
      return await runDemo(new URL(import.meta.url), named.size ?? "256MiB", signal);
    case "make":
      return await make(file!, parseBytes(named.size ?? "256MiB"), signal);
    case "serve":
      return await serve(storeOf(named), signal);
    case "publish":
      return await publish(file!, named, signal);
    case "map":
      return await map(named, signal);
    default:
      throw new UsageError(command === undefined ? "A command is needed" : `There is no command "${command}"`);
  }
}

function storeOf({ store }: Options): string {
  if (store === undefined) throw new UsageError("--store is needed: the socket of the store");
  return store;
}

async function make(path: string, size: number, signal: AbortSignal): Promise<void> {
  const progress = new Progress(name, size, { showsRate: true });
  await using file = await openFile(path, "w");
  const tensors = await writeSample(file, size, { signal, onProgress: (byteLength) => progress.add(byteLength) });
  const left = size - tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (left > 0) progress.add(left);
  say(name, `Wrote ${tensors.length} tensors to ${path}`);
}

async function serve(path: string, signal: AbortSignal): Promise<void> {
  using cuda = open();
  await using store = MemoryStore.listen(cuda, path);
  say(name, `Serving at ${store.path}`);
  await interrupted(signal);
}

/** Returns whether an option is "yes". */
function isYes(options: Options, option: "stay" | "verify"): boolean {
  const { [option]: value } = options;
  if (value !== undefined && value !== "yes") throw new UsageError(`Cannot use "${value}" as --${option}: yes`);
  return value === "yes";
}

async function publish(path: string, options: Options, signal: AbortSignal): Promise<void> {
  const { name: entryName = "weights" } = options;
  const [stays, verify] = [isYes(options, "stay"), isYes(options, "verify")];
  using cuda = open();
  await using client = await StoreClient.connect(cuda, storeOf(options), { wait: true, signal });
  let progress: Progress | undefined;
  const begin = performance.now();
  await using weights = await publishWeights(client, entryName, path, {
    verify,
    signal,
    onProgress({ loaded, total }) {
      progress ??= new Progress(name, total, { done: "loaded" });
      progress.set(loaded);
    },
  });
  const milliseconds = performance.now() - begin;
  const rate = formatRate(weights.buffer.byteLength, milliseconds);
  const revision = `${entryName}@${weights.digest}`;
  say(name, `Published ${weights.size} tensors as ${revision} in ${milliseconds.toFixed(0)} ms, ${rate}`);
  if (stays) await interrupted(signal);
}

async function map(options: Options, signal: AbortSignal): Promise<void> {
  const rows = parseCount(options.rows ?? "16", { what: "the number of rows", least: 1 });
  const isVerified = isYes(options, "verify");
  using cuda = open();
  const begin = performance.now();
  await using client = await StoreClient.connect(cuda, storeOf(options), { wait: true, signal });
  const connected = performance.now();
  await using weights = await mapWeights(client, options.name ?? "weights", { signal });
  const [connecting, mapping] = [connected - begin, performance.now() - connected];
  const size = formatSize(weights.buffer.byteLength);
  console.log(
    `Mapped ${size}, generation ${weights.generation}, in ${mapping.toFixed(2)} ms; connected in ${
      connecting.toFixed(0)
    } ms`,
  );
  const shown = someOf([...weights], rows).map((
    [tensor, { dtype, shape, byteLength }],
  ) => [printable(tensor), dtype, `[${shape}]`, String(byteLength)]);
  const table = formatTable([["tensor", "dtype", "shape", "byteLength"], ...shown]);
  console.log(`${shown.length} of ${weights.size} tensors:\n${table}`);
  if (isVerified) console.log(`The digest of the memory is ${await weights.verify({ signal })}, as published`);
}

/** Returns at most so many elements of a list, from everywhere in it. */
function someOf<Item>(list: readonly Item[], count: number): readonly Item[] {
  if (list.length <= count) return list;
  return Array.from({ length: count }, (_, index) => list[Math.floor(index * list.length / count)]!);
}

/** Resolves at Ctrl-C, which is how the program is to end. */
function interrupted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve());
  });
}

function formatSize(byteLength: number): string {
  return byteLength < 2 ** 30 ? `${(byteLength / 2 ** 20).toFixed(1)} MiB` : `${(byteLength / 2 ** 30).toFixed(2)} GiB`;
}

await runProgram(name, main, { usage, about });
