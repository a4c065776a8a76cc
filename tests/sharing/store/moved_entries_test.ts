/** Entries that are moved to host memory or a file and back: whole, once, and by processes that may die. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { type Cuda, MemoryStore, type MemoryStoreOptions, SharingError, StoreClient } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import type { JsonObject } from "../../../src/sharing/protocol/documents.ts";
import { StoreRequests } from "../../../src/sharing/store/store_requests.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";

interface Context {
  readonly cuda: Cuda;
  readonly folder: string;
  readonly store: MemoryStore;
  connect(): Promise<StoreClient>;
}

const length = 9_000_001;
const sizeOfEntry = Math.ceil(length / 2 ** 21) * 2 ** 21;

function moveTest(name: string, body: (context: Context) => Promise<void>, options: MemoryStoreOptions = {}): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda) =>
    inFolder(async (folder) => {
      await using store = MemoryStore.listen(cuda, `${folder}/store`, options);
      await using clients = new AsyncDisposableStack();
      const connect = async () => clients.use(await StoreClient.connect(cuda, store.path));
      await body({ cuda, folder, store, connect });
    }));
}

const pattern = Uint8Array.from({ length }, (_, index) => (index * 2_654_435_761 >>> 11) & 255);

async function publish(client: StoreClient, name = "x"): Promise<void> {
  await using memory = await client.create(name, length, { metadata: { name } });
  memory.buffer.copyFrom(pattern);
  await memory.publish();
}

async function placesIn(client: StoreClient): Promise<readonly string[]> {
  return (await client.entries()).map(({ place }) => place);
}

function deviceBytes(store: MemoryStore): number {
  return store.status()!.statistics.byteLength;
}

moveTest("an entry is moved to host memory, and back by who maps it", async ({ store, connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  await publish(maker);
  const before = deviceBytes(store);
  await maker.offload("x");
  await maker.offload("x");
  assertEquals([await placesIn(reader), deviceBytes(store)], [["host"], 0]);
  // Two at once: one of them brings it back.
  const [entry, buffer] = await Promise.all([reader.mapEntry("x"), maker.map("x")]);
  assertEquals([await placesIn(reader), deviceBytes(store)], [["device"], before]);
  assertEquals([entry.generation, entry.metadata], [1, { name: "x" }]);
  assertEquals(await entry.buffer.read(Uint8Array), pattern);
  assertEquals(await buffer.read(Uint8Array, { length: 1000 }), pattern.subarray(0, 1000));
  assertEquals(store.status()!.entries.map(({ readers }) => readers.length), [2]);
  // What is mapped stays.
  const error = await assertRejects(() => maker.offload("x"), SharingError, "mapped by process");
  assertEquals(error.code, "in-use");
  buffer.free();
  entry[Symbol.dispose]();
  await reader.entries();
  await maker.offload("x");
  await maker.remove("x");
  assertEquals(store.status()!.entries, []);
});

moveTest("an entry that sleeps is moved, and wakes at the same addresses", async ({ connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  await publish(maker);
  using entry = await reader.mapEntry("x");
  const { address } = entry.buffer;
  for (let cycle = 0; cycle < 2; cycle++) {
    await entry.sleep();
    await maker.offload("x");
    await entry.wake();
    assertEquals([entry.buffer.address, await placesIn(reader)], [address, ["device"]]);
    assertEquals(await entry.buffer.read(Uint8Array), pattern);
  }
});

moveTest("without room on the device, who wakes sleeps on, and nothing is leaked", async ({ store, connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  await publish(maker);
  using entry = await reader.mapEntry("x");
  await entry.sleep();
  await maker.offload("x");
  await using other = await maker.create("y", length);
  const aborted = await assertRejects(() => entry.wake({ signal: AbortSignal.timeout(30) }), DOMException);
  assert(/room on the device/.test(aborted.message), aborted.message);
  assertEquals([entry.isAsleep, await placesIn(maker)], [true, ["host"]]);
  await assertRejects(() => reader.map("x", { signal: AbortSignal.timeout(30) }), DOMException);
  assertEquals(store.status()!.entries.map(({ name, readers }) => [name, readers.length]), [["x", 1], ["y", 0]]);
  await other[Symbol.asyncDispose]();
  await entry.wake();
  assertEquals(await entry.buffer.read(Uint8Array), pattern);
  assertEquals(deviceBytes(store), sizeOfEntry);
}, { maxSize: sizeOfEntry });

moveTest("a move waits for processes that have the entry mapped, but no longer than it may", async ({ connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  await publish(maker);
  const mapped = await reader.map("x");
  for (const timeout of [0, 30]) {
    const error = await assertRejects(() => maker.offload("x", { timeout }), SharingError, `process ${process.pid};`);
    assertEquals(error.code, "in-use");
  }
  const ending = new AbortController();
  const aborted = maker.offload("x", { timeout: Infinity, signal: ending.signal });
  const moved = maker.offload("x", { timeout: 60_000 });
  await maker.entries();
  ending.abort();
  await assertRejects(() => aborted, DOMException);
  mapped.free();
  await moved;
  assertEquals(await placesIn(maker), ["host"]);
  await assertRejects(() => maker.offload("x", { timeout: -1 }), RangeError, "timeout");
});

moveTest("host memory has a limit, which is free again when the entry is back or gone", async ({ store, connect }) => {
  const client = await connect();
  for (const name of ["x", "y"]) await publish(client, name);
  await client.offload("x");
  const text = `${sizeOfEntry} bytes of "y" to host memory, ${sizeOfEntry} bytes of which are taken: the limit is`;
  const error = await assertRejects(() => client.offload("y"), SharingError, text);
  assertEquals([error.code, await placesIn(client), deviceBytes(store)], [
    "limit-exceeded",
    ["host", "device"],
    sizeOfEntry,
  ]);
  (await client.map("x")).free();
  await client.offload("y");
  await assertRejects(() => client.offload("x"), SharingError, "maxHostSize");
  await client.remove("y");
  await client.offload("x");
  // A move that is given up takes nothing.
  await client.remove("x");
  await publish(client, "z");
  await assertRejects(() => client.offload("z", { move: () => Promise.reject(new Error("no")) }), Error, "no");
  await client.offload("z");
  assertEquals(await placesIn(client), ["host"]);
}, { maxHostSize: sizeOfEntry });

moveTest("a move that fails leaves the entry where it was", async ({ store, connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  await publish(maker);
  const fail = () => Promise.reject(new Error("no"));
  await assertRejects(() => maker.offload("x", { move: fail }), Error, "no");
  assertEquals([await placesIn(reader), store.status()!.entries.length], [["device"], 1]);
  await maker.offload("x");
  await assertRejects(() => reader.mapEntry("x", { move: fail }), Error, "no");
  assertEquals([await placesIn(reader), store.status()!.entries.length, deviceBytes(store)], [["host"], 1, 0]);
  using entry = await reader.mapEntry("x");
  assertEquals(await entry.buffer.read(Uint8Array), pattern);
  await assertRejects(() => maker.offload("none"), SharingError, "nothing is published");
  await assertRejects(() => maker.offload("x", { to: "file" }), TypeError, "offloadWeights");
});

moveTest("a process that is killed while it moves an entry leaves it as it was", async ({ store, cuda, connect }) => {
  const client = await connect();
  await publish(client);
  for (const way of ["out", "back"] as const) {
    if (way === "back") await client.offload("x");
    const before = deviceBytes(store);
    await using mover = startScript("children/sharing/store_mover.ts", [cuda.driver, store.path, "x", way]);
    assertEquals(await mover.nextLine(), "copied");
    assertEquals(store.status()!.entries.length, 2);
    // Who wants it meanwhile waits, and does not see it half moved.
    const mapped = client.mapEntry("x");
    mover.kill("SIGKILL");
    using entry = await mapped;
    assertEquals(await entry.buffer.read(Uint8Array), pattern);
    assertEquals([await placesIn(client), store.status()!.entries.length], [["device"], 1]);
    assertEquals(deviceBytes(store), way === "out" ? before : sizeOfEntry);
  }
});

/** Changes what clients ask a store for: as those of an earlier version do, or as a store of an earlier version knows it. */
async function withRequests(change: (what: string, document: JsonObject) => JsonObject, body: () => Promise<void>) {
  const { perform } = StoreRequests.prototype;
  StoreRequests.prototype.perform = function (what, document, pending) {
    const changed = change(what, document);
    return perform.call(this, changed.do as string, changed, pending);
  };
  try {
    await body();
  } finally {
    StoreRequests.prototype.perform = perform;
  }
}

