/**
 * Packed integers in a register: pairs of 16 bits, bytes, and the conversions that pack them. PTX ISA, sections 9.7.1
 * and 9.7.9.22.
 *
 * @module
 */
import type { Emit } from "../instruction_form.ts";
import { pushPart } from "./integer_instructions.ts";
import { clampSigned32, repeatable, s32, u32 } from "./integer_lowering.ts";

/** `add.u16x2` and `add.s16x2`. The top bits are added separately, so that no carry crosses halves. */
export const addPairs: Emit = (e, i) => {
  e.assign(i.operands[0], u32, () => {
    const a = repeatable(e, i.operands[1], u32), b = repeatable(e, i.operands[2], u32);
    a().i32(0x7fff_7fff).ops("i32And");
    b().i32(0x7fff_7fff).ops("i32And", "i32Add");
    a();
    b().ops("i32Xor").i32(-0x7fff_8000).ops("i32And", "i32Xor");
  });
};

/** `min` and `max` of pairs. With `.relu`, negative results become 0. */
export function extremeOfPairs(which: "min" | "max"): Emit {
  return (e, i) => {
    const { code } = e;
    const isSigned = i.choices.get("packed") === "s16x2";
    const comparison = which === "min" ? (isSigned ? "i32LtS" : "i32LtU") : isSigned ? "i32GtS" : "i32GtU";
    const halves = [0, 16];
    e.assign(i.operands[0], u32, () => {
      const operands = i.operands.slice(1).map((operand) => repeatable(e, operand, u32));
      for (const first of halves) {
        const [a, b] = operands.map((push) => {
          const part = e.temporary("i32");
          push();
          pushPart(e, { first, bits: 16, isSigned });
          code.set(part);
          return part;
        }) as [number, number];
        code.get(a).get(b).get(a).get(b).ops(comparison, "select");
        if (i.choices.has("relu")) code.set(a).get(a).i32(0).get(a).i32(0).ops("i32GtS", "select");
        if (first === 0) code.i32(0xffff).ops("i32And");
        else code.i32(first).ops("i32Shl", "i32Or");
      }
    });
  };
}

/**
 * `cvt.pack.sat`: clamps two numbers to a few bits each, and packs the first above the second and the bits of a third
 * operand above both.
 */
export const pack: Emit = (e, i) => {
  const { code } = e;
  const to = i.choices.get("to")!;
  const bits = Number(to.slice(1));
  const [minimum, maximum] = to.startsWith("s") ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
  const pushClamped = (index: number) => {
    e.push(i.operands[index], s32);
    clampSigned32(e, minimum, maximum);
    if (minimum < 0) code.i32(2 ** bits - 1).ops("i32And");
  };
  e.assign(i.operands[0], u32, () => {
    pushClamped(1);
    code.i32(bits).ops("i32Shl");
    pushClamped(2);
    code.ops("i32Or");
    if (i.operands[3] === undefined) return;
    e.push(i.operands[3], u32);
    code.i32(2 * bits).ops("i32Shl", "i32Or");
  });
};
