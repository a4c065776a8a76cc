/** Memory that several ranks publish together: it is visible all at once, or not at all. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  type Cuda,
  MemoryStore,
  type MemoryStoreOptions,
  SharingError,
  StoreClient,
  type StoredMemory,
} from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { StoreRequests } from "../../../src/sharing/store/store_requests.ts";
import { remainingLines, startScript } from "../../support/child_process.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { inFolder } from "../../support/folders.ts";

const unit = 2 ** 21;

interface Context {
  readonly cuda: Cuda;
  readonly path: string;
  readonly driver: string;
  connect(): Promise<StoreClient>;
}

function setTest(name: string, body: (context: Context) => Promise<void>, options: MemoryStoreOptions = {}): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda: Cuda, { name: driver }) =>
    inFolder(async (folder) => {
      const path = `${folder}/store`;
      await using _store = MemoryStore.listen(cuda, path, options);
      await using clients = new AsyncDisposableStack();
      const connect = async () => clients.use(await StoreClient.connect(cuda, path));
      await body({ cuda, path, driver: driver.split(" ")[0]!, connect });
    }));
}

async function isCode(promise: Promise<unknown>, code: string, text = ""): Promise<void> {
  assertEquals((await assertRejects(() => promise, SharingError, text)).code, code);
}

/** Creates the memory of a rank, all of whose bytes are `byte`. */
async function create(
  client: StoreClient,
  rank: readonly [number, number],
  byte: number,
  more: { set?: string; device?: number } = {},
): Promise<StoredMemory> {
  const memory = await client.create("x", 8, { rank, ...more.set === undefined ? {} : { set: more.set } });
  memory.buffer.fill(byte);
  return memory;
}

async function publishAll(client: StoreClient, count: number, byte: number): Promise<void> {
  const parts = await Promise.all(
    Array.from({ length: count }, (_, rank) => create(client, [rank, count], byte + rank)),
  );
  await Promise.all(parts.map((part) => part.publish()));
  for (const part of parts) await part[Symbol.asyncDispose]();
}

async function firstByte(client: StoreClient, rank: readonly [number, number]): Promise<number> {
  using mapped = await client.map("x", { rank });
  return (await mapped.read(Uint8Array, { length: 1 }))[0]!;
}

const generationsOf = async (client: StoreClient, replaced = false): Promise<unknown[]> =>
  (await client.entries({ replaced })).map((
    { generation, rank, isReplaced },
  ) => [generation, ...rank, ...isReplaced ? ["replaced"] : []]);

setTest("the ranks of a set become visible together, with one generation", async ({ connect }) => {
  const [one, other, reader] = [await connect(), await connect(), await connect()];
  await using first = await create(one, [0, 2], 10);
  const publishing = first.publish();
  await using second = await create(other, [1, 2], 11);
  const waiting = reader.map("x", { rank: [1, 2] });
  assertEquals(await generationsOf(reader), []);
  const entry = await second.publish();
  assertEquals([entry.generation, (await publishing).generation], [1, 1]);
  using mapped = await waiting;
  assertEquals(await mapped.read(Uint8Array, { length: 1 }), new Uint8Array([11]));
  assertEquals(await generationsOf(reader), [[1, 0, 2], [1, 1, 2]]);
  assertEquals(await firstByte(reader, [0, 2]), 10);
  // Another number of ranks is not there.
  await isCode(reader.map("x"), "not-found", 'Cannot map "x" as a whole: it is published for 2 ranks');
  await isCode(reader.map("x", { rank: [0, 4] }), "not-found", "for rank 0 of 4: it is published for 2 ranks");

  await publishAll(one, 2, 20);
  assertEquals(await generationsOf(reader, true), [[2, 0, 2], [2, 1, 2], [1, 0, 2, "replaced"], [1, 1, 2, "replaced"]]);
  assertEquals([await firstByte(reader, [0, 2]), await firstByte(reader, [1, 2])], [20, 21]);
  // Whatever is published takes the name as a whole.
  await publishAll(one, 3, 30);
  assertEquals(await generationsOf(reader), [[3, 0, 3], [3, 1, 3], [3, 2, 3]]);
  {
    await using whole = await one.create("x", 8);
    await whole.publish();
  }
  assertEquals(await generationsOf(reader), [[4, 0, 1]]);
  await isCode(reader.map("x", { rank: [0, 3] }), "not-found", "it is published as a whole");
  await publishAll(one, 2, 40);
  await one.remove("x");
  assertEquals(await generationsOf(reader), []);
});

