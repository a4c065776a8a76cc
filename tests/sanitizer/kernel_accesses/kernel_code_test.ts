import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { parsePtx } from "../../../src/ptx/parsing/parser.ts";
import { PtxError } from "../../../src/ptx/syntax.ts";
import { kernelCode } from "../../../src/sanitizer/kernel_accesses/kernel_code.ts";

function codeOf(body: string) {
  const { functions, variables } = parsePtx(`.version 8.0
.target sm_90
.address_size 64
.entry test(.param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
${body}
}`);
  return kernelCode(functions[0]!, variables);
}

test("a block of a kernel's code ends where its threads may go elsewhere: behind a trap, and not behind a breakpoint", () => {
  const nextOf = (body: string) => codeOf(body).blocks.map(({ next }) => next);
  assertEquals(nextOf("mov.u32 %r0, 1; brkpt; mov.u32 %r1, 2; ret;"), [[2], [2]]);
  assertEquals(nextOf("mov.u32 %r0, 1; trap; mov.u32 %r1, 2; ret;"), [[3], [3], [3]]);
  assertEquals(nextOf("@%p0 trap; mov.u32 %r1, 2; ret;"), [[3, 1], [3], [3]]);
  assertEquals(nextOf("AGAIN: @%p0 bra AGAIN; ret;"), [[1], [1, 2], [4], [4]]);
});

test("an instruction that is not known is taken to write its first operand", () => {
  const { blocks, registerBits } = codeOf("wgmma.frob.b32 %r3, %r1; st.global.b32 [%rd1], %r3; ret;");
  assertEquals(registerBits, [32, 32, 64]);
  assertEquals(blocks[0]!.instructions.map(({ row, operands }) => [row?.opcode, operands.map(({ kind }) => kind)]), [
    [undefined, ["register", "register"]],
    ["st", ["address", "register"]],
  ]);
});

test("a register is that of the innermost scope, and zeros before its number change nothing", () => {
  const { blocks } = codeOf("mov.u32 %r1, 1; { .reg .b32 %r1; mov.u32 %r1, 2; } mov.u32 %r01, 3; ret;");
  const [outer, inner, again] = blocks[0]!.instructions.map(({ operands }) => operands[0]);
  assertEquals(outer, again);
  assertEquals(inner, { kind: "register", register: 1 });
  assertThrows(() => codeOf(".reg .b32 %r1; .reg .b32 %r1; ret;"), PtxError, 'cannot declare "%r1" twice');
});
