import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import {
  buildModule,
  compilerVersion,
  readModule,
  recordedVersion,
  type Target,
  targets,
} from "../../ffi/shim/build.ts";
import { fileURLToPath } from "node:url";
import { test } from "../support/test.ts";

function reasonToSkip(target: Target): string | undefined {
  const present = compilerVersion(target.compiler);
  if (present === undefined) return `${target.compiler} is not installed`;
  const recorded = recordedVersion(target);
  return present === recorded ? undefined : `it was built by ${recorded}, and ${present} is installed`;
}

for (const target of targets) {
  const skip = reasonToSkip(target);
  const name = `the stored ${target.architecture} shim equals a build of shim.c, byte for byte`;
  test(name, { skip, long: true }, () => {
    assertEquals(buildModule(target), readModule(target));
  });
}

test("shim.c stays small", () => {
  const lines = readFileSync(new URL("../../ffi/shim/shim.c", import.meta.url), "utf8").split("\n");
  assert(lines.length <= 300, `${lines.length} lines`);
});

const noCompiler = compilerVersion("gcc") === undefined ? "gcc is not installed" : undefined;

test("shim.c compiles without warnings and has no state", { skip: noCompiler, long: true }, () => {
  const source = fileURLToPath(new URL("../../ffi/shim/shim.c", import.meta.url));
  const flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Werror"];
  const object = `/tmp/poolpass-shim-${crypto.randomUUID()}.o`;
  try {
    const compiled = spawnSync("gcc", [...flags, "-c", "-o", object, source], { encoding: "utf8" });
    assertEquals(compiled.stderr, "");
    const symbols = spawnSync("nm", [object], { encoding: "utf8" }).stdout;
    assertEquals(symbols.split("\n").filter((line) => / [bBdDcC] /.test(line)), []);
  } finally {
    spawnSync("rm", ["-f", object]);
  }
});
