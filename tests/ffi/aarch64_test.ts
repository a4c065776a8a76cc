import { assertEquals, assertMatch } from "@std/assert";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { library as aarch64 } from "../../ffi/native/shim/aarch64.ts";
import { sources as shimSources } from "../../ffi/native/shim/build.ts";
import { library as x86_64 } from "../../ffi/native/shim/x86_64.ts";
import {
  memAccessDescLayout,
  memLocationLayout,
  memPoolPropsLayout,
  type NativeLayout,
  opaqueStructSizes,
} from "../../ffi/structs.ts";
import { cudaHeaders } from "../support/cuda_headers.ts";
import { test } from "../support/test.ts";

/** A processor on which a C program calls the functions of the shim. */
interface Machine {
  readonly name: string;
  readonly library: string;
  readonly compiler: string;
  /** The command that runs programs for the processor with its C library; empty if this machine runs them. */
  readonly emulator: readonly string[];
  readonly skip: string | false;
}

const sources = fileURLToPath(new URL("aarch64", import.meta.url));
const shimFolder = fileURLToPath(new URL("../../ffi/native/shim", import.meta.url));
const crossCompiler = "aarch64-linux-gnu-gcc";
const noCrossCompiler = !hasProgram(crossCompiler) && `${crossCompiler} is not installed`;

const machines: readonly Machine[] = [
  process.arch === "arm64" ? native("aarch64", aarch64) : {
    name: "aarch64 under qemu-aarch64",
    library: aarch64,
    compiler: crossCompiler,
    emulator: ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
    skip: noCrossCompiler || (!hasProgram("qemu-aarch64") && "qemu-aarch64 is not installed"),
  },
  ...process.arch === "x64" ? [native("x86-64", x86_64)] : [],
];

function native(name: string, library: string): Machine {
  return {
    name,
    library,
    compiler: "gcc",
    emulator: [],
    skip: !hasProgram("gcc") && "gcc is not installed",
  };
}

function hasProgram(name: string): boolean {
  return spawnSync(name, ["--version"]).status === 0;
}

const [onAarch64] = machines as [Machine];

