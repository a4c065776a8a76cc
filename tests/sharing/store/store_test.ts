import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import {
  type Cuda,
  CudaError,
  Exporter,
  Importer,
  type JsonValue,
  MemoryStore,
  type MemoryStoreOptions,
  open,
  type PublishEntryOptions,
  SharingError,
  StoreClient,
} from "../../../mod.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { inFolder } from "../../support/folders.ts";

/** The granularity of memory. */
const unit = 2 ** 21;

interface Context {
  readonly cuda: Cuda;
  readonly path: string;
  connect(): Promise<StoreClient>;
}

/** A test with a store and clients in one process. What separate processes do is tested in store_kills_test.ts. */
function storeTest(
  name: string,
  body: (context: Context) => Promise<void>,
  options: (cuda: Cuda, path: string) => MemoryStoreOptions = () => ({}),
): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda) =>
    inFolder(async (folder) => {
      const path = `${folder}/store`;
      await using _store = MemoryStore.listen(cuda, path, options(cuda, folder));
      await using clients = new AsyncDisposableStack();
      await body({ cuda, path, connect: async () => clients.use(await StoreClient.connect(cuda, path)) });
    }), { makesMistakes: true });
}

async function publish(client: StoreClient, name: string, byte: number, byteLength: number = unit): Promise<void> {
  await using memory = await client.create(name, byteLength);
  memory.buffer.fill(byte);
  await memory.publish();
}

async function isCode(promise: Promise<unknown>, code: string, text = ""): Promise<void> {
  const error = await assertRejects(() => promise, SharingError, text);
  assertEquals(error.code, code);
}

storeTest("what was published is there when its maker has gone, and cannot be written", async ({ connect }) => {
  const maker = await connect();
  const metadata = { dtype: "float32", shape: [3, 5], "größe": null };
  const memory = await maker.create("weights", 60, { metadata });
  assertEquals([memory.name, memory.buffer.byteLength], ["weights", 60]);
  memory.buffer.copyFrom(new Float32Array(15).fill(7));
  assertEquals(await maker.entries(), []);
  await memory.publish();
  await maker[Symbol.asyncDispose]();

  const reader = await connect();
  using mapped = await reader.map("weights");
  assertEquals(await mapped.read(Float32Array), new Float32Array(15).fill(7));
  assertThrows(() => mapped.fill(1), CudaError, '"read"');
  const [entry, ...others] = await reader.entries();
  assertEquals(others, []);
  assertEquals([entry!.name, entry!.byteLength, entry!.generation, entry!.metadata], ["weights", 60, 1, metadata]);
  assert(Date.now() - entry!.since < 60_000);
  using written = await reader.map("weights", { write: true });
  written.fill(3);
  await written.stream.finished();
  assertEquals(await mapped.read(Uint8Array, { length: 2 }), new Uint8Array([3, 3]));
});

storeTest(
  "a new generation takes the name, and readers keep the last one until they release it",
  async ({ connect }) => {
    const [maker, reader] = [await connect(), await connect()];
    await publish(maker, "x", 1);
    const first = await reader.map("x");
    await publish(maker, "x", 2);
    using second = await reader.map("x");
    assertEquals(await first.read(Uint8Array, { length: 1 }), new Uint8Array([1]));
    assertEquals(await second.read(Uint8Array, { length: 1 }), new Uint8Array([2]));
    assertEquals((await reader.entries()).map(({ generation, readers }) => [generation, readers.length]), [[2, 1]]);
    first.free();
    await maker.remove("x");
    assertEquals(await reader.entries(), []);
    assertEquals(await second.read(Uint8Array, { length: 1 }), new Uint8Array([2]));
    await isCode(maker.remove("x"), "not-found", 'Cannot remove "x"');
  },
);

