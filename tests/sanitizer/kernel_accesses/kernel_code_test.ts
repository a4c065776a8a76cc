import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { successors } from "../../../src/ptx/analysis/control_flow_graph.ts";
import { parsePtx } from "../../../src/ptx/parsing/parser.ts";
import { PtxError } from "../../../src/ptx/syntax.ts";
import { kernelCode } from "../../../src/sanitizer/kernel_accesses/kernel_code.ts";

function codeOf(body: string, variables = "") {
  const { functions, variables: declared } = parsePtx(`.version 8.0
.target sm_90
.address_size 64
${variables}
.entry test(.param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
${body}
}`);
  return kernelCode(functions.at(-1)!, { variables: declared, registers: [] });
}

test("a block of a kernel's code ends where its threads may go elsewhere: behind a trap or a breakpoint", () => {
  const flowOf = (body: string) => {
    const { blocks } = codeOf(body).analysis;
    return blocks.map((block) => [block.instructions.length, ...successors(block).map((next) => blocks.indexOf(next))]);
  };
  // Each block: the number of its instructions, and which blocks follow. The first one is empty, the last is the end.
  assertEquals(flowOf("mov.u32 %r0, 1; brkpt; mov.u32 %r1, 2; ret;"), [[0, 1], [1, 2], [0]]);
  assertEquals(flowOf("mov.u32 %r0, 1; trap; mov.u32 %r1, 2; ret;"), [[0, 1], [1, 2], [0]]);
  assertEquals(flowOf("@%p0 trap; mov.u32 %r1, 2; ret;"), [[0, 1], [0, 4, 2], [1, 3], [0, 4], [0]]);
  assertEquals(flowOf("AGAIN: @%p0 bra AGAIN; ret;"), [[0, 1], [0, 2], [0, 2, 3], [0, 4], [0, 5], [0]]);
});

test("an instruction that is not known is taken to set its first operand, unless that is an address", () => {
  const { analysis, registers } = codeOf(
    "tcgen05.frob.b32 %r3, %r1; tcgen05.frob.b32 [%rd0], %r1; st.global.b32 [%rd1], %r3; ret;",
  );
  assertEquals([...registers].map(([{ name }, index]) => [name, index]), [
    ["%r3", 0],
    ["%r1", 1],
    ["%rd0", 2],
    ["%rd1", 3],
  ]);
  assertEquals(
    analysis.instructions.map(({ form, text, operands }) => [text, form.hasResult, operands.map(({ kind }) => kind)]),
    [
      ["tcgen05.frob.b32", true, ["register", "register"]],
      ["tcgen05.frob.b32", false, ["address", "register"]],
      ["st.global.b32", false, ["address", "register"]],
      ["ret", false, []],
    ],
  );
});

test("an operand that is not understood is unknown, and the others of its instruction are known", () => {
  const { analysis, bases } = codeOf(
    "tcgen05.frob.b32 {%r0, %r1, %r2, %r3}, [image, {%r1, %r2}]; mov.u64 %rd0, table; ret;",
    ".extern .func table;",
  );
  assertEquals(analysis.instructions.map(({ operands }) => operands.map(({ kind }) => kind)), [
    ["vector", "unknown"],
    ["register", "variable"],
    [],
  ]);
  const variable = analysis.instructions[1]!.operands[1]!;
  assert(variable.kind === "variable" && bases.has(variable));
});

test("a register is that of the innermost scope, and zeros before its number change nothing", () => {
  const { analysis } = codeOf("mov.u32 %r1, 1; { .reg .b32 %r1; mov.u32 %r1, 2; } mov.u32 %r01, 3; ret;");
  const [outer, inner, again] = analysis.instructions.map(({ operands }) => operands[0]);
  assert(outer === again && outer !== inner && inner?.kind === "register");
  assertThrows(() => codeOf(".reg .b32 %r1; .reg .b32 %r1; ret;"), PtxError, 'cannot declare "%r1" twice');
});
