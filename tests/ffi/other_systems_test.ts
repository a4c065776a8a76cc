import { assertEquals, assertMatch } from "@std/assert";
import { test } from "node:test";
import { startScript } from "../support/child_process.ts";

/** What there is, and the reason that is given for what it lacks. */
const situations: Readonly<Record<string, { name: string; reason: RegExp }>> = {
  "macOS": { name: "darwin", reason: /: Cannot .*it needs Linux, and this is (darwin|macOS)/ },
  "Windows": { name: "windows", reason: /: Cannot .*it needs Linux, and this is (win32|windows|Windows)/ },
  "a runtime without FFI": { name: "no-ffi", reason: /: Cannot .*this (Deno|Bun|runtime) has no FFI/ },
};

// Simulated: the runtime says the other system's name, and no library is there. See children/other_system.ts.
for (const [situation, { name, reason }] of Object.entries(situations)) {
  test(`on ${situation} the software device works, and what it cannot do says why`, async () => {
    await using child = startScript("children/other_system.ts", [name], { env: { NO_COLOR: "1" } });
    const line = await child.nextLine();
    assertEquals([await child.ended, await child.errors()], [0, ""]);
    const { driver, result, refusals, asked } = JSON.parse(line!);
    assertEquals([driver, result], ["software", [12, 24, 36]]);
    assertEquals(asked, [], "no library is looked for that cannot be there");
    assertEquals(Object.keys(refusals).length, 11);
    for (const [what, message] of Object.entries(refusals)) assertMatch(`${what}: ${message}`, reason);
  });
}
