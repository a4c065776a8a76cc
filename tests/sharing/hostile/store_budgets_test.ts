/** Clients of a store that take all that they can get. They take their user's share, and others are served. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { chmodSync, readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { type MemoryStoreOptions, open, StoreClient } from "../../../mod.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import type { StoreStatus } from "../../../src/sharing/operator/status.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { test } from "../../support/test.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

const skip = noPython ?? (process.geteuid!() === 0 ? false : "it takes root to become another user");
/** The user who attacks: listed, and neither root nor this one. */
const user = 65_533;
const unit = 2 ** 21;
const mebibyte = 2 ** 20;
/** Milliseconds in which honest peers are served. */
const promptly = 2000;

interface Fixture {
  readonly path: string;
  readonly store: ChildProcess;
  readonly client: StoreClient;
  attack(how: string, ...args: (string | number)[]): Promise<ChildProcess>;
  /** Publishes a name and maps it, and asks for the status as an operator, within two seconds. */
  serveHonest(metadata?: string): Promise<void>;
  status(): Promise<StoreStatus>;
}

function storeTest(
  name: string,
  body: (fixture: Fixture) => Promise<void>,
  { descriptorLimit, long = false, ...options }: MemoryStoreOptions & {
    readonly descriptorLimit?: number;
    readonly long?: boolean;
  } = {},
): void {
  test(name, { skip, long }, () =>
    inFolder(async (folder) => {
      chmodSync(folder, 0o755);
      const path = `${folder}/store`;
      const args = ["software", path, `${folder}/standby`, JSON.stringify({ users: [user], ...options })];
      await using store = startScript("children/sharing/store_process.ts", args, {
        ...descriptorLimit === undefined ? {} : { descriptorLimit },
      });
      assertEquals(await store.nextLine() ?? await store.errors(), `serves ${store.pid}`);
      using cuda = open({ driver: "software" });
      await using client = await StoreClient.connect(cuda, path);
      const status = async () => {
        await using operator = await Operator.connect(path);
        const found = await operator.status();
        if (found.kind !== "store") throw new Error(found.kind);
        return found;
      };
      const fixture: Fixture = {
        path,
        store,
        client,
        attack: (how, ...args) => Promise.resolve(startHostile("store_hoarders.py", [path, user, how, ...args])),
        status,
        async serveHonest(metadata = "") {
          const since = performance.now();
          {
            await using memory = await client.create("honest", 16, { metadata });
            memory.buffer.fill(7);
            await memory.publish();
            using mapped = await client.map("honest");
            assertEquals(await mapped.read(Uint8Array, { length: 1 }), new Uint8Array([7]));
          }
          assert((await status()).entries.some(({ name }) => name === "honest"));
          const duration = performance.now() - since;
          assert(duration < promptly, `Honest peers were served after ${duration} ms`);
          await client.remove("honest");
        },
      };
      await fixture.serveHonest();
      const before = { descriptors: descriptorsOf(store), entries: (await status()).entries.length };
      await body(fixture);
      while (descriptorsOf(store) > before.descriptors) await client.entries();
      assertEquals((await status()).entries.length, before.entries);
      await fixture.serveHonest();
    }));
}

function descriptorsOf({ pid }: ChildProcess): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

function peakOf({ pid }: ChildProcess): number {
  return 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]);
}

// deno-lint-ignore no-explicit-any
async function next(peer: ChildProcess): Promise<any> {
  return JSON.parse(await peer.nextLine() ?? JSON.stringify(await peer.errors()));
}

async function removeAll({ client }: Fixture): Promise<void> {
  for (const { name } of await client.entries()) await client.remove(name);
}

storeTest(
  "requests that wait for ever cost a store little, and nothing when their clients have gone",
  async (fixture) => {
    const { store, attack, serveHonest } = fixture;
    const before = peakOf(store);
    await using waiting = await attack("waits", 3, 11_000);
    for (let round = 0; round < 2; round++) {
      // Half of 65,536 may wait.
      assertEquals(await next(waiting), 3 * 11_000 - 32_768);
      await serveHonest();
      waiting.kill("SIGUSR1");
      // The process lives: what it has asked for does not.
      assertEquals(await next(waiting), "closed");
      await serveHonest();
      waiting.kill("SIGUSR1");
    }
    const grown = (peakOf(store) - before) / mebibyte;
    assert(grown < 200, `The store has grown by ${grown} MiB`);
    waiting.kill("SIGKILL");
  },
);

storeTest("a user's memories leave as many to the others, and descriptors to operators", async (fixture) => {
  await using hoarder = await fixture.attack("memories", 0);
  const [count, code, message] = await next(hoarder);
  assertEquals([count, code], [34, "limit-exceeded"]);
  assertStringIncludes(
    message,
    "the limit is 68 memories, for which half of the descriptors are that the store may open",
  );
  assertStringIncludes(message, `user ${user} has 34 of them, and at least as much must be left for the others`);
  await fixture.serveHonest();
  hoarder.kill("SIGKILL");
  await removeAll(fixture);
}, { descriptorLimit: 200 });

