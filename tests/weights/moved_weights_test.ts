/** Weights that leave their device for host memory, files and folders, and come back the same. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { type Cuda, MemoryStore, type MemoryStoreOptions, SharingError, StoreClient } from "../../mod.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import {
  mapWeights,
  offloadWeights,
  publishWeights,
  readSafetensors,
  restoreWeights,
  saveWeights,
  type Weights,
} from "../../weights.ts";
import { writeSafetensors } from "../../safetensors.ts";
import { workerCounts } from "../../src/software/execution/workers/workers.ts";
import { savedEntries } from "../../src/weights/moved_weights.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { isLong } from "../support/test.ts";

interface Context {
  readonly cuda: Cuda;
  readonly folder: string;
  readonly store: MemoryStore;
  readonly client: StoreClient;
  /** Publishes the tensors "a" and "b", and maybe very many more, and returns their digest. */
  publish(name: string, value: number, more?: number): Promise<string>;
}

function movedTest(
  name: string,
  body: (context: Context) => Promise<void>,
  options: MemoryStoreOptions = {},
): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda) =>
    inFolder(async (folder) => {
      await using store = MemoryStore.listen(cuda, `${folder}/store`, options);
      await using client = await StoreClient.connect(cuda, store.path);
      await body({
        cuda,
        folder,
        store,
        client,
        async publish(name, value, more = 0) {
          using pool = cuda.device(0).createPool();
          using a = pool.allocateArray(new Float32Array([value, 1, 2]));
          using b = pool.allocateArray(new Int16Array(50_000).fill(value));
          const others = Array.from({ length: more }, (_, index) =>
            [`${index}.${"x".repeat(500)}`, b.subarray(index, index + 1)] as const);
          const path = `${folder}/source.safetensors`;
          await writeSafetensors({ a, b, ...Object.fromEntries(others) }, path);
          await using weights = await publishWeights(client, name, path);
          return weights.digest!;
        },
      });
    }));
}

async function valuesOf(weights: Weights): Promise<number[]> {
  const b = await weights.get("b")!.read(Int16Array);
  assertEquals([b.length, new Set(b).size], [50_000, 1]);
  return [(await weights.get("a")!.read(Float32Array))[0]!, b[0]!];
}

movedTest("weights are offloaded to the host, and are mapped and woken as they were", async ({ client, publish }) => {
  const digest = await publish("m", 5);
  await offloadWeights(client, "m");
  await using held = await mapWeights(client, `m@${digest.slice(0, 8)}`);
  assertEquals([await valuesOf(held), held.digest, held.generation], [[5, 5], digest, 1]);
  const { address } = held.buffer;
  await held.sleep();
  await offloadWeights(client, "m");
  assertEquals((await client.entries()).map(({ place, sleepers }) => [place, sleepers.length]), [["host", 1]]);
  await held.wake();
  assertEquals([await valuesOf(held), held.buffer.address], [[5, 5], address]);
});

movedTest(
  "weights are offloaded to an ordinary safetensors file, and back",
  async ({ cuda, client, folder, publish }) => {
    const digest = await publish("org/m", 5);
    await offloadWeights(client, "org/m", { to: folder });
    const path = `${folder}/org%2Fm@${digest}.safetensors`;
    assertEquals((await client.entries()).map(({ place }) => place), [path]);
    using pool = cuda.device(0).createPool();
    using read = await readSafetensors(path, { pool });
    assertEquals([[...read.keys()].sort(), read.metadata.get("format")], [["a", "b"], "pt"]);
    // A file that has changed is not taken for the weights.
    const bytes = readFileSync(path), changed = Uint8Array.from(bytes);
    changed[bytes.length - 1]! ^= 1;
    writeFileSync(path, changed);
    const error = await assertRejects(() => mapWeights(client, "org/m"), SharingError, digest);
    assertEquals(error.code, "digest-mismatch");
    writeFileSync(path, bytes.subarray(0, bytes.length - 1));
    await assertRejects(() => mapWeights(client, "org/m"), Error, "org%2Fm");
    assertEquals((await client.entries()).map(({ place, sleepers }) => [place, sleepers.length]), [[path, 0]]);
    writeFileSync(path, bytes);
    await using held = await mapWeights(client, "org/m");
    assertEquals([await valuesOf(held), held.digest], [[5, 5], digest]);
    await assertRejects(() => offloadWeights(client, "org/m", { to: "here" }), RangeError, "absolute path");
  },
);

