/** Entries that make room by moving to host memory: each is still there, and whoever asks for room gets it. */
import { assertEquals, assertRejects } from "@std/assert";
import { type Cuda, MemoryStore, type MemoryStoreOptions, StoreClient } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import type { JsonObject } from "../../../src/sharing/protocol/documents.ts";
import { StoredMemories } from "../../../src/sharing/store/memories/stored_memories.ts";
import { PendingRequest } from "../../../src/sharing/store/memories/pending_request.ts";
import { StoreRequests } from "../../../src/sharing/store/store_requests.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";

interface Context {
  readonly cuda: Cuda;
  readonly store: MemoryStore;
  readonly client: StoreClient;
  readonly other: StoreClient;
}

const unit = 2 ** 21;

function offloadTest(name: string, body: (context: Context) => Promise<void>, options: MemoryStoreOptions = {}): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda) =>
    inFolder(async (folder) => {
      await using store = MemoryStore.listen(cuda, `${folder}/store`, { evict: "host", maxSize: 2 * unit, ...options });
      await using client = await StoreClient.connect(cuda, store.path);
      await using other = await StoreClient.connect(cuda, store.path);
      await body({ cuda, store, client, other });
    }));
}

async function publish(client: StoreClient, name: string, value: number, keep = false): Promise<void> {
  await using memory = await client.create(name, unit);
  memory.buffer.fill(value);
  // What is used at the same millisecond has no order.
  for (const now = Date.now(); Date.now() === now;);
  await memory.publish(undefined, { keep });
}

async function check(client: StoreClient, name: string, value: number): Promise<void> {
  for (const now = Date.now(); Date.now() === now;);
  using mapped = await client.map(name);
  assertEquals(new Set(await mapped.read(Uint8Array)), new Set([value]), name);
}

const places = async (client: StoreClient): Promise<string> =>
  (await client.entries()).map(({ name, place }) => `${name} ${place}`).sort().join(", ");

offloadTest("more entries than there is room for are all there, and take turns on the device", async (context) => {
  const { store, client, other } = context;
  for (const [value, name] of ["a", "b", "c", "d"].entries()) await publish(client, name, value);
  assertEquals(await places(client), "a host, b host, c device, d device");
  for (const reader of [client, other]) {
    for (const [value, name] of ["a", "b", "c", "d"].entries()) await check(reader, name, value);
  }
  assertEquals(await places(client), "a host, b host, c device, d device");
  // All at once, by both.
  const all = ["a", "b", "c", "d"].entries().toArray();
  await Promise.all(all.flatMap(([value, name]) => [check(client, name, value), check(other, name, value)]));
  assertEquals(store.status()!.statistics.byteLength, 2 * unit);
  await using large = await client.create("large", 2 * unit);
  assertEquals([large.buffer.byteLength, await places(other)], [2 * unit, "a host, b host, c host, d host"]);
});

offloadTest("what sleeps makes room, and what is mapped or kept does not", async ({ client, other }) => {
  await publish(client, "kept", 1, true);
  await publish(client, "b", 2);
  using entry = await other.mapEntry("b");
  const { address } = entry.buffer;
  const waiting = client.create("c", unit);
  assertEquals(await places(client), "b device, kept device");
  await assertRejects(() => client.create("d", unit, { signal: AbortSignal.timeout(30) }), DOMException, "room for");
  await entry.sleep();
  const memory = await waiting;
  assertEquals(await places(client), "b host, kept device");
  await assertRejects(() => entry.wake({ signal: AbortSignal.timeout(30) }), DOMException, "room");
  await memory.publish();
  await memory[Symbol.asyncDispose]();
  await entry.wake();
  assertEquals([await places(client), entry.buffer.address], ["b device, c host, kept device", address]);
  assertEquals(new Set(await entry.buffer.read(Uint8Array)), new Set([2]));
});

offloadTest("without host memory, who needs room waits, and nothing is lost", async ({ client }) => {
  for (const name of ["a", "b", "c"]) await publish(client, name, 1);
  assertEquals(await places(client), "a host, b device, c device");
  const waiting = client.create("d", unit);
  assertEquals(await places(client), "a host, b device, c device");
  await client.remove("a");
  await (await waiting)[Symbol.asyncDispose]();
  assertEquals(await places(client), "b host, c device");
}, { maxHostSize: unit });

