import { assert, assertEquals, assertMatch } from "@std/assert";
import { remainingLines, startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

const isBun = "Bun" in globalThis;

test("the stack of an error begins with the program's line, whatever call throws it", async () => {
  const env = { POOLPASS_SANITIZE: "0", NODE_NO_WARNINGS: "1" };
  await using child = startScript("children/throw_errors.ts", [], { env });
  const results = (await remainingLines(child)).map((line) => JSON.parse(line));
  assertEquals(await child.ended, 0, await child.errors());
  assert(results.length > 40, await child.errors());
  for (const { name, frame = "", error } of results) {
    assert(frame !== "no error", name);
    // The runtime's own function has called the getter that throws.
    if (name === "a clone") assert(!/\/src\//.test(frame), frame);
    // Bun leaves the frame of an accessor's caller out.
    else if (!(isBun && frame === "")) assertMatch(frame, /throw_errors\.[jt]s:\d+:\d+/, `${name}: ${error}`);
  }
});
