import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { CompileError } from "../../src/compile/compile_error.ts";
import { checkProgram, type CompileOptions } from "../../src/compile/compile_options.ts";
import { type Compiler, type CompilerOutput, Compilers } from "../../src/compile/compilers.ts";
import { replaceIncludes, takeNames } from "../../ffi/compilers/command_compiler.ts";
import { jsRuntime } from "../../ffi/native/host.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { startScript } from "../support/child_process.ts";
import { testCompiling, testedCompilers } from "./compilers.ts";
import { isLong, test } from "../support/test.ts";

test("includes of headers from strings are replaced wherever they are directives, and nowhere else", () => {
  const paths = new Map([["a.h", "/1"], ["b/c.h", "/2"]]);
  const cases = [
    ['#include "a.h"\n', '#include "/1"\n'],
    ['  # include\t<b/c.h> // "a.h"', '  # include\t"/2" // "a.h"'],
    ['#if __has_include(<a.h>) && __has_include( "x.h" )', '#if __has_include("/1") && __has_include( "x.h" )'],
    ['/* */ #include "a.h"', '/* */ #include "/1"'],
    ...[
      '#include "other.h"\n#include <ab.h>\n#include MACRO "a.h"',
      '// #include "a.h" \\\n#include "a.h"',
      '/* \n#include "a.h"\n*/',
      'R"x(\n#include "a.h"\n)" )x"',
      '"\\"#include <a.h>"',
      "'\"' + '\\'' + \"#include <a.h>\"",
    ].map((same) => [same, same]),
    // An apostrophe of a number or of a message begins no literal.
    ["int x = 1'000;\n#include <a.h>\nint y = 2'0;", "int x = 1'000;\n#include \"/1\"\nint y = 2'0;"],
    ["#error don't\n#include <a.h>", '#error don\'t\n#include "/1"'],
  ];
  for (const [text, replaced] of cases) assertEquals(replaceIncludes(text!, paths), replaced);
});

test("the variables of name expressions leave PTX as if they had not been there", () => {
  const input = { name: "k.cu", source: "", headers: new Map(), nameExpressions: ["f<int>", "&v"] };
  const kernel = ".visible .entry _Z1fIiEvPT_(\n\t.param .u64 p\n)\n{\n\tret;\n}\n";
  const ptx = (variables: string) => `.version 9.0\n.global .align 4 .u32 v;\n${variables}${kernel}`;
  const declared = ".visible .entry _Z1fIiEvPT_\n(\n\t.param .u64 p\n)\n;\n";
  const [first, second] = [0, 1].map((index) => `.global .align 8 .u64 __poolpass_name_${index} = `);
  const taken = takeNames(ptx(`${declared}${first}_Z1fIiEvPT_;\n.visible ${second}generic(v);\n`), input);
  assertEquals(taken.ptx, ptx(""));
  assertEquals([...taken.loweredNames], [["f<int>", "_Z1fIiEvPT_"], ["&v", "v"]]);
  for (const value of ["0", "generic(v)+4", "g"]) {
    const error = assertThrows(
      () => takeNames(ptx(`${first}_Z1fIiEvPT_;\n${second}${value};\n`), input),
      CompileError,
      'the name expression "&v"',
    );
    assertEquals(error.file, "k.cu");
  }
});

const source = `#include "twice.h"
#include <guarded.h>
#include <guarded.h>
__constant__ int table[4];
namespace n { template <int N> __device__ int counter = N; }
template <class T> __global__ void scale(T* x, T a) {
#ifdef UNUSED
  int unused;
#endif
  x[0] = twice(x[0]) * a + table[0] + guarded;
}
static_assert(__LINE__ == 12, "lines");
#if !__has_include("twice.h") || __has_include("nowhere.h")
#error has_include
#endif
`;
const headers = {
  "twice.h": '#pragma once\n#include "guarded.h"\ntemplate <class T> __device__ T twice(T x) { return x * 2; }\n',
  "guarded.h": '#ifndef GUARDED\n#define GUARDED\n#include "twice.h"\nconstexpr int guarded = 5;\n' +
    'static_assert(__LINE__ == 5, "lines");\n#endif\n',
};
const nameExpressions = ["scale<float>", "&table", "scale< double >", "&n::counter<7>"];