movedTest(
  "a store serves what was saved at once, but for what is cut, and loads it when it is mapped",
  async (context) => {
    const { cuda, client, folder, publish } = context;
    const digests = [await publish("x", 1), await publish("y", 2), await publish("z", 3, 2000), await publish("w", 4)];
    await saveWeights(client, folder);
    truncateSync(`${folder}/y@${digests[1]}.safetensors`, 1000);
    rmSync(`${folder}/w@${digests[3]}.safetensors`);
    const { entries: saved, refused } = await savedEntries(folder, cuda.devices);
    assertEquals(refused.map(({ name }) => name), ["y", "w"]);
    assert(/y@/.test(refused[0]!.error.message), refused[0]!.error.message);
    const [path, standby] = [`${folder}/next`, `${folder}/standby`];
    const ready = Promise.withResolvers<void>(), serves = Promise.withResolvers<void>();
    const first = MemoryStore.listen(cuda, path, { saved, standby, onStandby: ready.resolve });
    await using second = MemoryStore.listen(cuda, path, { saved, standby, onServe: serves.resolve });
    await using next = await StoreClient.connect(cuda, path);
    const files = ["x", "z"].map((name, index) => [name, `${folder}/${name}@${digests[2 * index]}.safetensors`, 1]);
    const listed = async () => (await next.entries()).map(({ name, place, generation }) => [name, place, generation]);
    assertEquals([await listed(), first.status()!.statistics.byteLength], [files, 0]);
    await using held = await mapWeights(next, `z@${digests[2]!.slice(0, 8)}`);
    assertEquals([held.size, await valuesOf(held)], [2002, [3, 3]]);
    // What was removed does not come back with the store that takes over.
    await next.remove("z");
    await ready.promise;
    await first[Symbol.asyncDispose]();
    await serves.promise;
    assertEquals([await listed(), second.isServing], [[files[0]], true]);
    // What has changed since then is not taken for the weights.
    const bytes = readFileSync(files[0]![1] as string), changed = Uint8Array.from(bytes);
    changed[bytes.length - 1]! ^= 1;
    writeFileSync(files[0]![1] as string, changed);
    const error = await assertRejects(() => mapWeights(next, "x"), SharingError, digests[0]);
    assertEquals(error.code, "digest-mismatch");
    writeFileSync(files[0]![1] as string, bytes);
    await using x = await mapWeights(next, "x");
    assertEquals([await valuesOf(x), x.generation, (await next.entries())[0]!.digest], [[1, 1], 1, digests[0]]);
  },
);

