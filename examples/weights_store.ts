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
 * All tensors are one entry of the store. Its metadata has the type, the shape and the place of each.
 *
 * @module
 */
import { open as openFile } from "node:fs/promises";
import { type Cuda, type DeviceBuffer, MemoryStore, open, StoreClient, type StoreEntry } from "../mod.ts";
import { openSafetensors, type SafetensorsTensor } from "../safetensors.ts";
import { parseBytes, parseCount, readArguments, runProgram, say, UsageError } from "./command_line.ts";
import { formatRate, Progress } from "./progress.ts";
import { runDemo } from "./weights/demo.ts";
import { sumsIn, writeSample } from "./weights/sample_file.ts";
import { checkSums, formatTensors, someOf, sumBytes } from "./weights/tensor_sums.ts";
import { describeTensors, tensorsOfEntry } from "./weights/tensor_entry.ts";

const name = "weights_store";
/** The size of the pieces that are compared at once. */
const comparedByteLength = 16 * 2 ** 20;
const usage = "weights_store demo | make FILE | serve | publish FILE | map, with --store SOCKET";
const about = `
Loads a safetensors file to the device once and leaves it in a store, from which other processes map it in a moment.

demo          all of the following, with processes that die
make FILE     writes a sample file with the tensors of a language model
serve         runs a store until Ctrl-C
publish FILE  loads a file and publishes it
map           maps what was published, prints its tensors and verifies sums; waits until there is something

--store <path>   the socket of the store
--name <name>    the name under which it is published: weights by default
--size <n>       the size of a sample file: 256MiB by default
--rows <n>       how many tensors map prints, and verifies if the file states their sums: 16 by default
--verify <file>  makes map compare every byte with a file
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
  const left = size - byteLengthOf(tensors);
  if (left > 0) progress.add(left);
  say(name, `Wrote ${tensors.length} tensors to ${path}`);
}

async function serve(path: string, signal: AbortSignal): Promise<void> {
  using cuda = open();
  await using store = MemoryStore.listen(cuda, path);
  say(name, `Serving at ${store.path}`);
  await interrupted(signal);
}

async function publish(path: string, options: Options, signal: AbortSignal): Promise<void> {
  const { name: entryName = "weights", stay } = options;
  if (stay !== undefined && stay !== "yes") throw new UsageError(`Cannot use "${stay}" as --stay: yes`);
  using cuda = open();
  await using client = await StoreClient.connect(cuda, storeOf(options), { wait: true, signal });
  await using file = await openSafetensors(path);
  const { tensors, byteLength } = file;
  if (byteLength === 0) throw new Error(`Cannot publish ${path}: its tensors have no bytes`);

  await using memory = await client.create(entryName, byteLength, {
    metadata: describeTensors(tensors, file.metadata),
    signal,
  });
  const progress = new Progress(name, byteLengthOf(tensors), { done: "loaded", showsRate: true });
  const begin = performance.now();
  await file.load(memory.buffer, { signal, onProgress: ({ loaded }) => progress.set(loaded) });
  const milliseconds = performance.now() - begin;
  await memory.publish();
  const rate = formatRate(byteLength, milliseconds);
  say(name, `Published ${tensors.length} tensors as ${entryName}: loaded in ${milliseconds.toFixed(0)} ms, ${rate}`);
  if (stay === "yes") await interrupted(signal);
}

async function map(options: Options, signal: AbortSignal): Promise<void> {
  const { name: entryName = "weights", verify } = options;
  const rows = parseCount(options.rows ?? "16", { what: "the number of rows", least: 1 });
  using cuda = open();
  const begin = performance.now();
  await using client = await StoreClient.connect(cuda, storeOf(options), { wait: true, signal });
  const connecting = performance.now() - begin;
  const { entry, buffer, mapping } = await mapEntry(client, entryName, signal);
  using weights = buffer;
  const { tensors, metadata } = tensorsOfEntry(entry);
  const size = formatSize(entry.byteLength);
  console.log(
    `Mapped ${size}, generation ${entry.generation}, in ${mapping.toFixed(2)} ms; connected in ${
      connecting.toFixed(0)
    } ms`,
  );
  const shown = someOf(tensors, rows);
  const sums = await sumBytes(weights, shown, signal);
  console.log(`${shown.length} of ${tensors.length} tensors:\n${formatTensors(shown, sums)}`);
  checkSums(shown, sums, sumsIn(metadata));
  if (verify !== undefined) await verifyWith(verify, { cuda, weights, tensors }, signal);
}

/** Maps what is published under a name, and finds what the store says of it. */
async function mapEntry(client: StoreClient, entryName: string, signal: AbortSignal) {
  for (;;) {
    const before = await findEntry(client, entryName);
    if (before === undefined) say(name, `Waiting for ${entryName}`);
    const begin = performance.now();
    const buffer = await client.map(entryName, { signal });
    const mapping = performance.now() - begin;
    const entry = await findEntry(client, entryName);
    if (entry !== undefined && entry.since === before?.since) return { entry, buffer, mapping };
    // It was published, replaced or removed meanwhile: what the store says is of another generation.
    buffer.free();
  }
}

async function findEntry(client: StoreClient, entryName: string): Promise<StoreEntry | undefined> {
  return (await client.entries()).find(({ name }) => name === entryName);
}

async function verifyWith(
  path: string,
  { cuda, weights, tensors }: { cuda: Cuda; weights: DeviceBuffer; tensors: readonly SafetensorsTensor[] },
  signal: AbortSignal,
): Promise<void> {
  await using file = await openSafetensors(path);
  if (JSON.stringify(file.tensors) !== JSON.stringify(tensors)) throw new Error(`${path} has other tensors`);
  using pool = cuda.device(0).createPool();
  using stream = cuda.device(0).createStream();
  using expected = pool.allocate(file.byteLength, stream);
  const progress = new Progress(name, byteLengthOf(tensors), { done: "loaded to compare", showsRate: true });
  await file.load(expected, { signal, onProgress: ({ loaded }) => progress.set(loaded) });
  const difference = await findDifference(weights, expected, tensors);
  if (difference !== undefined) {
    const tensor = tensors.findLast(({ byteOffset }) => byteOffset <= difference)!;
    throw new Error(
      `${JSON.stringify(tensor.name)} is not as in ${path}: byte ${difference - tensor.byteOffset} is another one`,
    );
  }
  console.log(`All ${byteLengthOf(tensors)} bytes are as in ${path}`);
}

/** Returns where the first byte lies by which the tensors differ. */
async function findDifference(
  found: DeviceBuffer,
  expected: DeviceBuffer,
  tensors: readonly SafetensorsTensor[],
): Promise<number | undefined> {
  for (const { byteOffset, byteLength } of tensors) {
    for (let begin = byteOffset; begin < byteOffset + byteLength; begin += comparedByteLength) {
      const end = Math.min(begin + comparedByteLength, byteOffset + byteLength);
      const [one, other] = await Promise.all(
        [found, expected].map((buffer) => buffer.subarray(begin, end).read(Uint8Array)),
      ) as [Uint8Array, Uint8Array];
      const index = one.findIndex((byte, index) => byte !== other[index]);
      if (index >= 0) return begin + index;
    }
  }
  return undefined;
}

/** Resolves at Ctrl-C, which is how the program is to end. */
function interrupted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve());
  });
}

function byteLengthOf(tensors: readonly SafetensorsTensor[]): number {
  return tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

function formatSize(byteLength: number): string {
  return byteLength < 2 ** 30 ? `${(byteLength / 2 ** 20).toFixed(1)} MiB` : `${(byteLength / 2 ** 30).toFixed(2)} GiB`;
}

await runProgram(name, main, { usage, about });
