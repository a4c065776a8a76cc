/** Entries of the same contents that share memory: only of one user, only if checked, and each as if it had its own. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { chmodSync } from "node:fs";
import process from "node:process";
import { type Cuda, MemoryStore, type MemoryStoreOptions, SharingError, StoreClient } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { StoreRequests } from "../../../src/sharing/store/store_requests.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";

interface Context {
  readonly cuda: Cuda;
  readonly folder: string;
  readonly store: MemoryStore;
  readonly client: StoreClient;
}

const unit = 2 ** 21;
const digest = "d".repeat(64), layout = "1".repeat(64);

function sharingTest(name: string, body: (context: Context) => Promise<void>, options: MemoryStoreOptions = {}): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda) =>
    inFolder(async (folder) => {
      await using store = MemoryStore.listen(cuda, `${folder}/store`, options);
      await using client = await StoreClient.connect(cuda, store.path);
      await body({ cuda, folder, store, client });
    }));
}

interface Publication {
  readonly value?: number;
  readonly layout?: string;
  readonly byteLength?: number;
  readonly rank?: readonly [number, number];
  /** Called when the store offers other memory. */
  isSame?(first: number): Promise<boolean>;
}

/** Publishes memory, keeps it mapped while `use` runs, and returns whether the store has offered other memory. */
async function publish(
  client: StoreClient,
  name: string,
  { value = 7, layout: own = layout, byteLength = unit, rank, isSame }: Publication = {},
  use = async () => {},
): Promise<boolean> {
  let isOffered = false;
  await using memory = await client.create(name, byteLength, rank === undefined ? {} : { rank });
  memory.buffer.fill(value);
  const { address } = memory.buffer;
  await memory.publish(undefined, {
    digest,
    metadata: { name },
    share: {
      layout: own,
      async isSame(buffer) {
        isOffered = true;
        const [first] = await buffer.read(Uint8Array, { length: 1 });
        return await isSame?.(first!) ?? first === value;
      },
    },
  });
  assertEquals(memory.buffer.address, address);
  await use();
  return isOffered;
}

async function valueOf(client: StoreClient, name: string): Promise<number> {
  using entry = await client.mapEntry(name);
  assertEquals([entry.digest, entry.metadata], [digest, { name }]);
  const bytes = await entry.buffer.read(Uint8Array);
  assertEquals(new Set(bytes).size, 1);
  return bytes[0]!;
}

const unitsOf = (store: MemoryStore): number => store.status()!.statistics.byteLength / unit;

sharingTest("names of the same contents share memory, which is counted and freed once", async (context) => {
  const { cuda, store, client } = context;
  assertEquals(await publish(client, "a"), false);
  await using reader = await StoreClient.connect(cuda, store.path);
  assertEquals(
    await publish(client, "b", {}, async () => {
      assertEquals(unitsOf(store), 1);
      assertEquals(await valueOf(reader, "b"), 7);
    }),
    true,
  );
  assertEquals((await client.entries()).map(({ name, generation }) => [name, generation]), [["a", 1], ["b", 1]]);
  await client.remove("a");
  assertEquals([unitsOf(store), await valueOf(client, "b")], [1, 7]);
  // The next generation of a name has the memory of the last one.
  using last = await client.mapEntry("b");
  assertEquals(await publish(client, "b"), true);
  assertEquals([unitsOf(store), last.generation, (await client.entries())[0]!.generation], [1, 1, 2]);
  await client.remove("b");
  assertEquals([unitsOf(store), (await last.buffer.read(Uint8Array, { length: 1 }))[0]], [1, 7]);
  last[Symbol.dispose]();
  await client.entries();
  assertEquals([unitsOf(store), store.status()!.entries], [0, []]);
});

