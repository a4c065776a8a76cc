/** A store with a standby that has no descriptor left for what it is asked. */
import { assertEquals } from "@std/assert";
import { open, type SharingError, StoreClient, type StoredMemory } from "../../../mod.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { test } from "../../support/test.ts";

/** More descriptors than a request takes. */
const most = 6;

async function lineOf(child: ChildProcess, text: string): Promise<void> {
  for (let line; (line = await child.nextLine()) !== undefined;) if (line.startsWith(text)) return;
  throw new Error(`"${text}" did not come: ${await child.errors()}`);
}

test(
  "a store that has no descriptor left keeps nothing that it refuses, and publishes what it has",
  { skip: shimRefusal() ?? false },
  () =>
    inFolder(async (folder) => {
      const [path, standbyPath] = [`${folder}/store`, `${folder}/standby`];
      await using store = startScript("children/sharing/store_few_descriptors.ts", [path, standbyPath], {
        descriptorLimit: 200,
      });
      await lineOf(store, "serves");
      const startStandby = () => startScript("children/sharing/store_process.ts", ["software", path, standbyPath]);
      await using standby = startStandby();
      await lineOf(store, "has a standby");
      using cuda = open({ driver: "software" });
      await using client = await StoreClient.connect(cuda, path);
      await using operator = await Operator.connect(path);
      await using created = new AsyncDisposableStack();
      const kept: string[] = [];
      // With the last of them, the table has a MiB, and is to be written anew: that takes a descriptor, too.
      const metadata = "x".repeat(150_000);
      const early: StoredMemory[] = [];
      for (let count = 0; count <= most; count++) {
        early.push(created.use(await client.create(`early ${count}`, 16, { metadata })));
        kept.push(`early ${count}`);
      }
      for (let left = 0; left <= most; left++) {
        store.kill("SIGINT");
        await lineOf(store, "left");
        await early[left]!.publish();
        try {
          created.use(await client.create(`late ${left}`, 16));
          kept.push(`late ${left}`);
        } catch (error) {
          assertEquals((error as SharingError).code, "out-of-descriptors", String(error));
        }
        store.kill("SIGINT");
        await lineOf(store, "given back");
      }
      const status = await operator.status();
      if (status.kind !== "store") throw new Error(status.kind);
      assertEquals(status.entries.map(({ name }) => name).sort(), kept.sort());
      await using last = await client.create("last", 16);
      await last.publish();
      store.kill("SIGKILL");
      await lineOf(standby, "serves");
      const published = (await client.entries()).map(({ name }) => name).sort();
      assertEquals(published, ["last", ...early.map(({ name }) => name)].sort());
    }),
);

test(
  "a store that has descriptors for its memory alone can give a standby everything",
  { skip: shimRefusal() ?? false },
  () =>
    inFolder(async (folder) => {
      const [path, standbyPath] = [`${folder}/store`, `${folder}/standby`];
      await using store = startScript("children/sharing/store_few_descriptors.ts", [path, standbyPath], {
        descriptorLimit: 200,
      });
      await lineOf(store, "serves");
      using cuda = open({ driver: "software" });
      await using client = await StoreClient.connect(cuda, path);
      const count = 60;
      for (let index = 0; index < count; index++) {
        await using memory = await client.create(`entry ${index}`, 16);
        await memory.publish();
      }
      for (let left = 0; left < most; left++) {
        store.kill("SIGINT");
        await lineOf(store, "left");
        store.kill("SIGINT");
        await lineOf(store, "given back");
      }
      store.kill("SIGINT");
      await lineOf(store, `left ${most}`);
      await using standby = startScript("children/sharing/store_process.ts", ["software", path, standbyPath]);
      await lineOf(store, "has a standby");
      store.kill("SIGKILL");
      await lineOf(standby, "serves");
      assertEquals((await client.entries()).length, count);
    }),
);
