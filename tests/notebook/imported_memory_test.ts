import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { addDisplays } from "../../src/notebook/displays.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import { sharingTest, soon } from "../sharing/sharing_peers.ts";

addDisplays();

async function display(object: object): Promise<string> {
  const method = Symbol.for("Jupyter.display");
  return (await (object as { [name: symbol]: () => Promise<Record<string, string>> })[method]!())["text/plain"]!;
}

sharingTest(
  "a notebook does not read memory of a process that has died, and says so",
  async ({ cuda, path, start }) => {
    const exporter = await start();
    await exporter.call("listen", path);
    await exporter.call("export", "ready", 64, 3);
    await exporter.call("finished");
    await using importer = await Importer.connect(cuda, path);
    using buffer = await (await importer.offer("ready")).map();
    assertStringIncludes(await display(buffer), "\n03 03 03 03");
    assertMatch(await display(buffer.as(Uint8Array).subarray(0, 3)), /\n\[3, 3, 3\]$/);
    await exporter.kill();
    await soon(() => !importer.isConnected, "the importer notices the end");
    const [title, reason] = (await display(buffer)).split("\n");
    assertEquals(title, String(buffer));
    assertMatch(reason!, /^not read: .*process \d+/);
  },
);
