import { assert, assertEquals, assertMatch } from "@std/assert";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

test("the call stacks of POOLPASS_DEBUG=1 begin with the program's line", async () => {
  const env = { POOLPASS_DRIVER: "software", POOLPASS_DEBUG: "1", POOLPASS_SANITIZE: "0", NODE_NO_WARNINGS: "1" };
  await using child = startScript("children/leave_undisposed.ts", [], { env });
  assertEquals(await child.ended, 0, await child.errors());
  const lines = (await child.errors()).split("\n");
  const stacks = lines.flatMap((line, index) => /( allocated| created|^waited for)$/.test(line) ? [index] : []);
  const what = new Set(stacks.map((index) => lines[index]!.trim()));
  const sizes = [64, 128, 256, 512];
  const kinds = ["pool created", "allocator created", "stream created", "event created", "waited for"];
  for (const each of [...sizes.map((size) => `${size} bytes allocated`), ...kinds]) {
    assert(what.has(each), `${each} is in ${lines.join("\n")}`);
  }
  for (const index of stacks) {
    // What follows an await has no frame of the program at its call.
    if (lines[index]!.includes("512 bytes")) continue;
    assertMatch(lines[index + 1]!, /^ {4}at .*leave_undisposed\.[jt]s:\d+:\d+/, lines[index]);
  }
  assert(lines.some((line) => /it was freed at .*leave_undisposed\.[jt]s:\d+:\d+/.test(line)), "where it was freed");
});