moveTest(
  "a client of an earlier version is refused what is not on its device, and maps it when it is",
  async (context) => {
    const client = await context.connect();
    await publish(client);
    await client.offload("x");
    await withRequests((_what, { places: _places, ...known }) => known, async () => {
      const error = await assertRejects(() => client.map("x"), SharingError, "poolpass weights wake");
      assertEquals(error.code, "incompatible");
      assertEquals((await client.entries()).map(({ readers, sleepers }) => [readers.length, sleepers.length]), [[
        0,
        0,
      ]]);
    });
    (await client.mapEntry("x"))[Symbol.dispose]();
    await withRequests((_what, { places: _places, ...known }) => known, async () => {
      using buffer = await client.map("x");
      assertEquals(await buffer.read(Uint8Array, { length: 9 }), pattern.subarray(0, 9));
    });
  },
);

moveTest(
  "a store of an earlier version refuses to let sleep and to move, and all stays as it is",
  async ({ connect }) => {
    const client = await connect();
    await publish(client);
    const known = (what: string, document: JsonObject) =>
      ["sleep", "move", "source", "moved"].includes(what) ? { ...document, do: `new ${what}` } : document;
    await withRequests(known, async () => {
      using entry = await client.mapEntry("x");
      for (const ask of [() => entry.sleep(), () => client.offload("x")]) {
        const error = await assertRejects(ask, SharingError, "a store does not know it");
        assertEquals(error.code, "bad-message");
      }
      assertEquals([entry.isAsleep, await entry.buffer.read(Uint8Array)], [false, pattern]);
    });
  },
);

