/**
 * Linking of PTX modules for the software device. The answers are those of ptxas 13.0 and nvlink 13.0 for the same PTX,
 * whose messages name the same symbols.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { PtxError } from "../../src/ptx/syntax.ts";
import { compileLinked, LinkError } from "../../src/software/compiler/linking/link_ptx.ts";

const header = ".version 8.0\n.target sm_90\n.address_size 64\n";

/** Links modules that are named a, b, ... */
function link(...modules: readonly string[]) {
  return compileLinked(modules.map((text, index) => ({ name: "abc"[index]!, ptx: header + text })), {});
}

const callF = ".visible .entry k() { call f; ret; }";
const useV = ".visible .entry k() { .reg .u64 %a; mov.u64 %a, v; st.global.u32 [%a], 1; ret; }";
const useVToo = useV.replace("k()", "k2()");
const other = ".visible .entry k2() { ret; }";

/** A call of f with a result and an argument of 32 bits, declared as in the parameter list. */
function callWith(parameter: string, result = ".param .b32 r"): string {
  return `.extern .func (${result}) f(${parameter});
    .visible .entry k() { ${parameter.replace(/ a(?=$|\[)/, " p")}; .param .b32 q; call (q), f, (p); ret; }`;
}
const takes = (parameter: string) => `.visible .func (.param .b32 r) f(${parameter}) { st.param.b32 [r], 3; ret; }`;

/** Modules, and what is wrong with them. */
const refused: Readonly<Record<string, readonly [a: string, b: string, message: string]>> = {
  "a variable of another size": [
    `.extern .global .align 4 .b8 v[8]; ${useV}`,
    ".visible .global .align 4 .b8 v[16];",
    "Size doesn't match for 'v' in 'b', first specified in 'a'",
  ],
  "a variable in another state space": [
    ".extern .const .align 4 .b8 v[16]; .visible .entry k() { .reg .u32 %a; ld.const.u32 %a, [v]; ret; }",
    ".visible .global .align 4 .b8 v[16];",
    "Memory space doesn't match for 'v' in 'b', first specified in 'a'",
  ],
  "a function that is a variable": [
    `.extern .func f(); ${callF}`,
    ".visible .global .align 4 .b8 f[16];",
    "'f' is a variable in 'b', and a function in 'a'",
  ],
  "an argument of another size": [callWith(".param .b32 a"), takes(".param .b64 a"), "Prototype doesn't match for 'f'"],
  "more arguments": [callWith(".param .b32 a"), takes(".param .b32 a, .param .b32 b"), "Prototype doesn't match"],
  "a float for an integer": [
    callWith(".param .b32 a"),
    takes(".param .f32 a"),
    "Prototype doesn't match for 'f' in 'b'",
  ],
  "another result": [callWith(".param .b32 a", ".param .f32 r"), takes(".param .b32 a"), "Prototype doesn't match"],
  "an array for a scalar": [callWith(".param .align 4 .b8 a[4]"), takes(".param .b32 a"), "Prototype doesn't match"],
  "a function that is the other's own": [
    `.extern .func f(); ${callF}`,
    `.func f() { ret; } ${other.replace("ret", "call f; ret")}`,
    "Undefined reference to 'f' in 'a'",
  ],
  "weak variables of other sizes": [
    `.weak .global .align 4 .b8 v[8]; ${useV}`,
    `.weak .global .align 4 .b8 v[16]; ${useVToo}`,
    "Size doesn't match for 'v' in 'b', first specified in 'a'",
  ],
  "a variable that nobody defines nor uses": [
    ".extern .global .u32 nothing; .visible .entry k() { ret; }",
    other,
    "Undefined reference to 'nothing' in 'a'",
  ],
  "shared memory of two modules": [
    ".visible .shared .align 4 .b8 s[8]; .visible .entry k() { st.shared.u32 [s], 1; ret; }",
    ".visible .shared .align 4 .b8 s[8]; .visible .entry k2() { st.shared.u32 [s], 1; ret; }",
    "Multiple definition of 's' in 'b', first defined in 'a'",
  ],
  "two kernels": [other, other, "Multiple definition of 'k2' in 'b', first defined in 'a'"],
  "a function whose address a variable has": [
    ".extern .func f(); .visible .global .u64 pointer = f; .visible .entry k() { ret; }",
    other,
    "Undefined reference to 'f' in 'a'",
  ],
  "a function that is declared without extern": [
    `.visible .func f(); ${callF}`,
    ".visible .func f() { ret; }",
    'definition of "f"',
  ],
};

