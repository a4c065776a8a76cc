/** Clients of a store that break its rules. They cost nothing but their own connections. */
import { assert, assertEquals, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import process from "node:process";
import { MemoryStore, type MemoryStoreOptions, open, SharingError, StoreClient } from "../../../mod.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import { startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { someOf, test } from "../../support/test.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

const skip = noPython ?? false;

/** The first software device's. */
const device = "GPU-706f6f6c-7061-7373-2073-6f6674776100";

/** Runs a test with a store, and checks afterwards that it serves. */
function storeTest(
  name: string,
  body: (path: string, client: StoreClient) => Promise<void>,
  options: MemoryStoreOptions = {},
): void {
  test(name, { skip }, () =>
    inFolder(async (folder) => {
      using cuda = open({ driver: "software" });
      const path = `${folder}/store`;
      await using _store = MemoryStore.listen(cuda, path, { messageTimeout: 1000, ...options });
      await using client = await StoreClient.connect(cuda, path);
      await body(path, client);
      await using memory = await client.create("after", 16);
      await memory.publish();
      assert((await client.entries()).some(({ name }) => name === "after"));
    }));
}

/** Starts an abuser and returns its answers. */
async function answersOf(path: string, how: string, ...args: string[]): Promise<unknown[]> {
  await using peer = startHostile("store_abusers.py", [path, how, ...args]);
  const lines: unknown[] = [];
  for (let line; (line = await peer.nextLine()) !== undefined;) lines.push(...JSON.parse(line) as unknown[]);
  assertEquals([await peer.ended, await peer.errors()], [0, ""]);
  return lines;
}

storeTest("a client of a store that breaks a rule is told which, and goes", async (path) => {
  const cases: readonly (readonly [reason: string, text: string, how: string, ...args: string[]])[] = [
    ["bad-message", "is not JSON", "raw", "{"],
    ["bad-message", "is not a JSON object", "raw", "[1]"],
    ["bad-message", "is not a JSON object", "raw", "null"],
    ["bad-message", "made again before its answer", "twice"],
    ["bad-message", "contradict each other", "contradiction"],
    ["bad-message", "", "memory"],
    ["limit-exceeded", "16384 requests", "flood"],
    ["limit-exceeded", "bytes of documents at a time", "long"],
    ["bad-message", "serves no importer", "role", "0"],
    ["bad-message", "serves no standby", "role", "3"],
    ["bad-message", "role is 4", "role", "4"],
  ];
  for (const [reason, text, how, ...args] of someOf(cases, 2)) {
    const [found, said] = await answersOf(path, how, ...args);
    assertEquals(found, reason, `${how} ${args.join()}`);
    assertStringIncludes(String(said), text);
  }
});

storeTest("what a store does not understand or allow is refused, and nothing is done", async (path, client) => {
  await using mine = await client.create("mine", 4096);
  await using published = await client.create("published", 4096);
  await published.publish();
  // Numbers begin anywhere: another client is told of the next one.
  const [created] = await answersOf(
    path,
    "documents",
    JSON.stringify([{ do: "create", name: "x", byteLength: 16, device }]),
  );
  const first = (created as { id: number }).id - 2;
  const documents = [
    {},
    { do: 5 },
    { do: "constructor" },
    { do: "create" },
    { do: "create", name: "x", byteLength: -1, device: "GPU-0" },
    { do: "create", name: "x", byteLength: 1.5, device: "GPU-0" },
    { do: "create", name: "x".repeat(300), byteLength: 1, device: "GPU-0" },
    { do: "create", name: "x", byteLength: 16, device: "GPU-00000000-0000-0000-0000-000000000000" },
    {
      do: "create",
      name: "x",
      byteLength: Number.MAX_SAFE_INTEGER,
      device: "GPU-706f6f6c-7061-7373-2073-6f6674776100",
    },
    { do: "publish", id: first },
    { do: "publish", id: 99 },
    { do: "map", name: "mine" },
    { do: "map", name: "__proto__" },
    { do: "map", name: "x", write: 1 },
    { do: "remove", name: "mine" },
    { do: "cancel", request: "x" },
    { do: "claim", held: [5] },
    { do: "claim", held: [{ id: first + 1, count: 0 }] },
    { do: "create", name: "x", byteLength: 16, device, metadata: JSON.parse(`${"[".repeat(300)}${"]".repeat(300)}`) },
  ];
  for (const answer of await answersOf(path, "documents", JSON.stringify(documents))) {
    assertEquals((answer as { ok: boolean }).ok, false, JSON.stringify(answer));
  }
  // Memory of a writer that lives is nobody else's, and what others release was not held by them.
  assertEquals(
    await answersOf(
      path,
      "documents",
      JSON.stringify([{ do: "release", id: first }, { do: "release", id: first + 1 }]),
    ),
    [
      { ok: true, held: false },
      { ok: true, held: false },
    ],
  );
  const claim = JSON.stringify([{ do: "claim", held: [{ id: first, count: 1 }, { id: 77, count: 1 }] }]);
  assertEquals(await answersOf(path, "documents", claim), [{ ok: true, unknown: [first, 77] }]);
  mine.buffer.fill(3);
  await mine.publish();
  assertEquals((await client.entries()).map(({ name, readers }) => [name, readers.length]), [
    ["published", 1],
    ["mine", 1],
  ]);
});

storeTest("a client that maps gets the metadata, unless it asks for a brief answer", async (path, client) => {
  await using published = await client.create("x", 4096, { metadata: { shape: [1024] } });
  await published.publish();
  const map = { do: "map", name: "x" };
  const documents = [map, { ...map, brief: true }, { ...map, brief: 1 }];
  const [whole, brief, refused] = await answersOf(path, "documents", JSON.stringify(documents)) as Record<
    string,
    unknown
  >[];
  assertEquals(whole, { ...brief, metadata: { shape: [1024] } });
  assertEquals(brief!.ok, true);
  assertEquals(refused!.code, "bad-message");
});

storeTest("memory that is released before the answer is sent is not sent", async (path, client) => {
  await using published = await client.create("x", 4096);
  await published.publish();
  const create = { do: "create", name: "y", byteLength: 16, device };
  const [created] = await answersOf(path, "documents", JSON.stringify([create]));
  const { id } = created as { id: number };
  const documents = [
    create,
    { do: "release", id: id + 1 },
    { do: "map", name: "x" },
    { do: "release", id: id - 1 },
    { do: "remove", name: "x" },
  ];
  await published[Symbol.asyncDispose]();
  const answers = await answersOf(path, "burst", JSON.stringify(documents));
  assertEquals(answers.length, documents.length);
});

storeTest("a client that leaves in the moment in which it is given memory does not hold it", async (path, client) => {
  const create = JSON.stringify({ do: "create", name: "x", byteLength: 16, device });
  await using gone = startHostile("store_abusers.py", [path, "leave", create]);
  assertEquals(await gone.nextLine(), '"left"');
  assertEquals((await client.entries()).map(({ name, readers }) => [name, readers]), [["x", []]]);
});

storeTest("a client that leaves without reading has released what it said", async (path, client) => {
  const names = ["a", "b", "c"];
  await using gone = startHostile("store_abusers.py", [path, "let go", ...names]);
  assertEquals(await gone.nextLine(), '"left"');
  await using operator = await Operator.connect(path);
  for (let clients = 2; clients > 1;) {
    const status = await operator.status();
    if (status.kind === "store") clients = status.statistics.clients;
  }
  assertEquals((await client.entries()).map(({ name, readers }) => [name, readers]), names.map((name) => [name, []]));
});

for (const how of ["leave with", "leave slowly with"]) {
  storeTest(
    `a client that leaves holds what it says, and is given nothing more: ${how}`,
    async (path, client) => {
      const create = (name: string) => ({ do: "create", name, byteLength: 16, device });
      const [map, mapLater] = ["mapped", "later"].map((name) => ({ do: "map", name, wait: true }));
      for (const name of ["mapped", "later"]) {
        await using memory = await client.create(name, 16);
        await memory.publish();
      }
      const [read, unread] = [[create("kept"), create("given up"), map, map], [mapLater, mapLater, create("waits")]];
      const steps = JSON.stringify([read, unread, [[0, 1], [2, 1]]]);
      await using gone = startHostile("store_abusers.py", [path, how, steps]);
      assertEquals(await gone.nextLine() ?? await gone.errors(), '"left"');
      await using operator = await Operator.connect(path);
      let status;
      do {
        status = await operator.status();
        if (status.kind !== "store") throw new Error(status.kind);
      } while (status.statistics.clients > 1);
      assertEquals(status.entries.map(({ name, readers, writer }) => [name, readers.length, writer?.pid]), [
        ["mapped", 1, undefined],
        ["later", 0, undefined],
        ["kept", 0, gone.pid],
      ]);
      gone.kill("SIGKILL");
      while ((await client.entries()).some(({ readers }) => readers.length > 0));
    },
    { maxSize: 4 * 2 ** 21 },
  );
}

storeTest("a device's UUID is listed as the store knows it", async (path, client) => {
  const create = { do: "create", name: "x", byteLength: 16, device: `\u001b[2J${device.slice(4)}` };
  await using peer = startHostile("store_abusers.py", [path, "hold", JSON.stringify([create])]);
  const [{ id }] = JSON.parse((await peer.nextLine())!) as [{ id: number }];
  assert(id > 0);
  await using operator = await Operator.connect(path);
  const status = await operator.status();
  assertEquals(status.kind === "store" && status.entries.map(({ device }) => device), [device]);
  assertEquals(await client.entries(), []);
});

storeTest(
  "what a process has used until its end was used last",
  async (path, client) => {
    const publish = async (name: string) => {
      await using memory = await client.create(name, 16);
      await memory.publish();
    };
    for (const name of ["a", "b"]) await publish(name);
    await using reader = startHostile("store_abusers.py", [path, "hold", JSON.stringify([{ do: "map", name: "a" }])]);
    assert((await reader.nextLine())!.includes('"ok": true'));
    // Time passes, which is measured in milliseconds.
    for (const now = Date.now(); Date.now() <= now + 1;);
    (await client.map("b")).free();
    // By then, the store has been told.
    await client.entries();
    for (const now = Date.now(); Date.now() <= now + 1;);
    reader.kill("SIGKILL");
    while ((await client.entries()).some(({ readers }) => readers.length > 0));
    await publish("c");
    assertEquals((await client.entries()).map(({ name }) => name), ["a", "c"]);
  },
  { maxSize: 2 * 2 ** 21, evict: true },
);

storeTest("a document in parts of a byte costs a store little more than its bytes", async (path) => {
  const before = process.memoryUsage().rss;
  let most = 0;
  const timer = setInterval(() => most = Math.max(most, process.memoryUsage().rss - before), 20);
  const [answer] = await answersOf(path, "crumbs", String(2 ** 18));
  clearInterval(timer);
  assertEquals((answer as { code?: string }).code, "not-found");
  assert(most < 64 * 2 ** 20, `${most / 2 ** 20} MiB more`);
});

test(
  "what nobody claims of a store that is gone costs its user no refusal",
  { skip },
  () =>
    inFolder(async (folder) => {
      using cuda = open({ driver: "software" });
      const [path, standby, unit] = [`${folder}/store`, `${folder}/standby`, 2 ** 21];
      const { promise, resolve } = Promise.withResolvers<void>();
      const options = { standby, maxSizeOfUser: 3 * unit, reclaimTimeout: 300 };
      await using first = MemoryStore.listen(cuda, path, { ...options, onStandby: resolve });
      await using _second = MemoryStore.listen(cuda, path, options);
      await promise;
      await using client = await StoreClient.connect(cuda, path);
      await using _mine = await client.create("mine", unit);
      const create = JSON.stringify([{ do: "create", name: "theirs", byteLength: 2 * unit, device }]);
      await using gone = startHostile("store_abusers.py", [path, "hold", create]);
      assert((await gone.nextLine())!.includes('"ok": true'));
      await first[Symbol.asyncDispose]();
      await using _more = await client.create("more", 2 * unit);
      const error = await assertRejects(() => client.create("too much", 1), SharingError);
      assertEquals(error.code, "limit-exceeded");
    }),
);

test("a store that takes over uses no number again", { skip }, () =>
  inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    const [path, standby] = [`${folder}/store`, `${folder}/standby`];
    const { promise, resolve } = Promise.withResolvers<void>();
    await using first = MemoryStore.listen(cuda, path, { standby, onStandby: resolve });
    await using _second = MemoryStore.listen(cuda, path, { standby });
    await promise;
    await using client = await StoreClient.connect(cuda, path);
    await using memory = await client.create("x", 16);
    await memory.publish();
    const create = JSON.stringify([{ do: "create", name: "y", byteLength: 16, device }]);
    // Who has made it is gone, and so is the memory.
    const [before] = await answersOf(path, "documents", create);
    while (first.status()!.entries.length > 1) await client.entries();
    await first[Symbol.asyncDispose]();
    await client.entries();
    const [after] = await answersOf(path, "documents", create);
    assertNotEquals((after as { id: number }).id, (before as { id: number }).id);
  }));