moveTest("after a takeover, others wait for the process that moves an entry", async ({ cuda, folder }) => {
  const path = `${folder}/pair`, options = { standby: `${folder}/pair.standby`, reclaimTimeout: 500 };
  const ready = Promise.withResolvers<void>(), serves = Promise.withResolvers<void>();
  const first = MemoryStore.listen(cuda, path, { ...options, onStandby: () => ready.resolve() });
  await using second = MemoryStore.listen(cuda, path, { ...options, onServe: () => serves.resolve() });
  await ready.promise;
  await using client = await StoreClient.connect(cuda, path);
  await publish(client);
  await client.offload("x");
  await using mover = startScript("children/sharing/store_mover.ts", [cuda.driver, path, "x", "back"]);
  assertEquals(await mover.nextLine(), "copied");
  // It cannot claim what it fills from the next store yet.
  mover.kill("SIGSTOP");
  await first[Symbol.asyncDispose]();
  await serves.promise;
  const mapped = client.mapEntry("x");
  await client.entries();
  await client.entries();
  assertEquals(second.status()!.entries.length, 2);
  // It never does.
  mover.kill("SIGKILL");
  using entry = await mapped;
  assertEquals(await entry.buffer.read(Uint8Array), pattern);
  assertEquals([await placesIn(client), second.status()!.entries.length], [["device"], 1]);
});

moveTest("what a process has held asleep is gone with it", async ({ store, cuda, connect }) => {
  const client = await connect();
  await publish(client);
  await using sleeper = startScript("children/sharing/store_mover.ts", [cuda.driver, store.path, "x", "asleep"]);
  assertEquals(await sleeper.nextLine(), "sleeps");
  await client.offload("x");
  await client.remove("x");
  assertEquals(store.status()!.entries.map(({ state }) => state), ["removed"]);
  sleeper.kill("SIGKILL");
  await sleeper.ended;
  while (store.status()!.entries.length > 0) await new Promise((resolve) => setTimeout(resolve, 1));
});

moveTest("an entry is moved to a file that its mover writes, and read from it", async ({ folder, store, connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  await publish(maker);
  const path = `${folder}/x.bin`;
  await maker.offload("x", {
    to: "file",
    move: async ({ buffer, from, to }) => {
      assertEquals([from, to], ["device", "file"]);
      writeFileSync(path, await buffer.read(Uint8Array));
      return path;
    },
  });
  assertEquals([await placesIn(reader), deviceBytes(store)], [[path], 0]);
  const error = await assertRejects(() => reader.map("x"), SharingError, path);
  assertEquals(error.code, "incompatible");
  using entry = await reader.mapEntry("x", {
    move: ({ buffer, from }) => Promise.resolve(void buffer.copyFrom(readFileSync(from))),
  });
  assertEquals(await entry.buffer.read(Uint8Array), pattern);
  assertEquals(await placesIn(reader), ["device"]);
});

moveTest("one rank of several is moved, and comes back", async ({ connect }) => {
  const clients = [await connect(), await connect()];
  await Promise.all(clients.map(async (client, rank) => {
    await using memory = await client.create("x", 100, { rank: [rank, 2], set: "s" });
    memory.buffer.fill(rank + 1);
    await memory.publish();
  }));
  const [client] = clients;
  await client!.offload("x", { rank: [1, 2] });
  assertEquals((await client!.entries()).map(({ rank, place }) => [rank[0], place]), [[0, "device"], [1, "host"]]);
  for (const rank of [0, 1]) {
    using entry = await client!.mapEntry("x", { rank: [rank, 2] });
    assertEquals(new Set(await entry.buffer.read(Uint8Array)), new Set([rank + 1]));
  }
  await assertRejects(() => client!.offload("x"), SharingError, "rank");
});

moveTest("a moved entry survives its store through the standby", async ({ cuda, folder }) => {
  const path = `${folder}/pair`, standby = `${folder}/pair.standby`;
  const ready = Promise.withResolvers<void>(), serves = Promise.withResolvers<void>();
  const first = MemoryStore.listen(cuda, path, { standby, onStandby: () => ready.resolve() });
  await using second = MemoryStore.listen(cuda, path, { standby, onServe: () => serves.resolve() });
  await ready.promise;
  await using client = await StoreClient.connect(cuda, path);
  await publish(client);
  await publish(client, "file");
  await client.offload("x");
  // A move to a file goes on, although its mover has nothing to claim.
  await client.offload("file", {
    to: "file",
    move: async () => {
      await first[Symbol.asyncDispose]();
      await serves.promise;
      return "/somewhere";
    },
  });
  assertEquals([await placesIn(client), deviceBytes(second)], [["host", "/somewhere"], 0]);
  using entry = await client.mapEntry("x");
  assertEquals(await entry.buffer.read(Uint8Array), pattern);
});