storeTest("who maps a name waits for its first generation, and can give up", async ({ connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  const ending = new AbortController();
  const given = reader.map("later", { signal: ending.signal });
  const waiting = reader.map("later");
  ending.abort();
  await assertRejects(() => given, DOMException, 'Waiting for "later" to be published in the store at /');
  assertEquals((await reader.entries()).length, 0);
  await publish(maker, "later", 9);
  using mapped = await waiting;
  assertEquals(await mapped.read(Uint8Array, { length: 1 }), new Uint8Array([9]));
  // What was given up is held by nobody. Its maker asks, so that its own release, on the same connection, is before that.
  assertEquals((await maker.entries()).map(({ readers }) => readers.length), [1]);
});

storeTest("the error of a name that is not published lists the names that are", async ({ connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  const mapFails = async (name: string, ending: string): Promise<void> => {
    const error = await assertRejects(() => reader.map(name, { signal: AbortSignal.timeout(20) }), DOMException);
    assertEquals(error.message.split(" timed out: "), [
      `Waiting for "${name}" to be published in the store at ${reader.path}`,
      ending,
    ]);
  };
  await mapFails("nope", "the store has nothing published now");
  await publish(maker, "weights", 1);
  await publish(maker, "bias", 1);
  await mapFails("nope", 'the store has "weights", "bias"');
  await mapFails("wieghts", 'the store has "weights"; is the name right?');
  await isCode(
    reader.remove("nope"),
    "not-found",
    'Cannot remove "nope": nothing is published under this name; the store has "weights", "bias"',
  );
  const reason = new Error("enough");
  assertEquals(await assertRejects(() => reader.map("nope", { signal: AbortSignal.abort(reason) })), reason);
});

storeTest("memory that was not published goes with its writer, and is never handed out again", async ({ connect }) => {
  const maker = await connect();
  {
    await using memory = await maker.create("secret", unit);
    memory.buffer.fill(0xaa);
    await memory.buffer.stream.finished();
  }
  const other = await connect();
  const left = await other.create("secret", unit);
  assertEquals(new Set(await left.buffer.read(Uint8Array, { length: 4096 })), new Set([0]));
  assertEquals(await other.entries(), []);
});

storeTest("what is published can be read by its writer, and published once", async ({ connect }) => {
  const maker = await connect();
  await using memory = await maker.create("x", 4096);
  memory.buffer.fill(5);
  await memory.publish();
  assertEquals(await memory.buffer.read(Uint8Array, { length: 1 }), new Uint8Array([5]));
  assertThrows(() => memory.buffer.fill(6), CudaError, '"read"');
  await assertRejects(() => memory.publish(), TypeError, "it was published; create another generation");
  assertEquals((await maker.entries()).map(({ readers }) => readers.length), [1]);
  await memory[Symbol.asyncDispose]();
  assertEquals((await maker.entries()).map(({ readers }) => readers.length), [0]);
  await assertRejects(() => memory.publish(), ReferenceError, "it was disposed");
});

storeTest("new memory waits for room, in order, and what can never be is refused", async ({ connect }) => {
  const [maker, other] = [await connect(), await connect()];
  await isCode(maker.create("large", 4 * unit + 1), "limit-exceeded", "bytes of each device (maxSize)");
  for (const name of ["a", "b", "c", "d"]) await publish(maker, name, 1);
  const order: string[] = [];
  const ending = new AbortController();
  const given = other.create("given", unit, { signal: ending.signal });
  const two = other.create("two", 2 * unit).then((memory) => (order.push("two"), memory));
  const one = other.create("one", unit).then((memory) => (order.push("one"), memory));
  // Requests of a client are looked at in order.
  await other.entries();
  ending.abort();
  await assertRejects(() => given, DOMException, `Waiting for room for ${unit} bytes in the store at /`);
  await maker.remove("a");
  await other.entries();
  assertEquals(order, []);
  await maker.remove("b");
  await two;
  await maker.remove("c");
  await one;
  assertEquals(order, ["two", "one"]);
}, () => ({ maxSize: 4 * unit }));

storeTest("who waits for room on a device keeps nobody from another one", async ({ cuda, connect }) => {
  const other = cuda.devices[1];
  if (other === undefined) return;
  const client = await connect();
  await using _all = await client.create("all", 2 * unit);
  const ending = new AbortController();
  const waiting = client.create("more", unit, { signal: ending.signal });
  await using _other = await client.create("other", unit, { device: other, signal: AbortSignal.timeout(20_000) });
  ending.abort();
  await assertRejects(() => waiting, DOMException);
}, () => ({ maxSize: 2 * unit }));

storeTest("what nobody maps gives way if that was asked for, and a user has a quota", async ({ connect }) => {
  const maker = await connect();
  for (const name of ["a", "b", "c"]) await publish(maker, name, 1);
  using mapped = await maker.map("a");
  (await maker.map("b")).free();
  await publish(maker, "d", 2, 2 * unit);
  assertEquals((await maker.entries()).map(({ name }) => name), ["a", "d"]);
  assertEquals(await mapped.read(Uint8Array, { length: 1 }), new Uint8Array([1]));
  await isCode(maker.create("e", 3 * unit), "limit-exceeded", "bytes of one user (maxSizeOfUser)");
}, () => ({ evict: true, maxSize: 3 * unit, maxSizeOfUser: 5 * unit }));

storeTest("operators see a store's entries and who holds them", async ({ connect, path }) => {
  const maker = await connect();
  await publish(maker, "x", 1);
  using _mapped = await maker.map("x");
  await using _writing = await maker.create("y", 100, { metadata: [1] });
  await using operator = await Operator.connect(path);
  const status = await operator.status();
  if (status.kind !== "store") throw new Error(status.kind);
  assertEquals(
    status.entries.map(({ name, generation, state, byteLength, readers, writer, metadata }) => {
      return [name, generation, state, byteLength, readers.length, writer !== undefined, metadata];
    }),
    [["x", 1, "published", unit, 1, false, undefined], ["y", 0, "unpublished", 100, 0, true, [1]]],
  );
  assertEquals([status.statistics.clients, status.statistics.byteLength], [1, 2 * unit]);
  assertEquals(status.limits, { maxSize: 8 * unit, maxSizeOfUser: null });
}, () => ({ maxSize: 8 * unit }));

for (const [maxSize, shown] of [[1e300, null], [2 ** 60, null], [4.5 * unit + 0.5, 4.5 * unit]] as const) {
  storeTest(`operators see a limit of ${maxSize} bytes as ${shown}`, async ({ connect, path }) => {
    await publish(await connect(), "x", 1);
    await using operator = await Operator.connect(path);
    const status = await operator.status();
    if (status.kind !== "store") throw new Error(status.kind);
    assertEquals(status.limits, { maxSize: shown, maxSizeOfUser: shown });
  }, () => ({ maxSize, maxSizeOfUser: maxSize }));
}

storeTest(
  "a client that takes a store for an exporter, or an exporter for a store, gets an error that says so",
  async ({ cuda, path }) => {
    await isCode(Importer.connect(cuda, path), "bad-message", "connect with StoreClient.connect");
    await using exporter = Exporter.listen(`${path}.exporter`);
    await isCode(StoreClient.connect(cuda, exporter.path), "bad-message", "connect with Importer.connect");
    const waits = "with { wait: true }, StoreClient.connect waits for it";
    await isCode(StoreClient.connect(cuda, `${path}.none`), "not-found", waits);
  },
);

storeTest("wrong arguments are refused before anything is asked", async ({ cuda, path, connect }) => {
  const client = await connect();
  await assertRejects(() => client.create("", 1), RangeError, "1 to 255 bytes");
  await assertRejects(() => client.create("x", 0), RangeError);
  await assertRejects(() => client.create("x", 1, { device: 0 as never }), TypeError, "give a device");
  await assertRejects(() => client.create("x", 1, { metadata: 1n as never }), TypeError, "JSON");
  await assertRejects(
    () => client.create("x", 1, { metadata: "x".repeat(2 ** 22) }),
    RangeError,
    "the limit is 4194304",
  );
  await assertRejects(() => client.map("x", { write: 1 as never }), TypeError);
  await assertRejects(() => client.map("x", { writable: true } as never), TypeError, "no such option");
  await assertRejects(() => StoreClient.connect(cuda, path, { timeout: 3 } as never), TypeError, "no such option");
  const refusals: readonly [MemoryStoreOptions, string][] = [
    [{ maxSize: "1" as never }, "as maxSize"],
    [{ evict: 1 as never }, "as evict"],
    [{ devices: [] }, "as devices"],
    [{ devices: [3 as never] }, "as a device of the store"],
    [{ standby: 5 as never }, "a socket's path must be a string"],
    [{ limit: 5 } as never, "no such option"],
  ];
  for (const [options, text] of refusals) {
    const error = assertThrows(() => MemoryStore.listen(cuda, `${path}.other`, options), TypeError);
    assertStringIncludes(error.message, text);
  }
  assertThrows(() => MemoryStore.listen(cuda, path), SharingError, "this process listens there already");
  await client[Symbol.asyncDispose]();
  await assertRejects(() => client.entries(), ReferenceError, "was disposed");
});

storeTest("metadata of many tensors travels with an entry", async ({ connect }) => {
  const client = await connect();
  const tensors = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => {
    return [`model.layers.${index}.weight`, { dtype: "BF16", shape: [4096, index], byteOffset: index * 256 }];
  }));
  const memory = await client.create("bundle", 100, { metadata: { tensors } });
  await memory.publish();
  assertEquals((await client.entries())[0]!.metadata, { tensors });
  await memory[Symbol.asyncDispose]();
});

