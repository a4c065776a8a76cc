/** Weights that sleep, wake and are updated: at the same addresses, and all or nothing. */
import { assert, assertEquals, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import { type Cuda, CudaError, MemoryStore, SharingError, StoreClient } from "../../mod.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { mapWeights, publishWeights, type Weights } from "../../weights.ts";
import { writeSafetensors } from "../../safetensors.ts";
import { cudaErrorNumbers } from "../../src/support/errors.ts";
import { adaptedCuda } from "../support/adapted_driver.ts";
import { driverNamed, testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { isLong } from "../support/test.ts";

interface Context {
  readonly cuda: Cuda;
  readonly folder: string;
  connect(): Promise<StoreClient>;
  /** Writes a file with the tensors "a" and "b", filled with a number, and returns its path. */
  file(value: number, length?: number): Promise<string>;
}

function sleepTest(name: string, body: (context: Context) => Promise<void>): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda) =>
    inFolder(async (folder) => {
      await using _store = MemoryStore.listen(cuda, `${folder}/store`);
      await using clients = new AsyncDisposableStack();
      await body({
        cuda,
        folder,
        connect: async () => clients.use(await StoreClient.connect(cuda, `${folder}/store`)),
        async file(value, length = 40) {
          using pool = cuda.device(0).createPool();
          using a = pool.allocateArray(new Float32Array(length).fill(value));
          using b = pool.allocateArray(new Int16Array([value, value + 1]));
          const path = `${folder}/${value}-${length}.safetensors`;
          await writeSafetensors({ a, b }, path);
          return path;
        },
      });
    }));
}

async function valuesOf(weights: Weights): Promise<number[]> {
  const [a, b] = [await weights.get("a")!.read(Float32Array), await weights.get("b")!.read(Int16Array)];
  assertEquals(new Set(a).size, 1);
  return [a[0]!, ...b];
}

async function holdersIn(client: StoreClient): Promise<readonly (readonly [number, number])[]> {
  return (await client.entries()).map(({ readers, sleepers }) => [readers.length, sleepers.length]);
}

sleepTest("weights sleep and wake at the same addresses, and refuse use meanwhile", async ({ connect, file }) => {
  const [publisher, reader] = [await connect(), await connect()];
  await (await publishWeights(publisher, "m", await file(1)))[Symbol.asyncDispose]();
  await using held = await mapWeights(reader, "m");
  const { address } = held.buffer, array = held.get("a")!, arrayAddress = array.address;
  for (let cycle = 0; cycle < 3; cycle++) {
    await held.sleep();
    await held.sleep();
    assert(held.isAsleep);
    assertEquals(await holdersIn(reader), [[0, 1]]);
    const asleep = /it is asleep: wake\(\)/;
    assertThrows(() => held.buffer.address, ReferenceError, "it is asleep");
    await assertRejects(() => array.read(Float32Array), ReferenceError, "it is asleep");
    assert(asleep.test(String(assertThrows(() => array.fill(0), ReferenceError))));
    await held.wake();
    await held.wake();
    assertEquals([held.buffer.address, array.address], [address, arrayAddress]);
    assertEquals(await valuesOf(held), [1, 1, 2]);
    assertEquals(await held.verify(), held.digest);
    assertEquals(await holdersIn(reader), [[1, 0]]);
  }
});

sleepTest("weights that sleep stay when others replace or remove them, and go with their holder", async (context) => {
  const { connect, file } = context;
  const [publisher, reader] = [await connect(), await connect()];
  await (await publishWeights(publisher, "m", await file(1)))[Symbol.asyncDispose]();
  const held = await mapWeights(reader, "m");
  await held.sleep();
  await (await publishWeights(publisher, "m", await file(5)))[Symbol.asyncDispose]();
  await publisher.remove("m");
  await held.wake();
  assertEquals([held.generation, await valuesOf(held)], [1, [1, 1, 2]]);
  await held.sleep();
  await held[Symbol.asyncDispose]();
  await held[Symbol.asyncDispose]();
  await assertRejects(() => held.wake(), ReferenceError, "disposed");
  assertEquals(await holdersIn(reader), []);
  // A publisher's own weights sleep, too.
  await using own = await publishWeights(publisher, "m", await file(2));
  await own.sleep();
  assertEquals(await holdersIn(reader), [[0, 1]]);
  await own.wake();
  assertEquals(await valuesOf(own), [2, 2, 3]);
});

sleepTest("an update maps the newest generation at the same addresses", async ({ connect, file }) => {
  const [publisher, reader] = [await connect(), await connect()];
  const publish = async (value: number, length?: number) => {
    await (await publishWeights(publisher, "m", await file(value, length)))[Symbol.asyncDispose]();
  };
  await publish(1);
  await using held = await mapWeights(reader, "m");
  const { address } = held.buffer, { digest } = held;
  assertEquals(await held.update(), false);
  await publish(2);
  assertEquals(await held.update(), true);
  assertEquals([held.generation, await valuesOf(held), held.buffer.address], [2, [2, 2, 3], address]);
  assertNotEquals(held.digest, digest);
  assertEquals(await held.verify(), held.digest);
  assertEquals(await holdersIn(reader), [[1, 0]]);
  // What sleeps is updated awake.
  await held.sleep();
  await publish(3);
  assertEquals(await held.update(), true);
  assertEquals([held.isAsleep, await valuesOf(held), held.buffer.address], [false, [3, 3, 4], address]);
  assertEquals(await holdersIn(reader), [[1, 0]]);
  // Other tensors are refused, and nothing has happened.
  await publish(4, 41);
  const error = await assertRejects(() => held.update(), SharingError, '"a" as float32 of 41 instead of float32 of 40');
  assertEquals([error.code, held.generation, await valuesOf(held)], ["layout-changed", 3, [3, 3, 4]]);
  assertEquals(await holdersIn(reader), [[0, 0]]);
});

