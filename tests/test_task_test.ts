/** `deno task test` names folders. What it does not name would never run. */
import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { smallFolders } from "./support/import_tests.ts";
import { test } from "./support/test.ts";

const root = new URL("../", import.meta.url);

test("deno task test runs every file of tests once", () => {
  const { tasks } = JSON.parse(readFileSync(new URL("deno.json", root), "utf8"));
  const paths: string[] = tasks.test.command.split(" ").filter((word: string) => word.startsWith("tests/"));
  assertEquals(paths, ["tests/together/*.ts"]);
  const together = readdirSync(new URL("tests/together/", root)).map((name) => name.replace(".ts", ""));
  assert(together.includes("others"), "what has no file of its own is imported by others.ts");
  const timesRun = (file: string) => {
    if (!file.includes("/")) return 1;
    const folder = file.split("/")[0]!;
    return Number(together.includes(folder)) + Number(smallFolders.includes(folder));
  };
  const files = readdirSync(new URL("tests/", root), { recursive: true, encoding: "utf8" });
  const tests = files.filter((name) => name.endsWith("_test.ts"));
  assert(tests.length > 200, "Tests were found");
  assertEquals(tests.filter((file) => timesRun(file) !== 1), []);
});
