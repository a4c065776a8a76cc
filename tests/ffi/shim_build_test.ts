import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import * as aarch64 from "../../ffi/native/shim/aarch64.ts";
import {
  buildModule,
  compilerVersion,
  readModule,
  recordedVersion,
  sources,
  type Target,
  targets,
} from "../../ffi/native/shim/build.ts";
import * as x86_64 from "../../ffi/native/shim/x86_64.ts";
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

test("the shim's sources stay small", () => {
  for (const source of sources) {
    const lines = readFileSync(new URL(`../../ffi/native/shim/${source}`, import.meta.url), "utf8").split("\n");
    assert(lines.length <= 300, `${source}: ${lines.length} lines`);
  }
});

const noObjdump = spawnSync("objdump", ["--version"]).status !== 0 && "objdump is not installed";

test("the shim needs glibc 2.27, which has memfd_create, and nothing newer", { skip: noObjdump, long: true }, () => {
  for (const { library } of [x86_64, aarch64]) {
    const file = `/tmp/poolpass-shim-${crypto.randomUUID()}.so`;
    try {
      writeFileSync(file, Uint8Array.fromBase64(library));
      const { stdout } = spawnSync("objdump", ["-p", file], { encoding: "utf8" });
      const versions = [...stdout.matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
      assertEquals(Math.max(...versions), 27);
    } finally {
      rmSync(file, { force: true });
    }
  }
});

const noCompiler = compilerVersion("gcc") === undefined ? "gcc is not installed" : undefined;

test("the shim compiles without warnings, and only foreign.c has state", { skip: noCompiler, long: true }, () => {
  const flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Werror"];
  for (const name of sources) {
    const source = fileURLToPath(new URL(`../../ffi/native/shim/${name}`, import.meta.url));
    const object = `/tmp/poolpass-shim-${crypto.randomUUID()}.o`;
    try {
      const compiled = spawnSync("gcc", [...flags, "-c", "-o", object, source], { encoding: "utf8" });
      assertEquals(compiled.stderr, "");
      const symbols = spawnSync("nm", [object], { encoding: "utf8" }).stdout;
      const state = symbols.split("\n").filter((line) => / [bBdDcC] /.test(line)).map((line) => line.split(" ").at(-1));
      assertEquals(state, name === "foreign.c" ? ["closers", "lock", "queue", "queue_capacity", "queue_length"] : []);
    } finally {
      rmSync(object, { force: true });
    }
  }
});