sleepTest("between updates, weights are all of one generation, whenever others are published", async (context) => {
  const { connect, file } = context;
  const [publisher, reader] = [await connect(), await connect()];
  const last = isLong ? 50 : 10;
  const publish = async (generation: number) => {
    await (await publishWeights(publisher, "m", await file(generation, 10_000)))[Symbol.asyncDispose]();
  };
  await publish(1);
  await using held = await mapWeights(reader, "m");
  const publishing = (async () => {
    for (let generation = 2; generation <= last; generation++) await publish(generation);
  })();
  while (held.generation < last) {
    await held.update();
    const { generation } = held;
    assertEquals(await valuesOf(held), [generation, generation, generation + 1]);
  }
  await publishing;
  assertEquals(await holdersIn(reader), [[1, 0]]);
  assertEquals((await reader.entries({ replaced: true })).length, 1);
});

sleepTest("a failure to map leaves the weights as they were", async ({ cuda, folder, connect, file }) => {
  if (cuda.driver !== "software") return;
  const publisher = await connect();
  await (await publishWeights(publisher, "m", await file(1)))[Symbol.asyncDispose]();
  const driver = driverNamed("software").open();
  /** Which of the next calls that map memory fails: 1 is the next one. */
  let failing = 0;
  using own = adaptedCuda(driver, {
    memMap(address, byteLength, memory) {
      if (failing > 0 && --failing === 0) throw new CudaError(cudaErrorNumbers.cudaErrorMemoryAllocation, "cuMemMap");
      driver.memMap(address, byteLength, memory);
    },
  });
  await using reader = await StoreClient.connect(own, `${folder}/store`);
  await using held = await mapWeights(reader, "m");
  await (await publishWeights(publisher, "m", await file(2)))[Symbol.asyncDispose]();
  failing = 1;
  await assertRejects(() => held.update(), CudaError, "cuMemMap");
  assertEquals([held.generation, await valuesOf(held)], [1, [1, 1, 2]]);
  assertEquals(await holdersIn(reader), [[0, 0]]);
  await held.sleep();
  failing = 1;
  await assertRejects(() => held.wake(), CudaError, "cuMemMap");
  assert(held.isAsleep);
  await assertRejects(() => held.wake({ signal: AbortSignal.abort() }), DOMException);
  await held.wake();
  assertEquals(await valuesOf(held), [1, 1, 2]);
  await held.update();
  assertEquals([held.generation, await valuesOf(held), await holdersIn(reader)], [2, [2, 2, 3], [[1, 0]]]);
});

sleepTest(
  "an entry that is mapped asleep is mapped when it wakes, or in another's place",
  async ({ connect, file }) => {
    const client = await connect();
    await (await publishWeights(client, "m", await file(1)))[Symbol.asyncDispose]();
    using first = await client.mapEntry("m", { asleep: true });
    assertEquals([first.isAsleep, first.buffer.byteLength > 0, await holdersIn(client)], [true, true, [[1, 0]]]);
    await assertRejects(() => first.buffer.read(Uint8Array), ReferenceError, "asleep");
    await first.wake();
    const [one] = await first.buffer.read(Float32Array, { length: 1 });
    await (await publishWeights(client, "m", await file(2)))[Symbol.asyncDispose]();
    using second = await client.mapEntry("m", { asleep: true });
    await first.replaceBy(second);
    const [two] = await first.buffer.read(Float32Array, { length: 1 });
    assertEquals([one, two, first.generation, await holdersIn(client)], [1, 2, 2, [[1, 0]]]);
    // One that never wakes.
    (await client.mapEntry("m", { asleep: true }))[Symbol.dispose]();
    using third = await client.mapEntry("m", { asleep: true });
    await third.replaceBy(first);
    const [again] = await third.buffer.read(Float32Array, { length: 1 });
    assertEquals([again, await holdersIn(client)], [2, [[1, 0]]]);
  },
);

sleepTest("what sleeps is claimed from the next store, which wakes it", async ({ cuda, folder, file }) => {
  const path = `${folder}/pair`, standby = `${folder}/pair.standby`;
  const ready = Promise.withResolvers<void>(), serves = Promise.withResolvers<void>();
  const first = MemoryStore.listen(cuda, path, { standby, onStandby: () => ready.resolve() });
  await using _second = MemoryStore.listen(cuda, path, { standby, onServe: () => serves.resolve() });
  await ready.promise;
  await using client = await StoreClient.connect(cuda, path);
  await using held = await publishWeights(client, "m", await file(7));
  await held.sleep();
  await client.remove("m");
  await first[Symbol.asyncDispose]();
  await serves.promise;
  assertEquals(await client.entries(), []);
  await held.wake();
  assertEquals(await valuesOf(held), [7, 7, 8]);
});