setTest("if a rank dies, none of the others publishes", async ({ path, driver, connect }) => {
  const start = (rank: number, ...more: string[]) =>
    startScript("children/sharing/store_rank.ts", [driver, path, "x", `${rank}`, "3", ...more]);
  const client = await connect();
  await publishAll(client, 3, 1);
  await using killed = start(1, "hang");
  await using publishing = start(2);
  assertEquals([await killed.nextLine(), await publishing.nextLine()], ["written", "written"]);
  await using mine = await create(client, [0, 3], 9);
  const published = mine.publish();
  killed.kill("SIGKILL");
  await isCode(published, "peer-gone", "of its 3 ranks, one has ended");
  assertEquals(await remainingLines(publishing), ["peer-gone"]);
  assertEquals(await generationsOf(client), [[1, 0, 3], [1, 1, 3], [1, 2, 3]]);
  // Its memory is of a set that is over, and a new set is another one.
  await isCode(mine.publish(), "peer-gone");
  await mine[Symbol.asyncDispose]();
  await publishAll(client, 3, 50);
  assertEquals(await firstByte(client, [1, 3]), 51);
});

setTest("a rank that no longer waits does not publish, and can try again", async ({ connect }) => {
  const [one, other] = [await connect(), await connect()];
  await using first = await create(one, [0, 2], 1);
  await using second = await create(other, [1, 2], 2);
  const ending = new AbortController();
  const given = first.publish(undefined, { signal: ending.signal });
  await one.entries();
  ending.abort();
  await assertRejects(() => given, DOMException, 'the other ranks to publish "x" in the store at /');
  const published = second.publish();
  await other.entries();
  assertEquals(await generationsOf(one), []);
  // It may be written again.
  first.buffer.fill(3);
  await first.publish();
  await published;
  assertEquals(await firstByte(other, [0, 2]), 3);
});

setTest("two groups of processes do not mix", async ({ connect }) => {
  const [one, other] = [await connect(), await connect()];
  await using a = await create(one, [0, 2], 1);
  await isCode(
    create(other, [0, 2], 1),
    "in-use",
    "writes it; give each group of processes that publishes another set",
  );
  await using b0 = await create(other, [0, 2], 5, { set: "b" });
  await using b1 = await create(other, [1, 2], 6, { set: "b" });
  const published = a.publish();
  await Promise.all([b0.publish(), b1.publish()]);
  await using a1 = await create(one, [1, 2], 2);
  const entry = await a1.publish();
  assertEquals([entry.generation, (await published).generation], [2, 2]);
  assertEquals([await firstByte(one, [0, 2]), await firstByte(one, [1, 2])], [1, 2]);
  for (const rank of [[2, 2], [0, 0], [-1, 2], [0.5, 2], [0, 5000]] as const) {
    await assertRejects(() => one.create("x", 1, { rank }), RangeError, "as rank");
  }
});

setTest("one of several processes writes each rank, if they ask to create it once", async ({ connect }) => {
  const [one, other] = [await connect(), await connect()];
  const once = (client: StoreClient, rank: number) => client.create("x", 8, { once: true, rank: [rank, 2] });
  await using first = (await once(one, 0))!;
  const waiting = once(other, 0);
  await using second = (await once(other, 1))!;
  await Promise.all([first.publish(), second.publish()]);
  assertEquals(await waiting, undefined);
  assertEquals(await once(one, 1), undefined);
});

setTest("a set survives its store, and gives way as a whole", async ({ cuda }) => {
  await inFolder(async (folder) => {
    const [path, standby] = [`${folder}/store`, `${folder}/standby`];
    const { promise, resolve } = Promise.withResolvers<void>();
    const options = { standby, evict: true, maxSize: 3 * unit, reclaimTimeout: 100 };
    const first = MemoryStore.listen(cuda, path, { ...options, onStandby: resolve });
    await using _second = MemoryStore.listen(cuda, path, options);
    await using client = await StoreClient.connect(cuda, path);
    await publishAll(client, 2, 7);
    using mapped = await client.map("x", { rank: [1, 2] });
    await promise;
    await first[Symbol.asyncDispose]();
    assertEquals(await generationsOf(client), [[1, 0, 2], [1, 1, 2]]);
    assertEquals([await firstByte(client, [0, 2]), await firstByte(client, [1, 2])], [7, 8]);
    const ending = new AbortController();
    const room = client.create("room", 2 * unit, { signal: ending.signal });
    await client.entries();
    ending.abort();
    await assertRejects(() => room, DOMException);
    assertEquals((await client.entries()).length, 2);
    mapped.free();
    await using _room = await client.create("room", 2 * unit);
    assertEquals(await client.entries(), []);
  });
});

setTest("a store of an earlier version is given no part of a set", async ({ connect }) => {
  const client = await connect();
  const { perform } = StoreRequests.prototype;
  StoreRequests.prototype.perform = function (what, { set: _set, rank: _rank, ...known }, pending) {
    return perform.call(this, what, known, pending);
  };
  try {
    await isCode(client.create("x", 8, { rank: [0, 2] }), "not-supported", "earlier version");
    await using whole = await client.create("x", 8);
    await whole.publish();
    await isCode(client.map("x", { rank: [0, 2] }), "not-found", "earlier version");
    const [entry] = await client.entries();
    assertEquals([entry!.rank, entry!.readers.length], [[0, 1], 1]);
    assert(entry!.generation === 1);
  } finally {
    StoreRequests.prototype.perform = perform;
  }
});
