/** A store whose descriptors a service manager keeps, as systemd does with FileDescriptorStoreMax. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { open, StoreClient } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { type ChildProcess, scriptCommand, startCommand } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { isLong, test } from "../../support/test.ts";

const noPython = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]).status !== 0;
const skip = shimRefusal() ?? (noPython ? "there is no python3, or it is older than 3.9" : false);
const manager = fileURLToPath(new URL("service_manager.py", import.meta.url));

/** Reads lines until one begins with a text. */
async function lineOf(child: ChildProcess, text: string): Promise<string> {
  for (let line; (line = await child.nextLine()) !== undefined;) if (line.startsWith(text)) return line;
  throw new Error(`"${text}" did not come: ${await child.errors()}`);
}

for (const isAbstract of [false, true]) {
  test(
    `a service that is killed finds its memory again [${isAbstract ? "abstract name" : "path"}]`,
    { skip, long: isAbstract },
    () =>
      inFolder(async (folder) => {
        const path = `${folder}/store`;
        const notify = isAbstract ? `@poolpass-test-${process.pid}` : `${folder}/notify`;
        const command = scriptCommand("children/sharing/store_process.ts", ["software", path]);
        await using service = startCommand(["python3", manager, notify, ...command]);
        await lineOf(service, "ready");
        using cuda = open({ driver: "software" });
        await using client = await StoreClient.connect(cuda, path);
        {
          await using memory = await client.create("weights", 4096, { metadata: { dtype: "uint8" } });
          memory.buffer.fill(7);
          await memory.publish();
        }
        await using unpublished = await client.create("more", 4096);
        unpublished.buffer.fill(8);
        using mapped = await client.map("weights");
        const [first] = (await client.entries()).map(({ readers }) => readers.length);
        assertEquals(first, 1);
        for (let times = 1; times <= (isLong ? 3 : 1); times++) {
          service.kill("SIGUSR1");
          assertMatch(await lineOf(service, "started"), / 3$/);
          await lineOf(service, "ready");
          const [entry] = await client.entries();
          assertEquals([entry!.name, entry!.generation, entry!.metadata, entry!.readers.length], [
            "weights",
            1,
            { dtype: "uint8" },
            1,
          ]);
          assertEquals(new Set(await mapped.read(Uint8Array)), new Set([7]));
        }
        // What was not published belongs to its writer still.
        await unpublished.publish();
        using more = await client.map("more");
        assertEquals(new Set(await more.read(Uint8Array)), new Set([8]));
        // What is gone is stored no more.
        await client.remove("weights");
        mapped.free();
        for (let stored = ""; !/^stored poolpass-memory-\d+,poolpass-table-\d+$/.test(stored);) {
          stored = await lineOf(service, "stored");
          assert(stored !== undefined);
        }
        service.kill("SIGTERM");
        await service.ended;
      }),
  );
}