movedTest("a store refuses saved entries that cannot be", async ({ cuda, folder }) => {
  const entry = { name: "x", path: "/x", byteLength: 1 };
  const refusals: readonly [unknown, typeof TypeError | typeof RangeError, RegExp][] = [
    [3, TypeError, /as saved/],
    [[{ ...entry, path: "x" }], TypeError, /absolute path/],
    [[{ ...entry, byteLength: 0 }], RangeError, /size/],
    [[{ ...entry, digest: "12" }], TypeError, /64 hexadecimal/],
    [[{ ...entry, device: 0 }], TypeError, /devices/],
    [[{ ...entry, other: 0 }], TypeError, /other/],
    [[entry, entry], RangeError, /each of its ranks once/],
    [[{ ...entry, rank: [0, 2] }], RangeError, /each of its ranks once/],
    [[{ ...entry, rank: [0, 2] }, { ...entry, rank: [0, 2] }], RangeError, /each of its ranks once/],
  ];
  for (const [saved, kind, why] of refusals) {
    const error = assertThrows(() => MemoryStore.listen(cuda, `${folder}/s`, { saved: saved as never }), kind);
    assert(why.test(error.message), error.message);
  }
  const limited = () => MemoryStore.listen(cuda, `${folder}/s`, { saved: [entry], maxSize: 1 });
  assertThrows(limited, SharingError, "maxSize");
  const ranks = [0, 1].map((rank) => ({ ...entry, rank: [rank, 2] as const }));
  await using store = MemoryStore.listen(cuda, `${folder}/s`, { saved: ranks });
  await using client = await StoreClient.connect(cuda, store.path);
  assertEquals((await client.entries()).map(({ rank, place }) => [rank, place]), [[[0, 2], "/x"], [[1, 2], "/x"]]);
  await assertRejects(() => client.map("x", { rank: [1, 2] }), SharingError, "/x");
});

movedTest("models take turns on a device that has room for one", async ({ cuda, store, client, publish }) => {
  await using other = await StoreClient.connect(cuda, store.path);
  await publish("m", 5);
  await using first = await mapWeights(client, "m");
  await using second = await mapWeights(other, "m");
  const addresses = [first.buffer.address, second.buffer.address];
  const used = () => store.status()!.statistics.byteLength;
  const descriptors = () => readdirSync("/proc/self/fd").length;
  // Worker threads are started once, and keep descriptors: the cycles before are not counted.
  const threads = () => workerCounts().all;
  let before = { bytes: 0, descriptors: 0, threads: 0 };
  for (let counted = -5; counted < (isLong ? 195 : 5); counted++) {
    await first.sleep();
    assertEquals(await valuesOf(second), [5, 5]);
    assertEquals((await assertRejects(() => offloadWeights(client, "m"), SharingError)).code, "in-use");
    await second.sleep();
    await offloadWeights(client, "m");
    await publish("another", 6);
    await assertRejects(() => first.wake({ signal: AbortSignal.timeout(1) }), DOMException);
    assert(first.isAsleep);
    await client.remove("another");
    await Promise.all([first.wake(), second.wake()]);
    for (const each of [first, second]) assertEquals(await valuesOf(each), [5, 5]);
    assertEquals([first.buffer.address, second.buffer.address], addresses);
    if (counted > 0 && threads() > before.threads) counted = 0;
    if (counted === 0) before = { bytes: used(), descriptors: descriptors(), threads: threads() };
  }
  assertEquals(used(), before.bytes);
  assert(descriptors() <= before.descriptors + 4, `${descriptors()} descriptors, and ${before.descriptors} before`);
}, { maxSize: 2 ** 21 });

movedTest(
  "weights that share memory share it again when they are restored",
  async ({ cuda, client, folder, publish }) => {
    const digests = [
      await publish("x", 3),
      await publish("y", 3),
      await publish("many", 3, 2000),
      await publish("too", 3, 2000),
    ];
    await saveWeights(client, folder);
    await using store = MemoryStore.listen(cuda, `${folder}/next`);
    await using next = await StoreClient.connect(cuda, store.path);
    assertEquals((await restoreWeights(next, folder)).refused, []);
    const { entries, statistics } = store.status()!;
    const sizes = entries.map(({ byteLength }) => Math.ceil(byteLength / 2 ** 21) * 2 ** 21);
    assertEquals(statistics.byteLength, sizes[0]! + sizes[2]!);
    for (const [index, name] of ["x", "y", "many", "too"].entries()) {
      await using held = await mapWeights(next, name);
      assertEquals([await held.verify(), await valuesOf(held)], [digests[index], [3, 3]]);
    }
  },
);