/** Modules that fit together, with their kernels. */
const linked: Readonly<Record<string, readonly [a: string, b: string, kernels: string]>> = {
  "kernels of their own modules": [".entry k() { ret; }", `.entry k() { trap; } ${other}`, "k k$2 k2"],
  "a module's own kernel beside a visible one": [".entry k() { ret; }", ".visible .entry k() { ret; }", "k$2 k"],
  "a function instead of a weak one": [`.weak .func f() { ret; } ${callF}`, ".visible .func f() { ret; }", "k"],
  "common variables of two sizes": [
    `.common .global .align 4 .b8 v[8]; ${useV}`,
    `.common .global .align 8 .b8 v[16]; ${useVToo}`,
    "k k2",
  ],
  "a common variable and a definition": [
    `.common .global .align 4 .b8 v[8]; ${useV}`,
    ".visible .global .align 8 .b8 v[8];",
    "k",
  ],
  "a function that is declared only": [".extern .func nobody(); .visible .entry k() { ret; }", other, "k k2"],
  "shared memory that another module declares": [
    ".extern .shared .align 4 .b8 s[8]; .visible .entry k() { st.shared.u32 [s], 1; ret; }",
    ".visible .shared .align 4 .b8 s[8]; .visible .entry k2() { st.shared.u32 [s], 1; ret; }",
    "k k2",
  ],
  "integers of another sign": [callWith(".param .s32 a"), takes(".param .u32 a"), "k"],
  "an array of another alignment": [
    callWith(".param .align 8 .b8 a[8]"),
    takes(".param .align 8 .b8 a[8]").replace("align 8", "align 4"),
    "k",
  ],
  "an alias": [`.extern .func f(); ${callF}`, ".visible .func g() { ret; } .visible .func f(); .alias f, g;", "k"],
  "own names like registers, opcodes and parameters": [
    `.global .u32 add = 1; .global .u32 x = 1; .func mov() { ret; }
     .visible .entry k(.param .u64 x2) { .reg .u32 %r; ld.global.u32 %r, [add]; add.u32 %r, %r, 1; call mov; ret; }`,
    `.global .u32 add = 2; .global .u32 x = 2; .global .u32 generic = 3; .global .u64 at = generic(add)+4;
     .func mov() { ret; }
     .visible .entry k2(.param .u64 x) { .reg .u32 %r; .reg .u64 %a; ld.param.u64 %a, [x]; ld.global.u32 %r, [add];
       add.u32 %r, %r, 1; mov.u64 %a, at; call mov; ret; }`,
    "k k2",
  ],
};

test("modules that do not fit together are refused as by nvlink", () => {
  for (const [what, [a, b, message]] of Object.entries(refused)) {
    const error = assertThrows(() => link(a, b), Error, message, what);
    assert(error instanceof LinkError || error instanceof PtxError, what);
  }
});

test("modules that nvlink links are linked", () => {
  for (const [what, [a, b, kernels]] of Object.entries(linked)) {
    const { kernels: compiled, refusals, wasm } = link(a, b);
    assertEquals([...compiled.keys()].join(" "), kernels, what);
    assertEquals([...refusals.values()].map(String), [], what);
    assert(WebAssembly.validate(wasm), what);
  }
});

test("the definition of a weak or common variable is taken, and the largest of common ones", () => {
  const sizes = (a: string, b: string) => {
    const { image } = link(`${a}; .visible .entry k() { ret; }`, `${b};`);
    return [image.variables.get("v")?.byteLength, ...image.initialValues.map(({ value }) => value)];
  };
  assertEquals(sizes(".common .global .b8 v[8]", ".common .global .b8 v[16]"), [16]);
  assertEquals(sizes(".common .global .u32 v", ".visible .global .u32 v = 7"), [4, 7n]);
  assertEquals(sizes(".weak .global .u32 v = 1", ".visible .global .u32 v = 2"), [4, 2n]);
  assertEquals(sizes(".weak .global .u32 v = 1", ".weak .global .u32 v = 2"), [4, 1n]);
  assertEquals(sizes(".extern .global .u32 v", ".visible .global .u32 v = 2"), [4, 2n]);
});

test("errors and lines are those of the module that they are in", () => {
  const ends = "\n.visible .entry k2()\n{\n  rte;\n}";
  assertThrows(() => link(other, ends), PtxError, 'In b: Line 7: cannot compile "rte"');
  assertThrows(() => link(other, "\n.visible .entry ("), PtxError, "In b: Line 5: cannot read");
  // The syntax of a module is wrong before it fits no other.
  assertThrows(() => link(`.extern .func f(); ${callF}`, ends), PtxError, 'In b: Line 7: cannot compile "rte"');
  const { refusals } = link(other, "\n.visible .entry k3()\n{\n  tcgen05.wait::ld.sync.aligned;\n}");
  assert(refusals.get("k3")?.message.startsWith("In b: Line 7: "), refusals.get("k3")?.message);
  const { lineInfo } = link(other, '.file 1 "table.cu"\n.visible .entry k3()\n{\n.loc 1 9 1\n  trap;\n  ret;\n}');
  // The first module has four lines.
  assertEquals([4, 5 + 4, 10 + 4 - 5].map((line) => lineInfo.sourceOf(line)), [
    "line 4 of a",
    "line 5 of b",
    "line 5 of b",
  ]);
  assertEquals(lineInfo.sourceOf(4 + 8), "table.cu:9");
});
