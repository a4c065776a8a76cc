/** What can go wrong between a store and its standby, in separate processes. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { readdirSync } from "node:fs";
import { open, SharingError, StoreClient } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { test } from "../../support/test.ts";

const skip = shimRefusal() ?? false;

interface Context {
  /** Starts a store. */
  start(): ChildProcess;
  readonly client: () => Promise<StoreClient>;
}

function standbyTest(
  name: string,
  body: (context: Context) => Promise<void>,
  { long = false }: { readonly long?: boolean } = {},
): void {
  test(name, { skip, long }, () =>
    inFolder(async (folder) => {
      await using started = new AsyncDisposableStack();
      using cuda = open({ driver: "software" });
      await body({
        start: () =>
          started.use(
            startScript("children/sharing/store_process.ts", ["software", `${folder}/store`, `${folder}/standby`]),
          ),
        client: async () => started.use(await StoreClient.connect(cuda, `${folder}/store`, { wait: true })),
      });
    }));
}

async function lineOf(child: ChildProcess, text: string): Promise<void> {
  for (let line; (line = await child.nextLine()) !== undefined;) if (line.startsWith(text)) return;
  throw new Error(`"${text}" did not come: ${await child.errors()}`);
}

async function publish(client: StoreClient, name: string): Promise<void> {
  await using memory = await client.create(name, 4096);
  memory.buffer.fill(5);
  await memory.publish();
}

standbyTest("a standby that takes over has the metadata of when memory was published", async ({ start, client }) => {
  const store = start();
  await lineOf(store, "serves");
  const standby = start();
  await lineOf(store, "has a standby");
  const user = await client();
  await using memory = await user.create("weights", 16, { metadata: "as created" });
  await memory.publish(memory.buffer.stream, { metadata: { digest: "as published" } });
  store.kill("SIGKILL");
  await lineOf(standby, "serves");
  assertEquals((await user.entries()).map(({ metadata }) => metadata), [{ digest: "as published" }]);
});

standbyTest("what happens while the table is written anew is in it", async ({ start, client }) => {
  const store = start();
  await lineOf(store, "serves");
  const standby = start();
  await lineOf(store, "has a standby");
  const user = await client();
  const expected: (readonly [string, number, number])[] = [];
  // It is written anew whenever it has grown by some MiB: at any of these changes, sooner or later.
  for (let index = 0; index < 20; index++) {
    for (let generation = 1; generation <= 2; generation++) {
      await using memory = await user.create(`entry ${index}`, 16, { metadata: "x".repeat(2 ** 18 - 100) });
      await memory.publish();
    }
    expected.push([`entry ${index}`, 2, 16]);
  }
  store.kill("SIGKILL");
  await lineOf(standby, "serves");
  const entries = (await user.entries()).map(({ name, generation, byteLength }) => [name, generation, byteLength]);
  assertEquals(entries.sort(), expected.sort());
});

standbyTest("a standby that is stopped delays what is created, and is left behind", async ({ start, client }) => {
  const store = start();
  await lineOf(store, "serves");
  const standby = start();
  await lineOf(store, "has a standby");
  const user = await client();
  await publish(user, "before");
  standby.kill("SIGSTOP");
  await publish(user, "after");
  assertEquals((await user.entries()).map(({ name }) => name), ["before", "after"]);
  standby.kill("SIGCONT");
  // It begins anew.
  await lineOf(store, "has a standby");
  store.kill("SIGKILL");
  await lineOf(standby, "serves");
  assertEquals((await user.entries()).map(({ name }) => name), ["before", "after"]);
}, { long: true });

standbyTest("a store that is started again at once does not take the standby's place", async ({ start, client }) => {
  const store = start();
  await lineOf(store, "serves");
  const standby = start();
  await lineOf(store, "has a standby");
  const user = await client();
  await publish(user, "weights");
  standby.kill("SIGSTOP");
  store.kill("SIGKILL");
  await store.ended;
  const next = start();
  await lineOf(next, "stands by");
  standby.kill("SIGCONT");
  await lineOf(standby, "serves");
  assertEquals((await user.entries()).map(({ name }) => name), ["weights"]);
  await lineOf(standby, "has a standby");
  standby.kill("SIGKILL");
  await lineOf(next, "serves");
  assertEquals((await user.entries()).map(({ name }) => name), ["weights"]);
}, { long: true });

standbyTest("of two standbys one takes over, and the other keeps what that one has", async ({ start, client }) => {
  const store = start();
  await lineOf(store, "serves");
  const standbys = [start(), start()];
  for (const _ of standbys) await lineOf(store, "has a standby");
  const descriptorsOf = ({ pid }: ChildProcess) => readdirSync(`/proc/${pid}/fd`).length;
  const before = standbys.map(descriptorsOf);
  const user = await client();
  for (let index = 0; index < 20; index++) await publish(user, `entry ${index}`);
  using mapped = await user.map("entry 7");
  store.kill("SIGKILL");
  const [first, second] = await Promise.race(standbys.map(async (standby, index) => {
    await lineOf(standby, "serves");
    return [standby, standbys[1 - index]!] as const;
  }));
  assertEquals((await user.entries()).length, 20);
  await lineOf(first!, "has a standby");
  const more = descriptorsOf(second!) - before[standbys.indexOf(second!)]!;
  assert(more < 40, `${more} descriptors more`);
  first!.kill("SIGKILL");
  assertEquals((await user.entries()).length, 20);
  assertEquals(new Set(await mapped.read(Uint8Array)), new Set([5]));
});

standbyTest("a client that goes while its memory is being kept costs no others theirs", async ({ start, client }) => {
  const store = start();
  await lineOf(store, "serves");
  const standby = start();
  await lineOf(store, "has a standby");
  const user = await client();
  await publish(user, "weights");
  const other = await client();
  standby.kill("SIGSTOP");
  const given = other.create("given up", 4096).catch(() => {});
  await user.entries();
  await other[Symbol.asyncDispose]();
  await given;
  standby.kill("SIGCONT");
  await publish(user, "more");
  store.kill("SIGKILL");
  await lineOf(standby, "serves");
  assertEquals((await user.entries()).map(({ name }) => name), ["weights", "more"]);
}, { long: true });

standbyTest("a store that has lost everything takes no memory for another one's", async ({ start, client }) => {
  const store = start();
  await lineOf(store, "serves");
  const user = await client();
  await using mine = await user.create("mine", 4096);
  mine.buffer.fill(1);
  store.kill("SIGKILL");
  await store.ended;
  const next = start();
  await lineOf(next, "serves");
  const other = await client();
  await using _theirs = await other.create("theirs", 4096);
  const error = await assertRejects(() => mine.publish(), SharingError);
  assertEquals(error.code, "peer-gone");
  assertEquals(await user.entries(), []);
}, { long: true });