movedTest("very many tensors come back from a file, with their list", async ({ client, folder, publish }) => {
  const digest = await publish("many", 3, 2000);
  await offloadWeights(client, "many", { to: folder });
  await using held = await mapWeights(client, "many");
  assertEquals([held.size, held.digest, await valuesOf(held)], [2002, digest, [3, 3]]);
});

movedTest("a store is saved and restored, but for what has changed", async ({ cuda, client, folder, publish }) => {
  const digests = [await publish("x", 1), await publish("y", 2), await publish("z", 3)];
  await using other = await client.create("other", 10);
  await other.publish();
  await offloadWeights(client, "y");
  assertEquals(await saveWeights(client, folder), { names: ["x", "y", "z"], refused: [] });
  assert(readdirSync(folder).every((name) => !name.endsWith(".tmp")));
  truncateSync(`${folder}/z@${digests[2]}.safetensors`, 1000);

  await using store = MemoryStore.listen(cuda, `${folder}/next`);
  await using next = await StoreClient.connect(cuda, store.path);
  const { names, refused } = await restoreWeights(next, folder, { devices: cuda.devices });
  assertEquals(names, ["x", "y"]);
  assertEquals(refused.map(({ name }) => name), ["z"]);
  assert(/z@/.test(refused[0]!.error.message), refused[0]!.error.message);
  await using held = await mapWeights(next, "y");
  assertEquals([held.digest, await valuesOf(held)], [digests[1], [2, 2]]);
  assertEquals((await next.entries()).map(({ name, digest }) => [name, digest]), [["x", digests[0]], [
    "y",
    digests[1],
  ]]);
  await assertRejects(() => saveWeights(client, folder, { names: ["other"] }), RangeError, "no such weights");
  await assertRejects(() => restoreWeights(client, `${folder}/none`), Error, "none");
});

movedTest("the ranks of a model are saved, and restored together or not at all", async (context) => {
  const { cuda, client, folder } = context;
  const publish = async (name: string) => {
    await Promise.all([0, 1].map(async (rank) => {
      using pool = cuda.device(0).createPool();
      using part = pool.allocateArray(new Float32Array([rank, 7]));
      const path = `${folder}/${name}-${rank}.safetensors`;
      await writeSafetensors({ part }, path);
      await using _weights = await publishWeights(client, name, path, { rank: [rank, 2], set: "run 7", keep: true });
    }));
  };
  for (const name of ["x", "y"]) await publish(name);
  await offloadWeights(client, "x", { rank: [1, 2] });
  assertEquals(await saveWeights(client, folder), { names: ["x", "y"], refused: [] });
  const before = await client.entries();
  const { metadata } = before.find(({ name, rank }) => name === "x" && rank[0] === 1)!;
  const stated = metadata as Record<string, unknown>;
  assertEquals([stated.rank, stated.set], [[1, 2], "run 7"]);
  const cut = before.find(({ name, rank }) => name === "y" && rank[0] === 1)!;
  truncateSync(`${folder}/y@${cut.digest}.safetensors`, 10);

  await using store = MemoryStore.listen(cuda, `${folder}/next`);
  await using next = await StoreClient.connect(cuda, store.path);
  const waiting = mapWeights(next, "x", { rank: [1, 2] });
  const { names, refused } = await restoreWeights(next, folder);
  assertEquals([names, refused.map(({ name }) => name)], [["x"], ["y"]]);
  await using held = await waiting;
  assertEquals(await held.get("part")!.read(Float32Array), new Float32Array([1, 7]));
  assertEquals(
    (await next.entries()).map(({ name, rank, generation, keep }) => [name, ...rank, generation, keep]),
    [["x", 0, 2, 1, true], ["x", 1, 2, 1, true]],
  );
  const table = JSON.parse(readFileSync(`${folder}/table.json`, "utf8"));
  table.entries.shift();
  writeFileSync(`${folder}/table.json`, JSON.stringify(table));
  const again = await restoreWeights(next, folder);
  assertEquals(again.refused.map(({ error }) => error.message)[0], "the table has 1 of its 2 ranks");
});
