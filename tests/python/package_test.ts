import { assert, assertEquals, assertMatch } from "@std/assert";
import { execFileSync, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { isLong, test } from "../support/test.ts";

/** The package's own tests, which use the standard library's unittest. */
const folder = fileURLToPath(new URL("../../python/tests", import.meta.url));
/** The interpreter itself: the python3 on the PATH may be a script, which starts more slowly. */
const python = findPython();
const noPython = python === undefined && "there is no python3, or it is older than 3.10";
/** Python asks nothing of the runtime that starts it. */
const notDeno = !("Deno" in globalThis) && "the same tests run where this one runs in Deno";

/** A module that takes as long as all others, and the programs for GPUs on the software device: the long run has them. */
const longModules: readonly string[] = ["test_hostile", "test_gpu_checks"];

test("the Python package passes its unit tests", { skip: notDeno || noPython }, async () => {
  const modules = readdirSync(folder).filter((name) => /^test_.*\.py$/.test(name)).map((name) => name.slice(0, -3));
  assert(modules.length > longModules.length + 1, "Tests were found");
  for (const name of longModules) assert(modules.includes(name), name);
  const chosen = modules.filter((name) => isLong || !longModules.includes(name));
  const results = await Promise.all(chosen.map(async (name) => ({ name, ...await runTests(name) })));
  for (const { name, code, output } of results) {
    assertEquals(code, 0, `${name}: ${output}`);
    assertMatch(output, /^Ran [1-9]/m, name);
  }
});

function runTests(module: string): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(python!, ["-m", "unittest", module], {
      cwd: folder,
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1", POOLPASS_DENO: process.execPath },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let output = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => output += text);
    child.once("error", reject);
    child.once("close", (code: number | null) => resolve({ code, output }));
  });
}

/** Returns undefined if there is none that the package supports. */
function findPython(): string | undefined {
  const program = "import sys; print(sys.executable) if sys.version_info >= (3, 10) else sys.exit(1)";
  try {
    return execFileSync("python3", ["-c", program], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return undefined;
  }
}
