/** Generations that are found by their digests, those that are kept, and clients and stores that know neither. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  type Cuda,
  type JsonValue,
  MemoryStore,
  type MemoryStoreOptions,
  SharingError,
  StoreClient,
} from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { connectToExporter } from "../../../src/sharing/importer/connect_to_exporter.ts";
import { Documents, type JsonObject, sendDocument } from "../../../src/sharing/protocol/documents.ts";
import { StoreRequests } from "../../../src/sharing/store/store_requests.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { inFolder } from "../../support/folders.ts";

interface Context {
  readonly cuda: Cuda;
  readonly path: string;
  connect(): Promise<StoreClient>;
}

const unit = 2 ** 21;

function digestTest(name: string, body: (context: Context) => Promise<void>, options: MemoryStoreOptions = {}): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda) =>
    inFolder(async (folder) => {
      const path = `${folder}/store`;
      await using _store = MemoryStore.listen(cuda, path, options);
      await using clients = new AsyncDisposableStack();
      await body({ cuda, path, connect: async () => clients.use(await StoreClient.connect(cuda, path)) });
    }));
}

/** A digest that begins with a digit. */
const digestOf = (digit: number): string => `${digit}`.repeat(64);

async function publish(client: StoreClient, name: string, digit: number, keep = false): Promise<void> {
  await using memory = await client.create(name, unit, { metadata: { digit } });
  memory.buffer.fill(digit);
  const entry = await memory.publish(memory.buffer.stream, { digest: digestOf(digit), keep });
  assertEquals([entry.digest, entry.metadata], [digestOf(digit), { digit }]);
}

async function isCode(promise: Promise<unknown>, code: string, text: string): Promise<void> {
  assertEquals((await assertRejects(() => promise, SharingError, text)).code, code);
}

digestTest("a generation is found by its digest as long as a process holds it", async ({ connect }) => {
  const [maker, reader, late] = [await connect(), await connect(), await connect()];
  const waiting = late.mapEntry("x", { digest: digestOf(1).slice(0, 8) });
  await publish(maker, "x", 1);
  using first = await waiting;
  assertEquals([first.generation, first.digest], [1, digestOf(1)]);
  await publish(maker, "x", 2);
  await publish(maker, "x", 3);
  using newest = await reader.mapEntry("x");
  assertEquals([newest.generation, newest.digest, newest.metadata], [3, digestOf(3), { digit: 3 }]);
  // It was replaced, and another process that holds it goes.
  const again = await reader.mapEntry("x", { digest: digestOf(1) });
  assertEquals([again.generation, again.digest, again.metadata], [1, digestOf(1), { digit: 1 }]);
  first[Symbol.dispose]();
  assertEquals(await again.buffer.read(Uint8Array, { length: 2 }), new Uint8Array([1, 1]));
  const listed = (await late.entries({ replaced: true })).map((
    { generation, digest, isReplaced, readers },
  ) => [generation, digest, isReplaced, readers.length]);
  assertEquals(listed, [[3, digestOf(3), false, 1], [1, digestOf(1), true, 1]]);
  assertEquals((await late.entries()).map(({ generation }) => generation), [3]);
  await isCode(reader.map("x", { digest: digestOf(2) }), "not-found", `the digests ${digestOf(3)}, ${digestOf(1)}`);
  using one = await late.mapEntry("x", { digest: digestOf(1) });
  again[Symbol.dispose]();
  one[Symbol.dispose]();
  await late.entries();
  await isCode(late.map("x", { digest: digestOf(1) }), "not-found", `has it with the digest ${digestOf(3)}`);
  for (const digest of ["1234567", "A".repeat(8), "0".repeat(65)]) {
    await assertRejects(() => late.map("x", { digest }), TypeError, "8 to 64 hexadecimal digits");
  }
  await using memory = await maker.create("y", 1);
  await assertRejects(() => memory.publish(undefined, { digest: "1".repeat(63) }), TypeError, "give 64 hexadecimal");
});

digestTest("a name that was removed is not found by a digest", async ({ connect }) => {
  const [maker, reader] = [await connect(), await connect()];
  await publish(maker, "x", 1);
  using _first = await reader.map("x");
  await publish(maker, "x", 2);
  await maker.remove("x");
  const ending = new AbortController();
  const waiting = reader.map("x", { digest: digestOf(1), signal: ending.signal });
  await reader.entries();
  await publish(maker, "x", 3);
  await isCode(waiting, "not-found", `has it with the digest ${digestOf(3)}`);
});

digestTest("what is kept is not evicted", async ({ connect }) => {
  const client = await connect();
  await publish(client, "kept", 1, true);
  await publish(client, "other", 2);
  assertEquals((await client.entries()).map(({ name, keep }) => [name, keep]), [["kept", true], ["other", false]]);
  await publish(client, "third", 3);
  await publish(client, "fourth", 4);
  assertEquals((await client.entries()).map(({ name }) => name), ["kept", "fourth"]);
  await client.remove("kept");
  await publish(client, "kept", 5);
  await publish(client, "sixth", 6);
  await publish(client, "seventh", 7);
  assertEquals((await client.entries()).map(({ name }) => name), ["sixth", "seventh"]);
}, { evict: true, maxSize: 2 * unit });

