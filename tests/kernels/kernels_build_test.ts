import { assert, assertEquals, assertMatch } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { kernelSignatures } from "../../src/ptx/kernel_signature.ts";
import { compilerHere } from "../support/compiler_here.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";

const folder = fileURLToPath(new URL("../../kernels/", import.meta.url));
const read = (file: string) => readFileSync(join(folder, file), "utf8");
const names = readdirSync(folder).filter((file) => file.endsWith(".cu")).map((file) => file.slice(0, -3)).sort();

test("the kernels are those of the documentation", () => {
  const described = [...read("README.md").matchAll(/^\| \[`(\w+)`\]/gm)].map((match) => match[1]!);
  assertEquals(described.toSorted(), names);
});

for (const name of names) {
  const { ptx } = await import(`../../kernels/${name}.ts`) as { ptx: string };
  const module = read(`${name}.ts`);
  const [, command = "", recorded = ""] =
    /^\/\/ Generated from \S+ by `poolpass (.*)`, compiled by (.*)\. Do not edit\.\n/.exec(module) ?? [];

  test(`${name}.ts has the PTX of ${name}.ptx, and the types of its kernels`, () => {
    assertEquals(ptx, read(`${name}.ptx`));
    for (const kernel of kernelSignatures(ptx)) {
      assert(kernel.name.startsWith(name), kernel.name);
      assertMatch(module, new RegExp(`^  ${kernel.name}: \\[`, "m"));
    }
    assert(!/\bparameter0\b/.test(module), "parameters have the names of the source");
  });

  test(`${name}.ptx requires only CUDA 11.0 and sm_60, and has nothing to fuse`, () => {
    assertMatch(ptx, /^\.version 7\.0\n\.target sm_60\n\.address_size 64\n/);
    assertEquals(/\b(add|sub|mul)(\.ftz)?\.f(32|64)\b/.exec(ptx), null);
  });

  const here = compilerHere();
  const skip = here !== recorded && `it was compiled by ${recorded}, and ${here ?? "no compiler"} is found`;
  test(`poolpass bind gives ${name}.ts and ${name}.ptx for ${name}.cu`, { skip, long: true }, async () => {
    await inFolder(async (folder) => {
      const [file, ...options] = command.split(" ").slice(1);
      assertEquals(file, `${name}.cu`);
      const out = join(folder, `${name}.ts`);
      const path = fileURLToPath(new URL(`../../kernels/${file}`, import.meta.url));
      const { code, errors } = await poolpass("bind", path, "--out", out, ...options);
      assertEquals(code, 0, errors);
      assertEquals(readFileSync(out, "utf8"), module);
      assertEquals(readFileSync(join(folder, `${name}.ptx`), "utf8"), ptx);
    });
  });
}