storeTest("a user's metadata leave as much to the others", async (fixture) => {
  const metadata = "x".repeat(4 * mebibyte - 2);
  await using hoarder = await fixture.attack("memories", metadata.length);
  const [count, code, message] = await next(hoarder);
  assertEquals([count, code], [8, "limit-exceeded"]);
  assertStringIncludes(message, `the limit is ${64 * mebibyte} bytes of metadata (maximumMetadata); user ${user} has`);
  await fixture.serveHonest(metadata);
  hoarder.kill("SIGKILL");
  await removeAll(fixture);
}, { long: true });

storeTest("what a reader holds counts for the reader, and its writer goes on", async (fixture) => {
  const { client, attack } = fixture;
  const publish = async () => {
    const since = performance.now();
    await using memory = await client.create("weights", unit);
    await memory.publish();
    assert(performance.now() - since < promptly);
  };
  await publish();
  await using reader = await attack("hold", "weights");
  const generations = 24;
  const answers = [await next(reader)];
  for (let generation = 2; generation <= generations; generation++) {
    await publish();
    reader.kill("SIGUSR1");
    answers.push(await next(reader));
  }
  // A quarter of the device, the last generation that it has, and what it has mapped meanwhile.
  const refused = answers.findIndex(([code]) => code !== "ok");
  assertEquals(refused, 9);
  assert(answers.slice(refused).every(([code]) => code === "limit-exceeded"));
  assertStringIncludes(answers[refused][2], `while user ${user} holds ${8 * unit} bytes`);
  await fixture.serveHonest();
  reader.kill("SIGKILL");
  await client.remove("weights");
}, { maxSize: 32 * unit, maxSizeOfUser: 8 * unit });

storeTest("who waits for room that never comes keeps no other user waiting", async (fixture) => {
  await using _kept = await fixture.client.create("kept", unit);
  await using waiting = await fixture.attack("room", 4 * unit);
  assertEquals(await next(waiting), "waits");
  await fixture.serveHonest();
}, { maxSize: 4 * unit });

storeTest("requests that never end cost a store a share of what all may take", async (fixture) => {
  await using sender = await fixture.attack("parts", 12);
  // Of 128 MiB, half: 64 MiB are ten documents of 6.25 MiB.
  assertEquals(await next(sender), 10);
  await fixture.serveHonest();
}, { long: true });

storeTest("two clients of a process that lose their connections both go on", async (fixture) => {
  const { client, attack } = fixture;
  {
    await using memory = await client.create("shared", unit);
    await memory.publish();
  }
  await using clients = await attack("two clients");
  assertEquals(await next(clients), [{ ok: true, unknown: [] }, { ok: true, unknown: [] }]);
  assertEquals(await next(clients), [{ ok: true, generation: 1 }, { ok: true, generation: 1 }]);
  await client.remove("shared");
  const isHeld = async () => (await fixture.status()).entries.some(({ name }) => name === "shared");
  assert(await isHeld());
  clients.kill("SIGUSR1");
  assertEquals(await next(clients), "released");
  // What one of them has said that it holds, it holds once.
  assert(!await isHeld());
  clients.kill("SIGKILL");
  await removeAll(fixture);
});

storeTest("nobody claims what it has not held, and a writer goes on", async ({ client, attack }) => {
  await using claimer = await attack("claim");
  assertEquals(await next(claimer), "ready");
  for (let generation = 1; generation <= 20; generation++) {
    await using memory = await client.create("weights", unit);
    await memory.publish();
    claimer.kill("SIGUSR1");
    assertEquals(await next(claimer), 0);
  }
  await client.remove("weights");
}, { maxSize: 8 * unit });

test("a standby says who has the path", { skip }, () =>
  inFolder(async (folder) => {
    chmodSync(folder, 0o755);
    const [path, standby] = [`${folder}/store`, `${folder}/standby`];
    await using squatter = startHostile("store_hoarders.py", [path, user, "squat"]);
    assertEquals(await next(squatter), "listens");
    await using store = startScript("children/sharing/store_process.ts", ["software", path, standby]);
    assertEquals(await store.nextLine(), "stands by");
    assertEquals(
      await store.nextLine(),
      `error Cannot take over at ${path}: process ${squatter.pid} of user ${user} listens at ${path}, and no store ` +
        `answers at ${standby}, where a standby gets what the store has; stop that process, or use other paths`,
    );
    squatter.kill("SIGKILL");
    assertEquals(await store.nextLine(), `serves ${store.pid}`);
  }));
