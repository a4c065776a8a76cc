/** Clients of a store that do not read its answers. They cost the store little, and nobody else anything. */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { open, StoreClient } from "../../../mod.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { isLong, test, type TestOptions } from "../../support/test.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

const mebibyte = 2 ** 20;
/** The number of entries, and the length of their metadata: a store has at most 64 MiB of that, as the long run does. */
const entryCount = 15;
const metadataMebibytes = isLong ? 4 : 1;
const metadataLength = metadataMebibytes * mebibyte - 64;
/** Mebibytes by which a store may grow when it has yet to send seven lists of all entries, or 200 answers of one. */
const mostGrown = 50 * metadataMebibytes;

interface Fixture {
  readonly path: string;
  readonly client: StoreClient;
  /** Publishes another generation of each entry. Nobody has the last one then. */
  publishAll(): Promise<void>;
  /** The most memory that the store's process has had, in bytes. */
  storePeak(): number;
}

/** Runs a test with a store that is another process. Afterwards the store still serves. */
function storeTest(name: string, body: (fixture: Fixture) => Promise<void>, options: TestOptions = {}): void {
  test(name, { skip: noPython ?? false, ...options }, () =>
    inFolder(async (folder) => {
      const path = `${folder}/store`;
      await using store = startScript("children/sharing/store_process.ts", ["software", path]);
      assertEquals(await store.nextLine(), `serves ${store.pid}`);
      using cuda = open({ driver: "software" });
      await using client = await StoreClient.connect(cuda, path);
      const publishAll = async () => {
        for (let index = 0; index < entryCount; index++) {
          await using memory = await client.create(`entry ${index}`, 16, { metadata: "x".repeat(metadataLength - 2) });
          await memory.publish();
        }
      };
      await body({ path, client, publishAll, storePeak: () => peakOf(store.pid) });
      assertEquals((await client.entries()).every(({ metadata }) => typeof metadata === "string"), true);
    }));
}

function peakOf(pid: number): number {
  return 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]);
}

async function startUnread(path: string, ...args: (string | number)[]): Promise<ChildProcess> {
  const peer = startHostile("unread_answers.py", [path, ...args]);
  assertEquals(await peer.nextLine() ?? await peer.errors(), '"asked"');
  return peer;
}

async function answerOf(peer: ChildProcess): Promise<unknown> {
  return JSON.parse(await peer.nextLine() ?? JSON.stringify(await peer.errors()));
}

/** What a list says of all entries. */
function listOf(generation: number): unknown {
  return Array.from({ length: entryCount }, (_, index) => [`entry ${index}`, generation, metadataLength - 2, 0]);
}

storeTest("lists that nobody reads cost a store little, and who reads slowly gets all of it", async (fixture) => {
  const { path, client, publishAll, storePeak } = fixture;
  await publishAll();
  assertEquals((await client.entries()).length, entryCount);
  const before = storePeak();
  await using deaf = await startUnread(path, "lists", 6);
  await using slow = await startUnread(path, "lists", 1);
  for (const reader of [deaf, slow]) assertEquals(await reader.nextLine(), '"unread"');
  assertEquals((await client.entries()).length, entryCount);
  const grown = storePeak() - before;
  // All lists are 105 times as long as the metadata of an entry.
  assert(grown < mostGrown * mebibyte, `The store has grown by ${grown / mebibyte} MiB`);
  slow.kill("SIGUSR1");
  assertEquals(await answerOf(slow), listOf(1));
});

storeTest("requests that wait for the same name are answered as they are read", async (fixture) => {
  const { path, client, storePeak } = fixture;
  const metadata = "x".repeat(metadataLength);
  await using _other = await client.create("other", 16, { metadata });
  await using memory = await client.create("x", 16, { metadata });
  const before = storePeak();
  await using deaf = await startUnread(path, "maps", "x", 200);
  await memory.publish();
  assertEquals(await deaf.nextLine(), '"unread"');
  assertEquals((await client.entries()).map(({ name, readers }) => [name, readers.length]), [["x", 2]]);
  const grown = storePeak() - before;
  assert(grown < mostGrown * mebibyte, `The store has grown by ${grown / mebibyte} MiB`);
});

storeTest("who reads nothing while much is replaced is cut off, and who began later gets its list", async (fixture) => {
  const { path, client, publishAll } = fixture;
  await publishAll();
  await using stopped = startScript("children/sharing/stopped_store_client.ts", [path], {
    permissions: ["--allow-ffi", "--allow-run"],
  });
  assertEquals(await stopped.nextLine() ?? await stopped.errors(), "asked");
  await using deaf = await startUnread(path, "lists", 1);
  assertEquals(await deaf.nextLine(), '"unread"');
  await publishAll();
  await using first = await startUnread(path, "lists", 1);
  assertEquals(await first.nextLine(), '"unread"');
  await publishAll();
  await using second = await startUnread(path, "lists", 1);
  assertEquals(await second.nextLine(), '"unread"');
  // What is gone may be as much as the store may have, and 64 MiB: two lists are less, three are more.
  await publishAll();
  assertEquals((await client.entries()).map(({ generation }) => generation), Array(entryCount).fill(4));
  for (const reader of [deaf, first, second]) reader.kill("SIGUSR1");
  assertEquals(await Promise.all([deaf, first, second].map(answerOf)), ["closed", listOf(2), listOf(3)]);
  // It connects again, and is told what there is now.
  stopped.kill("SIGCONT");
  assertEquals(
    JSON.parse((await stopped.nextLine())!),
    Array.from({ length: entryCount }, (_, index) => [`entry ${index}`, 4, metadataLength - 2]),
  );
}, { long: true });
