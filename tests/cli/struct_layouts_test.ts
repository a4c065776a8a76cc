import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Struct } from "../../mod.ts";
import { compilerHere } from "../support/compiler_here.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { type Random, randomFor } from "../support/ptx_mutations.ts";
import { test } from "../support/test.ts";

const hasHostCompiler = spawnSync("g++", ["--version"]).status === 0;
const skip = compilerHere() === undefined || !hasHostCompiler ? "there is no compiler of CUDA C++, or no g++" : false;
const mod = fileURLToPath(new URL("../../mod.ts", import.meta.url));

/** A struct, and what each of its fields is given: a value in TypeScript, and statements in C++. */
interface Sample {
  readonly declaration: string;
  readonly value: unknown;
  assign(target: string): string;
}

const scalars = ["char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long long", "float", "double"];

/** A random struct. Its fields may be structs before it. */
function sampleStruct(
  name: string,
  earlier: readonly (readonly [name: string, sample: Sample])[],
  random: Random,
): Sample {
  const fields: string[] = [];
  const value: Record<string, unknown> = {};
  const assignments: ((target: string) => string)[] = [];
  for (let index = 0, count = 1 + random.below(7); index < count; index++) {
    const field = `f${index}`;
    const kind = random.below(10);
    const number = random.below(100);
    if (kind < 5) {
      fields.push(`${random.pick(scalars)} ${field};`);
      value[field] = number;
      assignments.push((target) => `${target}.${field} = ${number};`);
    } else if (kind < 7) {
      const [rows, columns] = [1 + random.below(3), 1 + random.below(3)];
      fields.push(`${random.pick(scalars)} ${field}[${rows}][${columns}];`);
      value[field] = Array.from({ length: rows * columns }, (_, at) => number + at);
      assignments.push((target) =>
        Array.from(
          { length: rows * columns },
          (_, at) => `${target}.${field}[${Math.floor(at / columns)}][${at % columns}] = ${number + at};`,
        ).join(" ")
      );
    } else if (kind < 9 && earlier.length > 0) {
      const [type, inner] = random.pick(earlier);
      const isArray = random.below(2) === 0;
      fields.push(`${type} ${field}${isArray ? "[2]" : ""};`);
      value[field] = isArray ? [inner.value, inner.value] : inner.value;
      const targets = isArray ? ["[0]", "[1]"] : [""];
      assignments.push((target) => targets.map((at) => inner.assign(`${target}.${field}${at}`)).join(" "));
    } else {
      fields.push(`void* ${field};`);
      value[field] = 4096n;
      assignments.push((target) => `${target}.${field} = (void*)4096;`);
    }
  }
  const alignment = random.below(5) === 0 ? "alignas(32) " : "";
  return {
    declaration: `struct ${alignment}${name} { ${fields.join(" ")} };`,
    value,
    assign: (target) => assignments.map((assign) => assign(target)).join(" "),
  };
}

/** The fields that were declared in C++, without those that only pad. */
function withPadding(struct: Struct<Record<string, unknown>>, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each) => withPadding(struct, each));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(struct.fields).map(([name, type]) => {
      const given = (value as Record<string, unknown>)[name];
      const element = Array.isArray(type) ? type[0] : type;
      if (given === undefined) return [name, new Uint8Array((type as [string, number])[1])];
      return [name, typeof element === "function" ? withPadding(element as typeof struct, given) : given];
    }),
  );
}

test("generated structs have the bytes that g++ gives them", { skip, long: true }, async () => {
  const random = randomFor("layouts of structs");
  const samples: [name: string, sample: Sample][] = [];
  for (let index = 0; index < 60; index++) {
    // Kernels take 32764 bytes of parameters.
    const inner = samples.slice(0, index < 4 ? 0 : index < 12 ? 4 : 12);
    samples.push([`S${index}`, sampleStruct(`S${index}`, inner, random)]);
  }
  const declarations = samples.map(([, { declaration }]) => declaration).join("\n");
  await inFolder(async (folder) => {
    const kernels = samples.map(([name], index) =>
      index % 2 === 0
        // Compilers say nothing of large parameters that are not used.
        ? `extern "C" __global__ void k${index}(${name} value, char* out) { out[0] = *(char*)&value; }`
        : `extern "C" __global__ void k${index}(${name}* values, char* out) { out[0] = *(char*)&values[1]; ` +
          `${name} copy = values[0]; values[2] = copy; }`
    );
    writeFileSync(join(folder, "s.cu"), `${declarations}\n${kernels.join("\n")}\n`);
    const bound = await poolpass("bind", join(folder, "s.cu"), "--import", mod);
    assertEquals(bound.code, 0, bound.errors);

    const prints = samples.map(([name, sample]) =>
      `{ static ${name} s; memset(&s, 0, sizeof s); ${
        sample.assign("s")
      } print("${name}", alignof(${name}), &s, sizeof s); }`
    );
    writeFileSync(
      join(folder, "host.cpp"),
      `#include <cstdio>
#include <cstring>
${declarations}
void print(const char* name, size_t alignment, const void* bytes, size_t size) {
  printf("%s %zu ", name, alignment);
  for (size_t i = 0; i < size; i++) printf("%02x", ((const unsigned char*)bytes)[i]);
  printf("\\n");
}
int main() { ${prints.join("\n")} }
`,
    );
    const program = join(folder, "host");
    const { status, stderr } = spawnSync("g++", ["-w", "-o", program, join(folder, "host.cpp")], { encoding: "utf8" });
    assertEquals(status, 0, stderr);
    const module = await import(pathToFileURL(join(folder, "s.ts")).href);
    const expected = spawnSync(program, { encoding: "utf8" }).stdout.trimEnd().split("\n");
    assertEquals(expected.length, samples.length);
    const source = readFileSync(join(folder, "s.ts"), "utf8");
    for (const [index, [name, { value }]] of samples.entries()) {
      const struct: Struct<Record<string, unknown>> | undefined = module[name];
      if (struct === undefined) throw new Error(`There is no constant for ${samples[index]![1].declaration}`);
      const bytes = struct.encode([withPadding(struct, value) as never]);
      assertEquals(`${name} ${struct.alignment} ${bytes.toHex()}`, expected[index], samples[index]![1].declaration);
    }
    assert(!source.includes("padding"), "no struct needs fields that pad");
  });
});