testCompiling("names, nested headers and warnings are the same for every compiler", (cuda, tested) => {
  const isQuick = tested.isCommand && !isLong;
  const compile = (text: string, options: CompileOptions = {}) =>
    cuda.compile(text, { architecture: "compute_75", headers, ...options });
  for (const debug of isQuick ? [true] : [false, true]) {
    const { ptx, log, loweredNames } = compile(source, { nameExpressions, debug });
    assertEquals(log, "");
    assertEquals(loweredNames.get("scale<float>"), "_Z5scaleIfEvPT_S0_");
    assertEquals(loweredNames.get("&table"), "table");
    assertEquals(loweredNames.get("&n::counter<7>"), "_ZN1n7counterILi7EEE");
    const gpu = cuda.device(0);
    using module = gpu.loadModule(ptx);
    assertEquals(module.kernelNames.toSorted(), ["_Z5scaleIdEvPT_S0_", "_Z5scaleIfEvPT_S0_"]);
    assertEquals(module.getGlobal("table").byteLength, 16);
    assert(!/__poolpass|\/proc\//.test(ptx), /.*(__poolpass|\/proc\/).*/.exec(ptx)?.[0]);
  }
  const warned = compile(source, { nameExpressions, defines: { UNUSED: true }, flags: tested.warningFlags });
  assertMatch(warned.ptx, /\.file\s+\d+ "twice\.h"/);
  assertMatch(warned.log, /kernel\.cu.*[(:]8\b.*warning.*"?unused/);
  for (const wrong of isQuick ? ["table[1]"] : ["nothing<float>", "table[1]", "7"]) {
    const error = assertThrows(() => compile(source, { nameExpressions: ["&table", wrong] }), CompileError);
    assertMatch(error.message, new RegExp(`^kernel.cu: error in the name expression "${RegExp.escape(wrong)}": `));
  }
}, { isShort: true });

testCompiling("a source that lacks a brace is not mistaken for an error in a name expression", (cuda) => {
  const compile = () =>
    cuda.compile("__global__ void f() {", { architecture: "compute_75", nameExpressions: ["f", "&f"] });
  const error = assertThrows(compile, CompileError);
  assertEquals(error.file, "kernel.cu");
  assert(!error.message.includes("name expression"), error.message);
});

testCompiling("the column of an error is that of the source, not of what the preprocessor makes of it", (cuda) => {
  const cases: [line: string, column: number][] = [
    ['extern "C" __global__ void f(int* x)  {  x[0]  =  wrong; } // a comment', 51],
    ["\t#define TWICE(x) ((x) + (x))\n\t__device__ int v() { return wrong + TWICE(1); }", 30],
  ];
  for (const [text, column] of cases) {
    const error = assertThrows(
      () => cuda.compile(text, { architecture: "compute_75", defines: { UNRELATED: 1 } }),
      CompileError,
    );
    assertEquals([error.line, error.column], [text.split("\n").length, column], error.message);
  }
});

testCompiling("a cubin comes with its PTX", (cuda, { search }) => {
  const compiled = compileBy(search() as Compiler, "template <class T> __global__ void f(T* x) { *x = 1; }", {
    nameExpressions: ["f<int>"],
    architecture: "compute_80",
  });
  assertEquals([...compiled.cubin!.subarray(0, 4)], [0x7f, 0x45, 0x4c, 0x46]);
  assertMatch(compiled.ptx, /\.target sm_80/);
  assertEquals(cuda.device(0).loadModule(compiled.ptx).kernelNames, [compiled.loweredNames.get("f<int>")!]);
});

function compileBy(compiler: Compiler, source: string, options: CompileOptions): CompilerOutput {
  const program = checkProgram(source, options);
  return compiler.compile({ ...program, architecture: program.architecture!.replace("compute_", "sm_") });
}

for (
  const [permissions, nvcc, clang] of [
    [["--allow-ffi"], "nvcc may not be run without --allow-run=nvcc", "clang may not be run without --allow-run=clang"],
    [["--allow-ffi", "--allow-run=nvcc"], /^nvcc [\d.]+: _Z1fPi$/, "clang may not be run without --allow-run=clang"],
    [["--allow-ffi", "--allow-run=clang"], "nvcc may not be run without --allow-run=nvcc", /^clang [\d.]+: _Z1fPi$/],
    [["--allow-run=nvcc"], /^nvcc is given .*: FFI is not permitted/, "clang may not be run without --allow-run=clang"],
  ] as const
) {
  const isMissing = (command: string) => testedCompilers.find(({ name }) => name === command)!.skip !== undefined;
  const needed = permissions.flatMap((flag) => /run=(\w+)$/.exec(flag)?.[1] ?? []);
  const skip = jsRuntime !== "deno"
    ? "Deno's permissions"
    : needed.some(isMissing)
    ? `needs ${needed.join(" and ")}`
    : false;
  const long = needed.includes("clang");
  test(`compilers of the PATH run with ${permissions.join(" ")} as far as that goes`, { skip, long }, async () => {
    // As machines with CUDA have it. Deno passes it to a command only if all commands may run.
    const env = { LD_LIBRARY_PATH: "/nowhere" };
    await using child = startScript("children/compile/find_compilers.ts", [], { permissions, env });
    for (const expected of [nvcc, clang]) {
      const line = await child.nextLine() ?? await child.errors();
      if (typeof expected === "string") assertEquals(line, expected);
      else assertMatch(line, expected);
    }
    assertEquals([await child.ended, await child.errors()], [0, ""]);
  });
}

test("without nvcc and clang on the PATH, that is the reason", { skip: shimRefusal() }, async () => {
  await using child = startScript("children/compile/find_compilers.ts", [], {
    permissions: ["--allow-ffi", "--allow-run"],
    env: { PATH: "/nowhere" },
  });
  assertEquals(await child.nextLine() ?? await child.errors(), "no nvcc is on the PATH");
  assertEquals(await child.nextLine(), "no clang is on the PATH");
});

test("if no compiler is found, the error has a line for each, and for each way to get one", () => {
  const compilers = new Compilers(
    ["no nvcc is on the PATH", "no clang is on the PATH"].map((reason) => () => ({ reason })),
  );
  const error = assertThrows(() => compilers.compile("", { architecture: "compute_75" }), Error);
  const [first, nvcc, clang, ...advice] = error.message.split("\n");
  assertEquals(first, "Cannot compile CUDA C++: no compiler was found");
  assertEquals([nvcc, clang], ["- no nvcc is on the PATH", "- no clang is on the PATH"]);
  assertMatch(advice.join("\n"), /^Do one of these:\n- run pip install nvidia-cuda-nvrtc .*(\n- .*){3}$/);
});
