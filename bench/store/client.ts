/**
 * A client of a store that answers requests, as `bench/sharing/contract.ts` says.
 *
 *     client.ts STORE FILE
 *
 * - `map`: from the request for the published weights until a kernel could read them
 * - `load`: from the first read of the file until all its tensors are on the device
 * - `publish`: of the file as weights: read to the device, their digest computed, and published
 * - `verify`, `sleep`, `update`, `offload`, `wake`: of the weights that the last `publish` has published. `sleep` includes
 *   waking; `wake` is from host memory, after an `offload` of its own
 * - `create`: of `count` entries, the time for each to be created, published and unmapped
 * - `list`: the time of `entries()`
 *
 * @module
 */
import process from "node:process";
import { open, StoreClient } from "../../mod.ts";
import { openSafetensors } from "../../safetensors.ts";
import { mapWeights, publishWeights, type Weights } from "../../weights.ts";
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

/** The name of the weights that this program publishes. */
const ownWeights = "own weights";

async function publish(): Promise<number[]> {
  const begin = performance.now();
  await using _weights = await publishWeights(client, ownWeights, path, { signal: AbortSignal.timeout(waitTimeout) });
  return [(performance.now() - begin) * 1e6];
}

/** Measures what `use` does with weights that are mapped before. `prepare` is not measured. */
async function timeHeld(
  use: (weights: Weights) => Promise<unknown>,
  prepare?: (weights: Weights) => Promise<unknown>,
): Promise<number[]> {
  await using weights = await mapWeights(client, ownWeights, { signal: AbortSignal.timeout(waitTimeout) });
  await prepare?.(weights);
  const begin = performance.now();
  await use(weights);
  return [(performance.now() - begin) * 1e6];
}

const verify = () => timeHeld((weights) => weights.verify());

const sleep = () =>
  timeHeld(async (weights) => {
    await weights.sleep();
    await weights.wake();
  });

const update = () => timeHeld((weights) => weights.update(), publish);

const offload = () => timeHeld(() => client.offload(ownWeights, { to: "host" }), (weights) => weights.sleep());

const wake = () =>
  timeHeld((weights) => weights.wake(), async (weights) => {
    await weights.sleep();
    // The row before has moved them already, unless it has failed.
    const entry = (await client.entries()).find(({ name }) => name === ownWeights);
    if (entry?.place === "device") await client.offload(ownWeights, { to: "host" });
  });

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
    // The weights that the benchmark and this program have published are two more.
    const { length } = await client.entries();
    if (length !== expected + 2) throw new Error(`There are ${length} entries, and should be ${expected + 2}`);
  });
}

await answerRequests({
  name: "poolpass",
  device: device.name,
  uuid: device.uuid,
  isSoftware: cuda.driver === "software",
  versions: `CUDA ${Math.floor(cuda.driverVersion / 1000)}.${cuda.driverVersion % 1000 / 10}`,
}, { map, load: loadAgain, publish, verify, sleep, update, offload, wake, create, list });
