import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import type { CompileOptions } from "../../src/compile/compile_options.ts";
import { type Compiler, type CompilerInput, Compilers } from "../../src/compile/compilers.ts";
import { compileError } from "../../src/compile/compile_error.ts";
import { test } from "../support/test.ts";

/** A compiler that notes what it is asked for. */
function noting(inputs: CompilerInput[], { cudaVersion = 13000, architectures }: Partial<Compiler> = {}): Compiler {
  return {
    name: "noting 1.0",
    build: "1.0.0",
    cudaVersion,
    architectures: architectures ?? [75, 80, 90, 100],
    compile(input) {
      inputs.push(input);
      return { ptx: ".version 8.0", cubin: undefined, log: "", loweredNames: new Map() };
    },
  };
}

const hopper = { computeCapability: [9, 0], driverVersion: 13000, executesMachineCode: true } as const;

test("the default architecture is the device's own, else the newest that the compiler has", () => {
  const architectureOf = (target: object, compiler: Partial<Compiler> = {}, options: CompileOptions = {}) => {
    const inputs: CompilerInput[] = [];
    new Compilers([() => noting(inputs, compiler)]).compileFor({ ...hopper, ...target }, "", options);
    return inputs[0]!.architecture;
  };
  assertEquals(architectureOf({}), "compute_90a");
  assertEquals(architectureOf({ executesMachineCode: false }), "compute_90a");
  assertEquals(architectureOf({ computeCapability: [8, 0] }), "compute_80");
  assertEquals(architectureOf({ computeCapability: [8, 6] }), "compute_80");
  assertEquals(architectureOf({ computeCapability: [12, 1] }), "compute_100");
  assertEquals(architectureOf({}, {}, { architecture: "compute_80" }), "compute_80");
  // A driver refuses PTX of a newer compiler, but takes its machine code.
  assertEquals(architectureOf({ driverVersion: 12080 }), "sm_90a");
  assertEquals(architectureOf({ driverVersion: 12080, executesMachineCode: false }), "compute_90a");
  assertEquals(architectureOf({ driverVersion: 12080, computeCapability: [8, 6] }), "sm_80");
  assertThrows(
    () => architectureOf({ driverVersion: 12080 }, {}, { architecture: "compute_80" }),
    RangeError,
    "the driver is for CUDA 12.8",
  );
  assertThrows(() => architectureOf({ driverVersion: 12080, computeCapability: [12, 1] }), Error, "12.1");
  assertThrows(() => architectureOf({ computeCapability: [7, 0] }), Error, "compiles for 7.5, 8.0, 9.0, 10.0");
});

test("sources and options that cannot be meant are refused before a compiler is looked for", () => {
  const compilers = new Compilers([() => {
    throw new Error("looked for a compiler");
  }]);
  const cases: [source: unknown, options: object, error: new () => Error, message: string][] = [
    [undefined, {}, TypeError, "a string of CUDA C++"],
    [new Uint8Array(4), {}, TypeError, "TextDecoder"],
    ["kernels/saxpy.cu", {}, TypeError, "read the file first"],
    ["// a comment\n.version 8.0\n.target sm_90", {}, TypeError, "loadModule"],
    ["/* of nvcc */ .version 8.0", {}, TypeError, "loadModule"],
    ["int x;\0", {}, RangeError, "NUL"],
    ["", { architecture: "sm_90" }, RangeError, '"compute_90"'],
    ["", { architecture: "9.0" }, RangeError, '"compute_90"'],
    ["", { arch: "compute_90" }, TypeError, "give architecture"],
    ["", { defines: { "A B": 1 } }, RangeError, "C++ identifier"],
    ["", { defines: { A: null } }, TypeError, "a string, a number or a boolean"],
    ["", { defines: ["A"] }, TypeError, "an object of names and values"],
    ["", { headers: new Map() }, TypeError, "Object.fromEntries"],
    ["", { headers: { "a.h": 5 } }, TypeError, 'the header "a.h"'],
    ["", { flags: "-O3" }, TypeError, "an array of strings"],
    ["", { name: "" }, RangeError, "must not be empty"],
    ["", { name: 'a"b' }, RangeError, "#include"],
    ["", { name: "--version" }, RangeError, "an option"],
    ["", { defines: { A: NaN } }, RangeError, "C++ has no such number"],
    ["", { nameExpressions: ["f<1>\n"] }, RangeError, "a single line"],
    ["", { fusedMultiplyAdd: 1 }, TypeError, "true or false"],
  ];
  for (const [source, options, error, message] of cases) {
    const given = { architecture: "compute_90", ...options };
    assertThrows(() => compilers.compile(source as string, given), error, message, JSON.stringify([source, options]));
  }
  assertThrows(() => compilers.compile("", {}), TypeError, "compute_90");
});

test("a byte order mark is no part of a source or a header", () => {
  const inputs: CompilerInput[] = [];
  const compilers = new Compilers([() => noting(inputs)]);
  compilers.compile("\uFEFFint x;", { architecture: "compute_90", headers: { "a.h": "\uFEFFint y;" } });
  assertEquals([inputs[0]!.source, [...inputs[0]!.headers.values()]], ["int x;", ["int y;"]]);
});