storeTest("metadata given when memory is published replaces what it was created with", async ({ connect }) => {
  const client = await connect();
  const metadata = { digest: "abc", tensors: [{ "größe": 3 }] };
  {
    await using memory = await client.create("weights", 100, { metadata: { digest: null } });
    await memory.publish(memory.buffer.stream, { metadata });
    await using other = await client.create("other", 100, { metadata: "as created" });
    await other.publish();
  }
  const found = () => client.entries().then((all) => all.map(({ name, metadata }) => [name, metadata]));
  assertEquals(await found(), [["weights", metadata], ["other", "as created"]]);
  await using memory = await client.create("none", 100);
  const notJson = { metadata: { then: 3n } } as unknown as PublishEntryOptions;
  await assertRejects(() => memory.publish(memory.buffer.stream, notJson), TypeError, "JSON");
  const mistyped = { metdata: 1 } as unknown as PublishEntryOptions;
  await assertRejects(() => memory.publish(memory.buffer.stream, mistyped), TypeError, '"metadata"');
  // A mistake leaves the memory as it was.
  await memory.publish(memory.buffer.stream, { metadata: 7 });
});

storeTest("nothing gives way for what does not fit afterwards", async ({ connect }) => {
  const client = await connect();
  for (const name of ["a", "b", "c"]) await publish(client, name, 1);
  const mapped = await client.map("a");
  const waiting = client.create("all", 3 * unit);
  assertEquals((await client.entries()).map(({ name }) => name), ["a", "b", "c"]);
  mapped.free();
  await using _all = await waiting;
  assertEquals(await client.entries(), []);
}, () => ({ maxSize: 3 * unit, evict: true }));