sharingTest("what is not the same is not shared, whatever is claimed", async ({ store, client }) => {
  await publish(client, "a");
  // The contents differ from what their digest claims.
  assertEquals(await publish(client, "b", { value: 8 }), true);
  assertEquals([unitsOf(store), await valueOf(client, "a"), await valueOf(client, "b")], [2, 7, 8]);
  // The newest is offered: one that was wrong is not offered for ever.
  assertEquals(await publish(client, "c", { value: 8 }), true);
  assertEquals([unitsOf(store), await valueOf(client, "c")], [2, 8]);
  assertEquals(await publish(client, "d", { layout: "2".repeat(64) }), false);
  assertEquals(await publish(client, "e", { byteLength: unit - 1 }), false);
  assertEquals(unitsOf(store), 4);
  const fail = () => Promise.reject(new Error("no"));
  await assertRejects(() => publish(client, "f", { isSame: fail }), Error, "no");
  await client.entries();
  assertEquals(store.status()!.entries.map(({ name, readers }) => [name, readers.length]), [
    ...["a", "b", "c", "d", "e"].map((name) => [name, 0]),
  ]);
  await using memory = await client.create("g", 1);
  for (
    const share of [{ layout: "x", isSame: fail }, { layout, isSame: 3 }, { layout }, { layout, isSame: fail, x: 1 }]
  ) {
    await assertRejects(() => memory.publish(undefined, { digest, share: share as never }), TypeError);
  }
});

sharingTest("memory that is written is not shared, and shared memory is not written", async ({ store, client }) => {
  await publish(client, "a");
  {
    using mapped = await client.map("a", { write: true });
    mapped.fill(9);
  }
  assertEquals(await publish(client, "b"), false);
  assertEquals(await publish(client, "c"), true);
  for (const name of ["b", "c"]) {
    const error = await assertRejects(() => client.map(name, { write: true }), SharingError, "has the same memory");
    assertEquals(error.code, "in-use");
  }
  await client.remove("c");
  (await client.map("b", { write: true })).free();
  // What is offered may be written before it is taken.
  assertEquals(await publish(client, "d"), false);
  const isSame = async () => {
    using mapped = await client.map("d", { write: true });
    mapped.fill(1);
    return true;
  };
  assertEquals(await publish(client, "e", { isSame }), true);
  assertEquals([unitsOf(store), await valueOf(client, "d"), await valueOf(client, "e")], [4, 1, 7]);
});

sharingTest("what is offered may be gone before it is taken", async ({ store, client }) => {
  await publish(client, "a");
  const isSame = () => client.remove("a").then(() => true);
  assertEquals(await publish(client, "b", { isSame }), true);
  assertEquals([unitsOf(store), await valueOf(client, "b")], [1, 7]);
  // A claim to have been offered what was not does not help.
  const { perform } = StoreRequests.prototype;
  const entries = () => store.status()!.entries.map(({ name, byteLength }) => [name, byteLength]);
  const before = entries();
  StoreRequests.prototype.perform = function (what, document, pending) {
    return perform.call(this, what, what === "publish" ? { ...document, same: 1 } : document, pending);
  };
  try {
    assertEquals(await publish(client, "c", { value: 3 }), false);
  } finally {
    StoreRequests.prototype.perform = perform;
  }
  assertEquals([await valueOf(client, "c"), entries()], [3, [...before, ["c", unit]]]);
});

sharingTest("shared memory moves as one, unless one of its names is mapped", async ({ store, client }) => {
  await publish(client, "a");
  await publish(client, "b");
  const places = async () => (await client.entries()).map(({ place }) => place);
  {
    using _mapped = await client.map("b");
    const error = await assertRejects(() => client.offload("a"), SharingError, `mapped by process ${process.pid}`);
    assertEquals(error.code, "in-use");
  }
  await client.offload("a");
  assertEquals([await places(), unitsOf(store)], [["host", "host"], 0]);
  assertEquals(await Promise.all(["a", "b", "a"].map((name) => valueOf(client, name))), [7, 7, 7]);
  assertEquals([await places(), unitsOf(store)], [["device", "device"], 1]);
  await client.offload("b", { to: "file", move: () => Promise.resolve("/nowhere") });
  assertEquals([await places(), unitsOf(store)], [["/nowhere", "/nowhere"], 0]);
  const move = ({ buffer }: { readonly buffer: { fill(value: number): unknown } }) => {
    buffer.fill(7);
    return Promise.resolve();
  };
  (await client.mapEntry("a", { move }))[Symbol.dispose]();
  assertEquals([await places(), await valueOf(client, "b")], [["device", "device"], 7]);
});