test("what a compiler writes is refused if it is no PTX", () => {
  for (const ptx of ["", "; ModuleID = 'k.cu'", "// .version 8.0\n"]) {
    const compiler = { ...noting([]), compile: () => ({ ptx, cubin: undefined, log: "", loweredNames: new Map() }) };
    const compilers = new Compilers([() => compiler]);
    assertThrows(() => compilers.compile("", { architecture: "compute_90" }), RangeError, "wrote no PTX");
    assertThrows(() => compilers.compileFor(hopper, "", {}), RangeError, "wrote no PTX");
  }
});

test("without a compiler, the error says how to get one, and what else works", () => {
  const none = new Compilers([() => ({ reason: "no libnvrtc.so.13 was found" }), () => ({ reason: "no nvcc" })]);
  const { message } = assertThrows(() => none.compile("", { architecture: "compute_90" }), Error);
  assertMatch(
    message,
    /^- no libnvrtc.so.13 was found\n- no nvcc\nDo one of these:\n.*nvidia-cuda-nvrtc.*\n.*nvcc.*\n.*clang.*\n.*loadModule$/m,
  );
});

test("the messages of each compiler are understood", () => {
  const input = { name: "k.cu", source: "a\nb\n\tfoo bar\n", headers: new Map(), nameExpressions: ["f<int>", "f<x>"] };
  const parsed = (log: string) => {
    const { message, file, line, column } = compileError(log, input);
    return [file, line, column, message];
  };
  assertEquals(parsed('k.cu(3): error: identifier "foo" is undefined\n  \tfoo bar\n  \t^\n\n1 error detected.\n'), [
    "k.cu",
    3,
    2,
    'k.cu:3:2: error: identifier "foo" is undefined\n  3 | \tfoo bar\n    | \t^',
  ]);
  assertEquals(parsed("k.cu:3:6: error: use of undeclared identifier\n    3 | \tfoo bar\n      |  ^\n1 error.\n"), [
    "k.cu",
    3,
    6,
    "k.cu:3:6: error: use of undeclared identifier\n  3 | \tfoo bar\n    | \t    ^",
  ]);
  assertEquals(parsed("/usr/include/x.h(9): catastrophic error #1: no\n  int q\n      ^\n\nk.cu(1): error: two\n"), [
    "/usr/include/x.h",
    9,
    5,
    "/usr/include/x.h:9:5: error: no\n  9 | int q\n    |     ^\n1 more error: see the error's log",
  ]);
  assertEquals(parsed('__nv_name_map(3): error: identifier "x" is undefined\n  #pragma\n   ^\n'), [
    "k.cu",
    0,
    undefined,
    'k.cu: error in the name expression "f<x>": identifier "x" is undefined',
  ]);
  // NVRTC has an order of its own.
  assertEquals(
    parsed('__nv_name_map(2): error: identifier "x" is undefined\n  #pragma nv_mangled_name f<x>\n      ^\n')[3],
    'k.cu: error in the name expression "f<x>": identifier "x" is undefined',
  );
  // Whatever the compiler says, there is an error with it.
  assertEquals(parsed("ptxas fatal : Unresolved extern\n"), [
    "k.cu",
    0,
    undefined,
    "k.cu: ptxas fatal : Unresolved extern",
  ]);
  assertEquals(parsed(""), ["k.cu", 0, undefined, "k.cu: the compiler gives no reason"]);
});

test("columns count the characters of a string, whatever a compiler counts", () => {
  const source = 'f("é🎉日"); x;';
  const input = { name: "k.cu", source, headers: new Map(), nameExpressions: [] };
  const column = source.indexOf("x") + 1;
  const columnOf = (log: string, columnsAreBytes: boolean) => compileError(log, input, { columnsAreBytes }).column;
  const quoted = (column: number) => `k.cu(1): error: no\n  ${source}\n${" ".repeat(column + 1)}^\n\n`;
  assertEquals(columnOf(quoted(new TextEncoder().encode(source.slice(0, column)).length), true), column);
  assertEquals(columnOf(quoted([...source.slice(0, column)].length), false), column);
  const bytes = new TextEncoder().encode(source.slice(0, column)).length;
  assertEquals(columnOf(`k.cu:1:${bytes}: error: no\n    1 | ${source}\n      |    ^\n`, false), column);
  // Behind the end of the line, as where something is missing.
  assertEquals(columnOf(quoted(new TextEncoder().encode(source).length + 1), true), source.length + 1);
});

test("the column of an error is that of the source, whatever the preprocessor has made of the line", () => {
  const cases: [source: string, quoted: string, column: number, expected: number | undefined][] = [
    ["int x = foo;", "int x = foo;", 9, 9],
    // Spaces and comments.
    ["\tint  x /* x */ =  foo; // foo", "        int x = foo;", 17, 20],
    // A macro before the column, behind it, and on both sides.
    ["__global__ void f() { foo; }", "__attribute__((global)) void f() { foo; }", 36, 23],
    ["int x = foo + ONE;", "int x = foo + 1;", 9, 9],
    ["__device__ int f() { return foo + ONE; }", "__attribute__((device)) int f() { return foo + 1; }", 42, 29],
    // In what a macro expands to.
    ["int y = ONE + TWO;", "int y = foo + 2;", 9, undefined],
    ["int y = ONE;", "int y = 1 + 1;", 11, undefined],
  ];
  for (const [source, quoted, at, expected] of cases) {
    const input = { name: "k.cu", source, headers: new Map(), nameExpressions: [] };
    const error = compileError(`k.cu(1): error: wrong\n  ${quoted}\n  ${" ".repeat(at - 1)}^\n\n`, input);
    assertEquals(error.column, expected, source);
  }
});