storeTest("memory that several wait for is granted once, and what gives way is given to one", async ({ connect }) => {
  const client = await connect();
  const all = await client.create("all", 2 * unit);
  const waiting = Array.from({ length: 6 }, (_, index) => client.create(`part ${index}`, unit));
  await client.entries();
  await all[Symbol.asyncDispose]();
  let granted = 0;
  for (const each of waiting) void each.then(() => granted++);
  const two = await Promise.all(waiting.slice(0, 2));
  await client.entries();
  assertEquals(granted, 2);
  for (const memory of two) await memory.publish();
  for (const memory of two) await memory[Symbol.asyncDispose]();
  // Each of the others takes the place of one that nobody maps.
  for (const each of waiting.slice(2)) {
    await using memory = await each;
    await memory.publish();
  }
  assertEquals((await client.entries()).length, 2);
}, () => ({ maxSize: 2 * unit, evict: true }));

storeTest("metadata that are nested very deeply are refused, and the store goes on", async ({ connect }) => {
  const client = await connect();
  let metadata: JsonValue = 1;
  for (let depth = 0; depth < 1000; depth++) metadata = [metadata];
  await isCode(client.create("deep", 16, { metadata }), "limit-exceeded", "200 levels");
  assertEquals(await client.entries(), []);
});

testOnEachDriver(
  "a client can be disposed of after its Cuda object, and a store that fails to start leaves its path",
  (cuda) =>
    inFolder(async (folder) => {
      const path = `${folder}/store`;
      const options = { standby: `${folder}/none/standby` };
      assertThrows(() => MemoryStore.listen(cuda, path, options), SharingError, "there is no folder");
      await new Promise((resolve) => setTimeout(resolve));
      await using store = MemoryStore.listen(cuda, path);
      const other = open({ driver: "software", sanitize: false });
      if (cuda.driver === "software") {
        const client = await StoreClient.connect(other, path);
        await client.create("x", 16);
        const published = await client.create("y", 16);
        await published.publish();
        other[Symbol.dispose]();
        await client[Symbol.asyncDispose]();
        await using reader = await StoreClient.connect(cuda, path);
        assertEquals((await reader.entries()).map(({ name, readers }) => [name, readers.length]), [["y", 0]]);
        assertEquals(store.status()!.entries.length, 1);
      }
      other[Symbol.dispose]();
    }),
  { makesMistakes: true },
);

storeTest(
  "an operator that connects to the standby's path is told where to connect",
  async ({ path }) => {
    const standby = path.replace(/store$/, "standby");
    await isCode(
      Operator.connect(standby),
      "bad-message",
      "is where a store and its standby meet, and serves no operator",
    );
    await isCode(Operator.connect(standby), "bad-message", "connect to the store's own path");
  },
  (_cuda, folder) => ({ standby: `${folder}/standby` }),
);
