/** What a client asks the next store for, when the one that it has asked is gone. */
import { assertEquals, assertRejects } from "@std/assert";
import { open, StoreClient } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import type { ChildProcess } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { test } from "../../support/test.ts";
import { noPython, startHostile } from "../hostile/hostile_peers.ts";

interface Fixture {
  readonly client: StoreClient;
  readonly store: ChildProcess;
  /** Fails unless the store is asked for this next. */
  isAsked(what: string): Promise<void>;
}

function reconnectionTest(name: string, body: (fixture: Fixture) => Promise<void>): void {
  test(name, { skip: shimRefusal() ?? noPython }, () =>
    inFolder(async (folder) => {
      using cuda = open({ driver: "software" });
      await using store = startHostile("forgetful_store.py", [`${folder}/store`]);
      const isAsked = async (what: string) => {
        const line = await store.nextLine();
        assertEquals(line ?? await store.errors(), JSON.stringify(what));
      };
      await isAsked("ready");
      await using client = await StoreClient.connect(cuda, `${folder}/store`);
      await body({ client, store, isAsked });
    }));
}

reconnectionTest("what is given up before the next store is asked, it is not asked for", async (fixture) => {
  const { client, store, isAsked } = fixture;
  const ending = new AbortController();
  const waiting = client.create("x", 16, { signal: ending.signal });
  await isAsked("create");
  await isAsked("claim");
  ending.abort();
  await assertRejects(() => waiting, DOMException, "room for 16 bytes");
  store.kill("SIGUSR1");
  await client.entries();
  await isAsked("entries");
});

reconnectionTest("what the last store has removed is removed, if the answer was lost", async (fixture) => {
  const { client, store, isAsked } = fixture;
  const removed = client.remove("x");
  await isAsked("remove");
  await isAsked("claim");
  store.kill("SIGUSR1");
  await removed;
  await isAsked("remove");
  // Nobody else has removed anything.
  const error = await assertRejects(() => client.remove("x"));
  assertEquals((error as { code?: string }).code, "not-found");
});