offloadTest("if who makes room is killed or fails, others make it", async ({ cuda, store, client, other }) => {
  await publish(client, "a", 1);
  await publish(client, "kept", 2, true);
  await using mover = startScript("children/sharing/store_mover.ts", [cuda.driver, store.path, "a", "out"]);
  assertEquals(await mover.nextLine() ?? await mover.errors(), "copied");
  const waiting = client.create("b", unit);
  await other.entries();
  mover.kill("SIGKILL");
  await (await waiting)[Symbol.asyncDispose]();
  assertEquals(await places(client), "a host, kept device");
  await check(client, "a", 1);
  const { perform } = StoreRequests.prototype;
  StoreRequests.prototype.perform = function (what, document, pending) {
    if (what === "source") throw new Error("no");
    return perform.call(this, what, document, pending);
  };
  try {
    await assertRejects(() => client.create("b", unit), Error, "no");
  } finally {
    StoreRequests.prototype.perform = perform;
  }
  assertEquals(await places(client), "a device, kept device");
  await check(client, "a", 1);
});

offloadTest("what makes room may be used or gone meanwhile", async ({ client, other }) => {
  await publish(client, "a", 1);
  await publish(client, "b", 2);
  const { perform } = StoreRequests.prototype;
  const meanwhile: JsonObject[] = [{ do: "remove", name: "a" }, { do: "map", name: "b" }];
  let others: StoreRequests | undefined;
  StoreRequests.prototype.perform = function (what, document, pending) {
    if (what === "entries") others ??= this;
    if (what === "move") {
      const request = meanwhile.shift();
      if (request !== undefined) perform.call(others, request.do as string, request, pending);
    }
    return perform.call(this, what, document, pending);
  };
  try {
    await other.entries();
    await using _c = await client.create("c", unit);
    assertEquals(await places(client), "b device");
    const waiting = client.create("d", unit);
    while (meanwhile.length > 0) await client.entries();
    const [entry] = await client.entries();
    assertEquals([entry!.place, entry!.readers.length], ["device", 1]);
    await other[Symbol.asyncDispose]();
    await (await waiting)[Symbol.asyncDispose]();
    assertEquals(await places(client), "b host");
  } finally {
    StoreRequests.prototype.perform = perform;
  }
});

offloadTest("one part of a model makes room, and one that shares its memory goes with it", async ({ client }) => {
  const share = { layout: "1".repeat(64), isSame: () => Promise.resolve(true) };
  await Promise.all([0, 1].map(async (rank) => {
    await using memory = await client.create("x", unit, { rank: [rank, 2] });
    memory.buffer.fill(rank);
    await memory.publish(undefined, { digest: `${rank}`.repeat(64), share });
  }));
  await client.offload("x", { rank: [1, 2] });
  {
    await using memory = await client.create("y", unit);
    memory.buffer.fill(0);
    await memory.publish(undefined, { digest: "0".repeat(64), share });
  }
  assertEquals(await places(client), "x device, x host, y device");
  await using _large = await client.create("large", 2 * unit);
  assertEquals(await places(client), "x host, x host, y host");
});

offloadTest("for clients of earlier versions, nothing makes room, and nothing is lost", async ({ client, other }) => {
  await publish(client, "a", 1);
  await publish(client, "b", 2);
  const { perform } = StoreRequests.prototype;
  StoreRequests.prototype.perform = function (what, { offloads: _offloads, ...known }, pending) {
    return perform.call(this, what, known, pending);
  };
  try {
    const waiting = client.create("c", unit);
    await client.entries();
    StoreRequests.prototype.perform = perform;
    assertEquals(await places(other), "a device, b device");
    await other.offload("a");
    await (await waiting)[Symbol.asyncDispose]();
  } finally {
    StoreRequests.prototype.perform = perform;
  }
});

offloadTest("nobody moves what another user has published", async ({ cuda }) => {
  const limits = {
    ...{ devices: cuda.devices, maxSize: unit, maxSizeOfUser: Infinity, maxHostSize: Infinity },
    ...{ maximumMetadata: 2 ** 20, evict: "host", isShared: true } as const,
  };
  using memories = new StoredMemories(cuda, limits, []);
  const [owner, stranger, root] = [1000, 1001, 0].map((uid) => ({ peer: { pid: uid + 1, uid, gid: uid } }));
  const device = cuda.device(0).uuid;
  const request = { name: "x", device, byteLength: unit, metadata: undefined, set: undefined, offloads: true };
  const pending = () => new PendingRequest(1, { onSettled() {}, onWait() {} });
  const memory = await memories.create(owner!, request, pending());
  if ("offload" in memory) throw new Error("there is room");
  memories.publish(memory, {});
  memories.release(owner!, memory.id);
  const waiting = pending();
  const created = memories.create(stranger!, request, waiting);
  waiting.end(new Error("given up") as never);
  await assertRejects(() => created, Error, "given up");
  for (const holder of [owner!, root!]) {
    assertEquals(await memories.create(holder, request, pending()), { offload: memory });
  }
  await assertRejects(
    () => memories.beginMove(stranger!, memory, { to: "host", offloads: true, pending: pending() }),
    Error,
    "user 1000 has published it",
  );
});
