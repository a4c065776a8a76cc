import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { test } from "node:test";
import { refusalOf, testModule } from "../compiler_device.ts";
import { outcomes } from "./operation_outcomes.ts";
import { videoOperations } from "./video_references.ts";

const byOpcode = Map.groupBy(videoOperations(), ({ text }) => text.split(".", 1)[0]!);

for (const [opcode, operations] of byOpcode) {
  test(`${opcode} does what an H200 does, with random modifiers`, () => {
    for (const operation of operations) {
      const { wrong, compared } = outcomes(operation);
      assert(compared > 100, `${operation.text}: only ${compared} cases are defined`);
      assertEquals(wrong.slice(0, 5), [], operation.text);
    }
  });
}

/** Operations, their operands, and the results of an H200. Those of the manual's pseudocode are others. */
const deviations: readonly (readonly [text: string, operands: readonly number[], result: number])[] = [
  // Sums of more than 32 bits wrap around.
  ["vadd.u32.u32.u32.sat d, a, b", [1, 0xffff_ffff], 0],
  // Negative results become the largest number of a selected destination.
  ["vsub.u32.u32.u32.sat d.b3, a, b, c", [0, 0x1f, 1], 0xff00_0001],
  ["vadd.s32.u32.s32.sat d.b3, a, b, c", [9, 0xd669_4f77, 0x74db_d5c1], 0x7fdb_d5c1],
  // `.h1` takes the upper half of the result.
  ["vadd.u32.u32.u32 d.h1, a.b2, b, c", [0x0029_7f96, 0xe4c6_6a03, 0xcdfe_f75e], 0xe4c6_f75e],
  // The operands of second operations: sums of 32 bits with their sign, other results of 64 bits, compared by type.
  ["vadd.s32.u32.u32.min d, a, b, c", [0x8000_0000, 0x20, 0xff], 0x8000_0020],
  ["vadd.u32.s32.s32.max d, a, b, c", [0x8000_0000, 0x20, 0xff], 0x8000_0020],
  ["vabsdiff.u32.u32.s32.max d, a, b, c", [0xea87_07a5, 0xdead_beef, 0x21], 0x0bd9_48b6],
  ["vmin.u32.u32.s32.min d, a, b, c", [0x0029_7f96, 0xe4c6_6a03, 0xcdfe_f75e], 0xcdfe_f75e],
  ["vshl.u32.u32.u32.clamp.min d, a, b, c", [0x5555_5555, 8, 0x7f], 0x7f],
  ["vshl.u32.u32.u32.sat.clamp.min d, a, b, c", [0x7f80_ff01, 0x10, 0xffff_ffff], 0xffff_ffff],
  ["vset.s32.u32.lt.min d, a.b2, b, c", [0x0029_7f96, 0xe4c6_6a03, 0xcdfe_f75e], 0xcdfe_f75e],
  // Shifts are clamped to 32 bits, not to those of a selected destination.
  ["vshl.s32.u32.u32.sat.clamp d.b2, a.b1, b.h0, c", [0x0002_8c3f, 0, 0x7fff_fffe], 0x7f8c_fffe],
  // Whole factors and third sources of `vmad` are signed, and unsigned results are shifted as 64 bits.
  ["vmad.u32.u32.u32.sat d, a, b, c", [0x8000_0000, 0x20, 0xff], 0],
  ["vmad.u32.u32.u32.shr7 d, a, b, c", [0x8000_0000, 0x20, 0xff], 0xe000_0001],
  ["vmad.u32.u32.u32.sat.shr7 d, a, b, c", [0x8000_0000, 0x20, 0xff], 0xffff_ffff],
  ["vmad.s32.u32.s32.sat d, a, b, c", [0xffff_fffe, 0x8000, 3], 0xffff_0003],
];

test("scalar video instructions deviate from the manual as on an H200", () => {
  for (const [text, operands, result] of deviations) {
    const given = operands.map(BigInt);
    const { wrong, compared } = outcomes({
      text,
      types: ["b32", ...operands.map(() => "b32")],
      cases: [given],
      reference: (...others) => others.every((operand, at) => operand === given[at]) ? BigInt(result) : undefined,
    });
    assert(compared > 0, text);
    assertEquals(wrong, [], text);
  }
});

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
