/** Many processes that want the same memory: one of them makes it, and if it dies, another. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Cuda, MemoryStore, SharingError, StoreClient, type StoredMemory } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { remainingLines, startScript } from "../../support/child_process.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { inFolder } from "../../support/folders.ts";

interface Context {
  readonly store: MemoryStore;
  readonly driver: string;
  connect(): Promise<StoreClient>;
}

function onceTest(name: string, body: (context: Context) => Promise<void>): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda: Cuda, { name: driver }) =>
    inFolder(async (folder) => {
      await using store = MemoryStore.listen(cuda, `${folder}/store`, { maxSize: 2 ** 23, maximumMetadata: 2 ** 21 });
      await using clients = new AsyncDisposableStack();
      await body({
        store,
        driver: driver.split(" ")[0]!,
        connect: async () => clients.use(await StoreClient.connect(cuda, `${folder}/store`)),
      });
    }));
}

/** Whether a request has been answered, asked after the store has begun it. */
async function isAnswered(client: StoreClient, request: Promise<unknown>): Promise<boolean> {
  let isOver = false;
  void request.then(() => isOver = true, () => isOver = true);
  await client.entries();
  await client.entries();
  return isOver;
}

const once = { once: true } as const;

onceTest("if the process that writes is killed, one of those that wait does", async ({ store, driver, connect }) => {
  await using killed = startScript("children/sharing/store_once.ts", [driver, store.path, "x", "1", "hang"]);
  assertEquals([await killed.nextLine(), await killed.nextLine()], ["asks", "writes"]);
  const client = await connect();
  const created = client.create("x", 4096, once);
  assert(!await isAnswered(client, created));
  await using waiting = startScript("children/sharing/store_once.ts", [driver, store.path, "x", "2"]);
  assertEquals(await waiting.nextLine(), "asks");
  killed.kill("SIGKILL");
  // Who of the two asks first again is a matter of time: the store hears of the end of one connection from the system.
  await using made = await created;
  if (made !== undefined) {
    assert(await made.buffer.read(Uint8Array).then((bytes) => bytes.every((byte) => byte === 0)));
    made.buffer.fill(3);
    await made.publish();
  }
  assertEquals(await remainingLines(waiting), made === undefined ? ["writes", "mapped 2"] : ["mapped 3"]);
  assertEquals(await waiting.ended, 0);
  assertEquals((await client.entries()).map(({ name, generation }) => [name, generation]), [["x", 1]]);
});

onceTest("what is published is not made again, unless it is what is to be replaced", async ({ connect }) => {
  const [one, other] = [await connect(), await connect()];
  const publish = async (memory: StoredMemory | undefined): Promise<void> => {
    await memory!.publish();
    await memory![Symbol.asyncDispose]();
  };
  const first = await one.create("x", 1, once);
  const [second, third] = [other.create("x", 1, once), other.create("x", 1, { ...once, replaces: 1 })];
  // Another name, and who asks for memory without the option, do not wait.
  await using _y = await other.create("y", 1, once);
  await using _x = await other.create("x", 1);
  assert(!await isAnswered(other, Promise.race([second, third])));
  await publish(first);
  assertEquals(await second, undefined);
  assert(!await isAnswered(other, third));
  await _x[Symbol.asyncDispose]();
  await publish(await third);
  assertEquals(await one.create("x", 1, { ...once, replaces: 1 }), undefined);
  await publish(await one.create("x", 1, { ...once, replaces: 2 }));
  assertEquals((await one.entries()).map(({ name, generation }) => [name, generation]), [["x", 3]]);
  await one.remove("x");
  await publish(await one.create("x", 1, { ...once, replaces: 3 }));
  assertEquals(await one.create("x", 1, once), undefined);
});

onceTest("a client that waits can give up, and one that waits for room writes already", async ({ connect }) => {
  const [one, other] = [await connect(), await connect()];
  const all = await one.create("all", 2 ** 23);
  const [ending, endingOfAnother] = [new AbortController(), new AbortController()];
  const withoutRoom = one.create("x", 2 ** 21, { ...once, signal: ending.signal });
  const given = other.create("x", 1, { ...once, signal: endingOfAnother.signal });
  const waiting = other.create("x", 1, once);
  assert(!await isAnswered(other, Promise.race([given, waiting])));
  endingOfAnother.abort();
  await assertRejects(() => given, DOMException, 'Waiting for "x" or room for it in the store at /');
  ending.abort();
  await assertRejects(() => withoutRoom, DOMException);
  assert(!await isAnswered(other, waiting));
  await all[Symbol.asyncDispose]();
  await using made = await waiting;
  assertEquals(made!.buffer.byteLength, 1);
  // A request that can never be satisfied lets the next one go on.
  await assertRejects(() => one.create("y", 2 ** 24, once), SharingError, "maxSize");
  await using _y = await other.create("y", 1, once);
  await assertRejects(() => one.create("y", 1, { ...once, replaces: -1 }), RangeError, "whole number");
  await assertRejects(() => one.create("y", 1, { replaces: 1 } as object), TypeError, "once");
});

onceTest(
  "the metadata of requests that wait counts, and no longer when they have ended",
  async ({ connect, store }) => {
    const [one, other] = [await connect(), await connect()];
    const metadata = "m".repeat(2 ** 19);
    await using _x = await one.create("x", 1, once);
    const ending = new AbortController();
    const requests = Array.from({ length: 8 }, () => {
      return other.create("x", 1, { ...once, metadata, signal: ending.signal }).catch((error) => error);
    });
    assertEquals((await Promise.race(requests)).code, "limit-exceeded");
    ending.abort();
    await Promise.all(requests);
    await using made = await other.create("z", 1, { ...once, metadata });
    assertEquals([made!.name, store.status()!.entries.length], ["z", 2]);
  },
);
