import { assertEquals, assertMatch } from "@std/assert";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

/** Simulated systems, with the reason in the errors for features that they lack. */
const systems: Readonly<Record<string, { name: string; reason: RegExp }>> = {
  "macOS": { name: "darwin", reason: /: Cannot .*it needs Linux, and this is (darwin|macOS)/ },
  "Windows": { name: "windows", reason: /: Cannot .*it needs Linux, and this is (win32|windows|Windows)/ },
  "a runtime without FFI": { name: "no-ffi", reason: /: Cannot .*this (Deno|Bun|runtime) has no FFI/ },
};

// Simulated: the runtime reports the system's name, and libraries do not exist. See children/other_system.ts.
for (const [system, { name, reason }] of Object.entries(systems)) {
  const title = `on ${system}, the software device works, and unsupported features fail with the reason`;
  test(title, { long: system === "Windows" }, async () => {
    await using child = startScript("children/other_system.ts", [name], { env: { NO_COLOR: "1" } });
    const line = await child.nextLine();
    assertEquals([await child.ended, await child.errors()], [0, ""]);
    const { driver, result, refusals, asked } = JSON.parse(line!);
    assertEquals([driver, result], ["software", [12, 24, 36]]);
    assertEquals(asked, [], "No library is searched for");
    assertEquals(Object.keys(refusals).length, 11);
    for (const [what, message] of Object.entries(refusals)) assertMatch(`${what}: ${message}`, reason);
  });
}
