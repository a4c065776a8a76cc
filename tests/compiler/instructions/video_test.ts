import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { test } from "node:test";
import { refusalOf, testModule } from "../compiler_device.ts";
import { outcomes } from "./operation_outcomes.ts";
import { videoOperations } from "./video_references.ts";

const byOpcode = Map.groupBy(videoOperations(), ({ text }) => text.split(".", 1)[0]!);

for (const [opcode, operations] of byOpcode) {
  test(`${opcode} does what the manual's pseudocode does, with random modifiers`, () => {
    for (const operation of operations) {
      const { wrong, compared } = outcomes(operation);
      assert(compared > 100, `${operation.text}: only ${compared} cases are defined`);
      assertEquals(wrong.slice(0, 5), [], operation.text);
    }
  });
}

test("video instructions that ptxas refuses are refused", () => {
  for (
    const [body, reason] of [
      ["vadd.s32.s32.s32.add %r1.b0, %r2, %r3, %r4;", "cannot have both a selected destination and a second operation"],
      ["vadd.s32.s32.s32 %r1.b0, %r2, %r3;", "it needs a third source"],
      ["vadd.s32.s32.s32.max %r1, %r2, %r3;", "it needs a third source"],
      ["vadd.s32.s32.s32 %r1, -%r2, %r3;", "its operands cannot be negated"],
      ["vadd.s32.s32.s32 %r1, %r2.b4, %r3;", '".b4" is no byte and no half'],
      ["vadd.s32.s32.s32 %r1, %r2.h10, %r3;", '".h10" is no byte and no half'],
      ["vadd.s32.s32.s32 %rd1, %r2, %r3;", '%rd1 is ".b64"'],
      ["vshl.u32.u32.u32 %r1, %r2, %r3;", "a modifier or a type is missing"],
      ["vset.s32.s32.s32.lt %r1, %r2, %r3;", '".s32" is not supported here'],
      ["vset.s32.u32.lo %r1, %r2, %r3;", 'the modifier ".lo" is not known here'],
      ["vmad.s32.s32.s32 %r1, -%r2, %r3, -%r4;", "either the product or the third source can be negated"],
      ["vmad.s32.u32.u32.po %r1, -%r2, %r3, %r4;", ".po cannot be combined with negated sources"],
      ["vmad.s32.u32.u32 %r1.b0, %r2, %r3, %r4;", "only its factors can be parts"],
      ["vadd2.u32.u32.u32 %r1.h01, %r2, %r3, %r4;", '".h01" does not fit'],
      ["vadd4.u32.u32.u32 %r1, %r2.b32, %r3, %r4;", '".b32" does not fit'],
      ["vadd2.u32.u32.u32 %r1, %r2.h14, %r3, %r4;", '".h14" does not fit'],
      ["vadd2.u32.u32.u32 %r1, %r2, %r3;", "it has 3 operands"],
      ["add.u32 %r1, %r2.b0, %r3;", "only vectors and special registers"],
      ["add.u32 %r1, -%r2, %r3;", "it cannot be negated"],
    ] as const
  ) assertStringIncludes(refusalOf(testModule(body)).error.message, reason, body);
});
