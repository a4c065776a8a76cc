/**
 * A client of a store that answers requests, as `bench/sharing/contract.ts` says.
 *
 *     client.ts STORE FILE
 *
 * - `map`: from the request for the published weights until a kernel could read them
 * - `load`: from the first read of the file until all its tensors are on the device
 * - `create`: of `count` entries, the time for each to be created, published and unmapped
 * - `list`: the time of `entries()`
 *
 * @module
 */
import process from "node:process";
import { open, StoreClient } from "../../mod.ts";
import { openSafetensors } from "../../safetensors.ts";
import { answerRequests, numberOf, type Request } from "../sharing/contract.ts";

const [store, path] = process.argv.slice(2) as [string, string];
/** A client waits for no longer than the benchmark waits for its answer. */
const waitTimeout = 30_000;

using cuda = open();
const device = cuda.device(0);
await using client = await StoreClient.connect(cuda, store, { wait: true, signal: AbortSignal.timeout(waitTimeout) });

/** Runs a function so many times, and returns how long the last of them took. */
async function time(
  { repetitions, warmUp = 0 }: Request,
  run: (index: number) => Promise<Disposable | void>,
): Promise<number[]> {
  const times: number[] = [];
  for (let index = -warmUp; index < repetitions; index++) {
    const begin = performance.now();
    using _result = await run(index) ?? undefined;
    if (index >= 0) times.push((performance.now() - begin) * 1e6);
  }
  return times;
}

async function map(request: Request): Promise<number[]> {
  const signal = AbortSignal.timeout(waitTimeout);
  using stream = device.createStream({ nonBlocking: true });
  return await time(request, () => client.map("weights", { stream, signal }));
}

async function loadAgain(request: Request): Promise<number[]> {
  const signal = AbortSignal.timeout(waitTimeout);
  await using file = await openSafetensors(path);
  using memory = device.createMemory(file.byteLength);
  using range = cuda.reserveAddresses(memory.byteLength);
  const buffer = range.map(memory);
  return await time(request, () => file.load(buffer, { signal }));
}

async function create(request: Request): Promise<number[]> {
  const signal = AbortSignal.timeout(waitTimeout);
  const metadata = { dtype: "F32", shape: [512, 1024] };
  return await time({ ...request, repetitions: numberOf(request, "count", 1000) }, async (index) => {
    await using memory = await client.create(`entry ${index}`, 2 * 2 ** 20, { metadata, signal });
    await memory.publish();
  });
}

async function list(request: Request): Promise<number[]> {
  const expected = numberOf(request, "count", 1000);
  return await time(request, async () => {
    // The weights are one more.
    const { length } = await client.entries();
    if (length !== expected + 1) throw new Error(`There are ${length} entries, and should be ${expected + 1}`);
  });
}

await answerRequests({
  name: "poolpass",
  device: device.name,
  uuid: device.uuid,
  isSoftware: cuda.driver === "software",
  versions: `CUDA ${Math.floor(cuda.driverVersion / 1000)}.${cuda.driverVersion % 1000 / 10}`,
}, { map, load: loadAgain, create, list });