test(
  "a standby that connects and asks for nothing does not keep clients waiting",
  { skip },
  () =>
    inFolder(async (folder) => {
      using cuda = open({ driver: "software" });
      const [path, standby] = [`${folder}/store`, `${folder}/standby`];
      await using _store = MemoryStore.listen(cuda, path, { messageTimeout: 200, standby });
      await using client = await StoreClient.connect(cuda, path);
      await using silent = startHostile("store_abusers.py", [standby, "role", 3]);
      const ended = silent.nextLine();
      await using memory = await client.create("x", 16);
      await memory.publish();
      assertStringIncludes((await ended)!, "timed-out");
    }),
);

storeTest(
  "a client that asks and never reads costs a store little memory, and keeps nobody out",
  async (path, client) => {
    for (let index = 0; index < 20; index++) {
      const memory = await client.create(`entry ${index}`, 16, { metadata: "x".repeat(2 ** 16) });
      await memory.publish();
    }
    const before = process.memoryUsage().rss;
    await using deaf = startHostile("store_abusers.py", [path, "deaf"]);
    assertEquals(await deaf.nextLine(), '"deaf"');
    assertEquals((await client.entries()).length, 20);
    const grown = process.memoryUsage().rss - before;
    // Two thousand answers would be 2.6 GB.
    assert(grown < 300 * 2 ** 20, `${grown}`);
  },
);

test("a store without descriptors says so, and goes on", { skip, long: true }, () =>
  inFolder(async (folder) => {
    const path = `${folder}/store`;
    await using store = startScript("children/sharing/store_process.ts", ["software", path], { descriptorLimit: 200 });
    while (!(await store.nextLine())!.startsWith("serves"));
    using cuda = open({ driver: "software" });
    await using client = await StoreClient.connect(cuda, path);
    let count = 0;
    let text = "";
    while (text === "" && count < 200) {
      try {
        await using memory = await client.create(`entry ${count}`, 16);
        await memory.publish();
        count++;
      } catch (error) {
        text = String(error);
      }
    }
    assertStringIncludes(text, "descriptor");
    assert(count > 30, `${count}`);
    await client.remove("entry 0");
    await using memory = await client.create("entry 0", 16);
    await memory.publish();
    assertEquals((await client.entries()).length, count);
  }));