digestTest("digests and what is kept survive their store", async ({ cuda }) => {
  await inFolder(async (folder) => {
    const [path, standby] = [`${folder}/store`, `${folder}/standby`];
    const { promise, resolve } = Promise.withResolvers<void>();
    const first = MemoryStore.listen(cuda, path, { standby, onStandby: resolve });
    await using _second = MemoryStore.listen(cuda, path, { standby, evict: true, maxSize: 2 * unit });
    await using client = await StoreClient.connect(cuda, path);
    await publish(client, "x", 1);
    using _mapped = await client.map("x");
    await publish(client, "x", 2, true);
    await promise;
    await first[Symbol.asyncDispose]();
    using found = await client.mapEntry("x", { digest: digestOf(1) });
    assertEquals([found.generation, await found.buffer.read(Uint8Array, { length: 1 })], [1, new Uint8Array([1])]);
    const listed = await client.entries({ replaced: true });
    assertEquals(listed.map(({ digest, keep }) => [digest, keep]), [[digestOf(2), true], [digestOf(1), false]]);
  });
});

/** A client that knows only documents, as one of an earlier version sends them. */
async function connectRaw(path: string) {
  const options = { role: "store-client", handshakeTimeout: 5000, messageTimeout: 5000 } as const;
  const stream = (await connectToExporter(path, options, () => false))!;
  const documents = new Documents(2 ** 20);
  let onAnswer: (answer: JsonObject) => void;
  stream.start({
    onMessage(message) {
      if (message.type === "memory") message.handle[Symbol.dispose]();
      const document = message.type === "answer" ? documents.add(message) : undefined;
      if (document !== undefined) onAnswer(document);
    },
    onDrain() {},
    onEnd() {},
  });
  let request = 0;
  return {
    ask(document: JsonObject): Promise<JsonObject> {
      return new Promise((resolve) => {
        onAnswer = resolve;
        sendDocument((message) => stream.send(message), { type: "ask", request: ++request }, document);
        stream.flush();
      });
    },
    [Symbol.dispose]() {
      stream.end("done");
      stream.process[Symbol.dispose]();
    },
  };
}

digestTest("a client of an earlier version uses a store as before", async ({ cuda, path, connect }) => {
  using old = await connectRaw(path);
  const create = { do: "create", name: "x", byteLength: 5, device: cuda.device(0).uuid };
  const { id, ...created } = await old.ask(create);
  assertEquals(created, { ok: true, size: unit });
  assertEquals(await old.ask({ do: "publish", id: id as JsonValue }), { ok: true, generation: 1 });
  const client = await connect();
  assertEquals((await client.entries()).map(({ digest, keep }) => [digest, keep]), [[undefined, false]]);
  await isCode(client.map("x", { digest: digestOf(1) }), "not-found", "has it with the digest unknown");
  await publish(client, "x", 2, true);
  const { id: _id, ...mapped } = await old.ask({ do: "map", name: "x", write: false, wait: true });
  const { uuid: device } = cuda.device(0);
  assertEquals(mapped, {
    ok: true,
    size: unit,
    byteLength: unit,
    device,
    generation: 2,
    digest: digestOf(2),
    metadata: { digit: 2 },
  });
  const { code } = await old.ask({ do: "map", name: "x", digest: "1234567" });
  assertEquals(code, "bad-message");
  // What was mapped is held, and the store has answered each request once.
  assertEquals((await client.entries({ replaced: true })).map(({ readers }) => readers.length), [1, 1]);
});

digestTest("with a store of an earlier version, clients find by their digests nothing", async ({ connect }) => {
  const { perform } = StoreRequests.prototype;
  StoreRequests.prototype.perform = function (what, document, pending) {
    const { digest: _digest, keep: _keep, once: _once, replaces: _replaces, replaced: _replaced, ...known } = document;
    return perform.call(this, what, known, pending);
  };
  try {
    const client = await connect();
    await publish(client, "x", 1, true);
    assertEquals((await client.entries({ replaced: true })).map(({ digest, keep }) => [digest, keep]), [[
      undefined,
      false,
    ]]);
    await isCode(client.map("x", { digest: digestOf(1) }), "not-found", "earlier version");
    assertEquals((await client.entries()).map(({ readers }) => readers.length), [0]);
    // Everybody gets memory.
    await using one = await client.create("x", 1, { once: true });
    await using other = await client.create("x", 1, { once: true });
    assert(one !== undefined && other !== undefined);
  } finally {
    StoreRequests.prototype.perform = perform;
  }
});