sharingTest("shared memory makes room when none of its names is used", async ({ store, client }) => {
  await publish(client, "a");
  await publish(client, "b");
  using mapped = await client.map("a");
  const waiting = client.create("large", 2 * unit);
  assertEquals((await client.entries()).map(({ name }) => name), ["a", "b"]);
  mapped.free();
  await using _large = await waiting;
  assertEquals([await client.entries(), unitsOf(store)], [[], 2]);
}, { evict: true, maxSize: 2 * unit });

sharingTest("the parts of ranks share memory, too", async ({ store, client }) => {
  const ranks = [0, 1] as const;
  const publishAll = () =>
    Promise.all(
      ranks.map((rank) => publish(client, "x", { value: rank, rank: [rank, 2], layout: `${rank}`.repeat(64) })),
    );
  assertEquals(await publishAll(), [false, false]);
  assertEquals(await publishAll(), [true, true]);
  assertEquals([unitsOf(store), (await client.entries()).map(({ generation }) => generation)], [2, [2, 2]]);
  for (const rank of ranks) {
    using mapped = await client.map("x", { rank: [rank, 2] });
    assertEquals((await mapped.read(Uint8Array))[unit - 1], rank);
  }
});

sharingTest("with a store of an earlier version, each has memory of its own", async ({ store, client }) => {
  const { perform } = StoreRequests.prototype;
  StoreRequests.prototype.perform = function (what, { layout: _layout, same: _same, ...known }, pending) {
    return perform.call(this, what, known, pending);
  };
  try {
    assertEquals([await publish(client, "a"), await publish(client, "b"), unitsOf(store)], [false, false, 2]);
  } finally {
    StoreRequests.prototype.perform = perform;
  }
});

sharingTest("shared memory survives its store, and is shared with what comes then", async ({ cuda, folder }) => {
  const path = `${folder}/pair`, standby = `${folder}/pair.standby`;
  const ready = Promise.withResolvers<void>(), serves = Promise.withResolvers<void>();
  const first = MemoryStore.listen(cuda, path, { standby, onStandby: () => ready.resolve() });
  await using client = await StoreClient.connect(cuda, path);
  await publish(client, "a");
  await using second = MemoryStore.listen(cuda, path, { standby, reclaimTimeout: 50, onServe: serves.resolve });
  await publish(client, "b");
  await ready.promise;
  await publish(client, "c");
  await publish(client, "moved", { layout: "2".repeat(64) });
  await publish(client, "too", { layout: "2".repeat(64) });
  await client.offload("moved");
  await publish(client, "own", { layout: "3".repeat(64) });
  (await client.map("own", { write: true })).free();
  await client.remove("a");
  await first[Symbol.asyncDispose]();
  await serves.promise;
  const places = (await client.entries()).map(({ name, place }) => [name, place]);
  assertEquals(places, [["b", "device"], ["c", "device"], ["moved", "host"], ["too", "host"], ["own", "device"]]);
  assertEquals(unitsOf(second), 2);
  assertEquals([await publish(client, "d"), await publish(client, "e", { layout: "3".repeat(64) })], [true, false]);
  assertEquals(unitsOf(second), 3);
  for (const { name } of await client.entries()) {
    assertEquals(await valueOf(client, name), 7, name);
    await client.remove(name);
  }
  while (second.status()!.entries.length > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  assertEquals(unitsOf(second), 0);
});

sharingTest("the memory of another user is not shared", async ({ cuda, folder, client }) => {
  // It takes root to become another user.
  if (process.geteuid!() !== 0 || cuda.driver !== "software") return;
  chmodSync(folder, 0o755);
  await using store = MemoryStore.listen(cuda, `${folder}/several`, { users: [65_534] });
  await using own = await StoreClient.connect(cuda, store.path);
  await publish(own, "a");
  await using other = startScript("children/sharing/store_sharer.ts", [store.path, "b", digest, layout], {
    permissions: ["--allow-all"],
  });
  assertEquals(await other.nextLine() ?? await other.errors(), "offered false");
  assertEquals(await other.nextLine() ?? await other.errors(), "offered true");
  assertEquals(unitsOf(store), 2);
  const found = store.status()!.entries.map(({ name, readers }) => [name, readers.map(({ uid }) => uid)]);
  assertEquals(found, [["a", []], ["b", [65_534]], ["c", [65_534]]]);
  assert((await own.entries()).length === 3 && (await client.entries()).length === 0);
});
