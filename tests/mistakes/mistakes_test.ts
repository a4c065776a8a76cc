import { assertEquals } from "@std/assert";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";
import { readMessages } from "./messages.ts";

test("each mistake has the message that messages.md shows", { skip: shimRefusal() }, async () => {
  await inFolder(async (folder) => {
    const output = `${folder}/messages.md`;
    await using child = startScript("mistakes/record.ts", [output], { permissions: ["--allow-all"] });
    assertEquals(await child.ended, 0, await child.errors());
    // Areas are compared in turn, so that a difference is shown with few others.
    const expected = readMessages();
    const seen = readMessages(output);
    assertEquals([...seen.keys()], [...expected.keys()]);
    for (const [title, messages] of expected) assertEquals(seen.get(title), messages, title);
  });
});

test("no mistake of messages.md stays silent", () => {
  for (const [title, messages] of readMessages()) {
    const silent = [...messages].filter(([, text]) => /^SILENT$/m.test(text)).map(([name]) => name);
    assertEquals(silent, [], title);
  }
});
