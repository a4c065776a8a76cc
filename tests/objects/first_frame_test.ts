import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { open } from "../../src/open.ts";
import { remainingLines, type StartOptions, startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

const env = { POOLPASS_SANITIZE: "0", NO_COLOR: "1" };

test("the stack of an error begins with the program's line, whatever call throws it", async () => {
  const options: StartOptions = { env, descriptorLimit: 64 };
  await using child = startScript("children/throw_errors.ts", [], options);
  const results = (await remainingLines(child)).map((line) => JSON.parse(line));
  assertEquals(await child.ended, 0, await child.errors());
  assert(results.length > 40, await child.errors());
  for (const { name, frame = "", error } of results) {
    assert(error !== "undefined", name);
    // The runtime's own function has called the getter that throws.
    if (name === "a clone") assert(!/\/src\//.test(frame), frame);
    else assertMatch(frame, /throw_errors\.[jt]s:\d+:\d+/, `${name}: ${error}`);
  }
});

for (const how of ["at once", "after a wait", "outside of functions"]) {
  test(`an error that a call throws ${how} and nobody catches is printed with the program's line`, async () => {
    await using child = startScript("children/uncaught_error.ts", [how], { env });
    assertEquals(await child.ended, 1);
    const errors = await child.errors();
    assert(!/\bsrc\//.test(errors), errors);
    assertEquals([...errors.matchAll(/(?<=\/\/ fails )\w+$/gm)].map(([word]) => word).at(-1), how.split(" ")[0]);
  });
}

test("with POOLPASS_DEBUG=1, the stack of an error has the library's frames, too", async () => {
  await using child = startScript("children/uncaught_error.ts", ["at once"], { env: { ...env, POOLPASS_DEBUG: "1" } });
  assertEquals(await child.ended, 1);
  assertMatch(await child.errors(), /\bsrc\/memory\/pools\/memory_pool\.[jt]s:\d+:\d+.*uncaught_error\.[jt]s:\d+:\d+/s);
});

test("what programs call throws errors whose stacks begin at the program", () => {
  const source = new URL("../../src/", import.meta.url);
  const folders = ["collectives", "compile", "files", "memory", "objects", "sharing", "support"];
  const paths = folders.flatMap((folder) =>
    readdirSync(new URL(folder, source), { recursive: true, encoding: "utf8" }).map((name) => `${folder}/${name}`)
  ).filter((path) => path.endsWith(".ts") && path !== "support/program_errors.ts");
  const wrong = paths.filter((path) => {
    const text = readFileSync(new URL(path, source), "utf8");
    const imported = /import \{([^}]*)\} from "[./\w]*program_errors\.ts"/.exec(text)?.[1] ?? "";
    return [...text.matchAll(/\bnew (TypeError|RangeError|ReferenceError)\(/g)].some(([, name]) =>
      !new RegExp(`\\b${name}\\b`).test(imported)
    );
  });
  assertEquals(wrong, []);
});

test("a failing call leaves how the program formats stacks as it was", () => {
  const errors = Error as unknown as { stackTraceLimit: number; prepareStackTrace?: unknown };
  const { stackTraceLimit: limit, prepareStackTrace: prepare } = errors;
  const format = () => "formatted";
  using cuda = open({ driver: "software" });
  try {
    errors.prepareStackTrace = format;
    errors.stackTraceLimit = 3;
    assertThrows(() => cuda.device(99), RangeError, "Cannot find device 99");
    assertEquals([errors.prepareStackTrace, errors.stackTraceLimit], [format, 3]);
  } finally {
    errors.stackTraceLimit = limit;
    errors.prepareStackTrace = prepare;
  }
});