for (const machine of machines) {
  test(`a C program calls every function of the shim, including structs by value: ${machine.name}`, {
    skip: machine.skip,
    long: machine === onAarch64,
  }, () => {
    inFolder((folder) => {
      const { status, stdout, stderr } = callShim(machine, Buffer.from(machine.library, "base64"), folder);
      assertEquals([status, stderr], [0, ""]);
      const called = stdout.trim().split("\n");
      assertEquals(called, functionsIn(readShim(), /^EXPORT \w+ (poolpass_\w+)\(/gm));
      assertEquals(called, functionsIn(readSource("../../ffi/native/shim/shim.ts"), /^ {2}(poolpass_\w+): \{/gm));
    });
  });
}

test("the C program detects a shim that passes the caller's bytes instead of a copy", {
  skip: onAarch64.skip,
  long: true,
}, () => {
  inFolder((folder) => {
    // By this processor's calling convention, a large struct is passed as the address of a copy, which the callee owns.
    const broken = readSource("../../ffi/native/shim/shim.c")
      .replaceAll("(void *, struct bytes64", "(void *, const struct bytes64 *")
      .replaceAll("(out, *handle", "(out, handle");
    const source = join(folder, "shim.c");
    const library = join(folder, "broken.so");
    writeFileSync(source, broken);
    const others = ["-I", shimFolder, ...shimSources.slice(1).map((name) => join(shimFolder, name))];
    compile(onAarch64.compiler, ["-shared", "-fPIC", "-fvisibility=hidden", "-o", library, source, ...others]);
    const { status, stderr } = callShim(onAarch64, readFileSync(library), folder);
    assertEquals(status, 1);
    assertMatch(stderr, /by_value\.c:\d+: failed: memcmp\(buffer/);
  });
});

/** The types must agree: on some processors, an argument of another width is passed differently. */
test("shim.ts declares each function like shim.c", () => {
  const native = (type: string) =>
    type.includes("*")
      ? "buffer"
      : { int: "i32", int32_t: "i32", uint32_t: "u32", uint64_t: "u64" }[type.split(" ")[0]!];
  const inC = readShim().matchAll(/^EXPORT (\w+) (poolpass_\w+)\((.*?)\)/gms);
  const inTypeScript = readSource("../../ffi/native/shim/shim.ts")
    .matchAll(/^ {2}(poolpass_\w+): \{\s+parameters: \[(.*?)\],\s+result: "(\w+)"/gms);
  const expected = [...inC].map(([, result, name, parameters]) => {
    const types = parameters === "void" ? [] : parameters!.split(/,\s+/).map(native);
    return [name, types, native(result!)];
  });
  assertEquals(
    [...inTypeScript].map(([, name, parameters, result]) => {
      const code = parameters!.replaceAll(/\/\/.*$|\/\*.*?\*\//gm, "");
      return [name, [...code.matchAll(/"(\w+)"/g)].map(([, type]) => type), result];
    }),
    expected,
  );
});

const layouts: readonly NativeLayout[] = [memPoolPropsLayout, memLocationLayout, memAccessDescLayout];
const skipHeaders = noCrossCompiler || (cudaHeaders === undefined && "CUDA's headers are not installed");

test("structs have the same layouts on aarch64", { skip: noCrossCompiler }, () => {
  assertLayouts(["cuda_structs.h"], sources);
});

test("the structs of CUDA's headers have the same layouts on aarch64", { skip: skipHeaders }, () => {
  assertLayouts(["stddef.h", "cuda_runtime_api.h"], cudaHeaders!);
});

test("a wrong layout does not compile", { skip: noCrossCompiler }, () => {
  const wrong = { ...memLocationLayout, byteLength: 12 };
  const { status, stderr } = compileLayouts(["cuda_structs.h"], sources, [wrong]);
  assertEquals(status, 1);
  assertMatch(stderr, /sizeof\(struct cudaMemLocation\) == 12/);
});

function assertLayouts(headers: readonly string[], include: string): void {
  const { status, stderr } = compileLayouts(headers, include, layouts);
  assertEquals([status, stderr], [0, ""]);
}

/** Compiles assertions about the layouts, which fail if a layout is wrong. */
function compileLayouts(headers: readonly string[], include: string, layouts: readonly NativeLayout[]) {
  const sizes = { "int": 4, "unsigned int": 4, "float": 4, "unsigned short": 2, "size_t": 8, "void *": 8 };
  const expressions: string[] = [];
  for (const { name, byteLength, fields } of layouts) {
    expressions.push(`sizeof(struct ${name}) == ${byteLength}`);
    for (const [field, { offset, type }] of Object.entries(fields)) {
      expressions.push(`offsetof(struct ${name}, ${field}) == ${offset}`);
      expressions.push(`sizeof(((struct ${name} *)0)->${field}) == ${sizes[type]}`);
    }
  }
  for (const [name, byteLength] of Object.entries(opaqueStructSizes)) {
    expressions.push(`sizeof(${name.endsWith("_t") ? name : `struct ${name}`}) == ${byteLength}`);
  }
  const lines = [
    ...headers.map((header) => `#include <${header}>`),
    ...expressions.map((expression) => `_Static_assert(${expression}, "${expression}");`),
  ];
  const args = ["-std=c11", "-fsyntax-only", "-I", include, "-x", "c", "-"];
  return spawnSync(crossCompiler, args, { input: `${lines.join("\n")}\n`, encoding: "utf8" });
}

function callShim(machine: Machine, library: Uint8Array, folder: string) {
  const path = join(folder, "shim.so");
  const program = join(folder, "program");
  writeFileSync(path, library);
  const files = readdirSync(sources).filter((name) => name.endsWith(".c")).map((name) => join(sources, name));
  compile(machine.compiler, ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, ...files, "-ldl"]);
  const [command, ...args] = [...machine.emulator, program, path, folder];
  return spawnSync(command!, args, { cwd: folder, encoding: "utf8" });
}

function compile(compiler: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync(compiler, args, { encoding: "utf8" });
  assertEquals([status, stderr], [0, ""]);
}

function inFolder(body: (folder: string) => void): void {
  const folder = mkdtempSync("/tmp/poolpass-aarch64-");
  try {
    body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function functionsIn(source: string, pattern: RegExp): string[] {
  return [...source.matchAll(pattern)].map(([, name]) => name!);
}

/** The sources of the shim, one after the other. */
function readShim(): string {
  return shimSources.map((name) => readSource(`../../ffi/native/shim/${name}`)).join("");
}

function readSource(path: string): string {
  return readFileSync(new URL(path, import.meta.url), "utf8");
}
