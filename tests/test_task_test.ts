/** `deno task test` and `deno task test:more` name folders. What they do not name would never run. */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { smallFolders, smallFoldersOfMore } from "./support/import_tests.ts";
import { test } from "./support/test.ts";
import { taskCommands } from "./support/tasks.ts";

const root = new URL("../", import.meta.url);

test("deno task test and deno task test:more run every file of tests once", () => {
  const commands = taskCommands();
  const pathsOf = (task: string) => commands[task]!.split(" ").filter((word) => word.startsWith("tests/"));
  assertEquals(pathsOf("test"), ["tests/together/*.ts"]);
  assertEquals(pathsOf("test:more"), ["tests/together/more/*.ts"]);
  const filesIn = (folder: string) =>
    readdirSync(new URL(folder, root), { withFileTypes: true }).filter((entry) => entry.isFile())
      .map(({ name }) => name.replace(".ts", ""));
  const together = [...filesIn("tests/together/"), ...filesIn("tests/together/more/")];
  assert(together.includes("others"), "what has no file of its own is imported by others.ts");
  const timesRun = (file: string) => {
    if (!file.includes("/")) return 1;
    const folder = /^(?:objects|sharing)\/(graphs|hostile|store)\//.exec(file)?.[1] ?? file.split("/")[0]!;
    return [...together, ...smallFolders, ...smallFoldersOfMore].filter((name) => name === folder).length;
  };
  const files = readdirSync(new URL("tests/", root), { recursive: true, encoding: "utf8" });
  const tests = files.filter((name) => name.endsWith("_test.ts"));
  assert(tests.length > 200, "Tests were found");
  assertEquals(tests.filter((file) => timesRun(file) !== 1), []);
});

test("what .ci/run leaves out on Bun and Node are files of tests", () => {
  const script = 'source .ci/steps.sh && test_files "${nothing_of_a_runtime[@]}" "${engine_only[@]}"';
  const { status, stdout, stderr } = spawnSync("bash", ["-c", script], { cwd: root, encoding: "utf8" });
  assertEquals([status, stderr], [0, ""]);
  assert(stdout.split("\n").length > 100, stdout);
});
