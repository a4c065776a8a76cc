import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { generate, type GenerateOptions } from "../../cli/bind/generate.ts";
import { open } from "../../mod.ts";
import { PtxError } from "../../src/ptx/syntax.ts";
import { ptx as saxpy } from "../../kernels/saxpy.ts";
import { ptxNames, readStoredPtx } from "../corpus/stored_ptx.ts";
import { poolpass } from "../support/poolpass.ts";
import { randomFor } from "../support/ptx_mutations.ts";
import { isLong, test } from "../support/test.ts";
import { mutateSections } from "./debug_mutations.ts";
import { names, Params, ptx as parameters } from "./debugged/parameters.ts";

const root = new URL("../../", import.meta.url);
const clangFolder = new URL("tests/corpus/clang/", root);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");

const options: GenerateOptions = {
  file: "given.ptx",
  command: "poolpass bind given.ptx",
  importFrom: "poolpass",
  compileOptions: {},
  compile: () => {
    throw new Error("Cannot compile PTX");
  },
};

/** The module for PTX, without the PTX and the lines above the types. */
function typesOf(ptx: string): string {
  const { source } = generate(ptx, options);
  return source.slice(source.indexOf("\n") + 1, source.indexOf("\n/** PTX of the kernels"));
}

/** Each kernel's parameters, in a line. */
function kernelsOf(ptx: string): string[] {
  const members = typesOf(ptx).match(/^ {2}\w+: \[[^]*?\];$/gm) ?? [];
  return members.map((member) =>
    member.trim().replaceAll(/\[\n +/g, "[").replaceAll(/,\n +\]/g, "]").replaceAll(/\n +/g, " ")
  );
}

function ptxOf(...kernels: string[]): string {
  return [".version 7.0", ".target sm_60", ".address_size 64", ...kernels].join("\n");
}

test("the module for PTX with debugging information is the recorded one", async () => {
  const path = fileURLToPath(new URL("debugged/parameters.ptx", import.meta.url));
  const { code, errors } = await poolpass("bind", path, "--import", "../../../mod.ts", "--check");
  assertEquals([code, errors], [0, ""]);
  assertEquals(parameters, read("tests/cli/debugged/parameters.ptx"));
});

test("both generations of NVIDIA's compiler say the same of parameters", () => {
  assertEquals(typesOf(read("tests/cli/debugged/parameters_100.ptx")), typesOf(parameters));
});

test("the names in a generated module are those of kernels, and its structs are what they take", () => {
  using cuda = open({ driver: "software" });
  using module = cuda.device(0).loadModule(parameters);
  assertEquals(module.kernel(names["scale<float, 3>"]).parameters, ["u64", "f32"]);
  assertEquals(module.kernel("structs").parameters[0], {
    byteLength: Params.byteLength,
    alignment: Params.alignment,
  });
});

test("clang's debugging information names parameters, too", () => {
  const files = ptxNames(clangFolder).filter((file) => file.endsWith(".debug.ptx"));
  assert(files.length > 10, `${files.length} files`);
  for (const file of files) {
    const types = typesOf(readStoredPtx(clangFolder, file));
    assertMatch(types, /Pointer</, file);
    assert(!types.includes("parameter0"), file);
  }
  assertEquals(kernelsOf(readStoredPtx(clangFolder, "predicates.debug.ptx")), [
    "predicates: [in_: Pointer<Int32Array>, out: Pointer<Uint32Array>, flags: Pointer<Uint8Array>];",
  ]);
});

test("PTX without debugging information has numbered parameters, or those that it names", () => {
  assertEquals(kernelsOf(saxpy), [
    "saxpy: [parameter0: number, parameter1: number, parameter2: Pointer | number | bigint, " +
    "parameter3: Pointer | number | bigint];",
  ]);
  const kernel = `.visible .entry k(.param .u64 .ptr .global .align 4 x, .param .f64 delete, .param .b8 x$[16],
    .param .u16 %y, .param .s64 size) { ret; }`;
  assertEquals(kernelsOf(ptxOf(kernel)), [
    "k: [x: Pointer, delete_: number, x$: ArrayBufferView, parameter3: number, size: Pointer | number | bigint];",
  ]);
  assertEquals(kernelsOf(ptxOf(".entry none() { ret; }", ".entry one(.param .f32 one_param_0) { ret; }")), [
    "none: [];",
    "one: [parameter0: number];",
  ]);
  assertThrows(() => typesOf(ptxOf()), Error, "Cannot bind given.ptx: it has no kernels");
  assertThrows(() => typesOf("int main() {}"), Error, "Cannot bind given.ptx: it is not the text of PTX");
});

test("a module has its PTX to the character", () => {
  const odd = ptxOf("// `${escaped}` \\ \\` $${ \u0000 \r\n \u2028 \u00e9 \u{1f600} */", ".entry k() { ret; }", "");
  const { source } = generate(odd, { ...options, importFrom: "" });
  const [, literal] = /^export const ptx: Ptx<Kernels> = (`[^]*`) as Ptx<Kernels>;$/m.exec(source)!;
  assertEquals(new Function(`return ${literal}`)(), odd);
});

test("names of files and options do not leave the comments of a module", () => {
  const file = "`*/\nalert(1)\n.ptx";
  const { source } = generate(saxpy, { ...options, file, command: `poolpass bind '${file}'` });
  assertMatch(source, /^\/\/ Generated from [^\n]* Do not edit\.\n\nimport type/);
  const types = source.slice(source.indexOf("\n"));
  assert(!/^alert/m.test(types) && !types.includes("`*/"), types.slice(0, 1000));
});

test("a source that cannot be compiled for a debugger has numbered parameters, and a warning", () => {
  const compiled = { ptx: saxpy, log: "", compiler: "a compiler", loweredNames: new Map<string, string>() };
  const { source, log } = generate("", {
    ...options,
    file: "given.cu",
    compile(_, { debug }) {
      if (debug) throw new Error("no");
      return compiled;
    },
  });
  assertMatch(source, /^\/\/ Generated from given\.cu by `poolpass bind given\.ptx`, compiled by a compiler\. Do not/);
  assertMatch(source, /parameter0: number/);
  assertEquals(log, "given.cu: Cannot compile for a debugger: no; parameters are numbered");
});

test("debugging information that is not that of the PTX is not used", () => {
  const other = read("tests/cli/debugged/parameters.ptx").replace(/(?<=\.param )\.f32(?= numbers_param_2)/, ".f64");
  assertMatch(typesOf(other), /^ {2}numbers: \[\n {4}parameter0: number,$/m);
  assertMatch(typesOf(other), /^ {4}x: Pointer<Float32Array>,$/m);
});

test("malformed debugging information is not used, or is an error of the PTX", () => {
  const sources = [
    read("tests/cli/debugged/parameters.ptx"),
    readStoredPtx(clangFolder, "generic_memory.debug.ptx"),
  ];
  let [numbered, named] = [0, 0];
  for (const [index, source] of sources.entries()) {
    const random = randomFor(`debugging information ${index}`);
    for (let round = isLong ? 4000 : 40; round > 0; round--) {
      const mutated = mutateSections(source, random);
      try {
        const { log, source } = generate(mutated, options);
        if (source.includes("parameter0")) numbered++;
        else named++;
        assertMatch(log, /^$|^given\.ptx: Cannot read the debugging information: .*; parameters are numbered$/);
      } catch (error) {
        if (!(error instanceof PtxError)) throw new Error(`Cannot bind mutated PTX:\n${mutated}`, { cause: error });
      }
    }
  }
  assert(numbered > 5 && named > 5, `${numbered} numbered, ${named} named`);
});
