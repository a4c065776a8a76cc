/**
 * `cvt` to and from the types that only it has: two 16-bit or 8-bit floats in a register, and `.tf32`. PTX ISA, section
 * 9.7.9.21.
 *
 * @module
 */
import { eightBitFormats } from "../../helpers/eight_bit_floats.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import {
  clampDouble,
  elementsOf,
  largestHalves,
  narrowToHalf,
  packElements,
  pushElement,
  widenHalf,
} from "./half_instructions.ts";
import type { Emit } from "../instruction_form.ts";
import { type Rounding, roundingCodes } from "../../helpers/rounding_helpers.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";

const bits16 = typeNamed("b16");
const half = typeNamed("f16");
const single = typeNamed("f32");
const singleAsBits = typeNamed("b32");

/** The largest finite `.tf32`. */
const largestTensorFloat = (2 - 2 ** -10) * 2 ** 127;

/** Converts two 32-bit floats to 16 bits. The second becomes the lower half. */
export const convertToPair: Emit = (e, i) => {
  const { element } = elementsOf(i.type);
  const rounding = roundingCodes[i.choices.get("rounding") as Rounding];
  e.assign(i.operands[0], i.type, () =>
    packElements(e, 2, (index) => {
      e.push(i.operands[2 - index], single, { anyNaN: true });
      e.code.ops("f64PromoteF32");
      clampDouble(e, i, largestHalves[element.name]!);
      narrowToHalf(e, element, { rounding });
    }));
};

/** Converts two floats of 32 or 16 bits to 8 bits. */
export const convertToEightBits: Emit = (e, i) => {
  const { code } = e;
  const format = eightBitFormats[i.choices.get("format")!.slice(0, 4) as keyof typeof eightBitFormats];
  const packed = e.temporary("i32");
  const fromPair = i.sourceType.name === "f16x2";
  e.assign(i.operands[0], bits16, () => {
    if (fromPair) {
      e.push(i.operands[1], typeNamed("f16x2"));
      code.set(packed);
    }
    for (const index of [0, 1]) {
      if (fromPair) {
        pushElement(e, packed, { index, count: 2 });
        widenHalf(e, half);
      } else {
        e.push(i.operands[2 - index], single, { anyNaN: true });
      }
      code.ops("f64PromoteF32");
      if (i.choices.has("relu")) code.f64(0).ops("f64Max");
      code.i32(format);
      e.callHelper("encodeEightBits");
      if (index === 1) code.i32(8).ops("i32Shl", "i32Or");
    }
  });
};

/** Converts two 8-bit floats to 16 bits. */
export const convertFromEightBits: Emit = (e, i) => {
  const { code } = e;
  const packed = e.temporary("i32");
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], bits16);
    code.set(packed);
    packElements(e, 2, (index) => {
      code.get(packed);
      if (index === 0) code.i32(8).ops("i32Shl");
      if (i.choices.get("format") === "e5m2x2") code.i32(0xff00).ops("i32And");
      else widenShortExponent(e);
      widenHalf(e, half);
      code.ops("f64PromoteF32");
      if (i.choices.get("format") === "e4m3x2") code.f64(2 ** 8).ops("f64Mul");
      clampDouble(e, i, Infinity);
      narrowToHalf(e, half, { rounding: roundingCodes.rn });
    });
  });
};

/**
 * Converts the upper byte of 16 bits, an `.e4m3`, to the bits of the `.f16` that is 2^-8 times it: an `.e4m3` has one
 * exponent bit less, and a bias of 7 instead of 15.
 */
function widenShortExponent(e: FunctionEmitter): void {
  const { code } = e;
  const bits = e.temporary("i32");
  code.set(bits).get(bits).i32(0x8000).ops("i32And").get(bits).i32(0x7f00).ops("i32And").i32(1).ops("i32ShrU", "i32Or");
  // The only NaN is all ones.
  code.i32(0x7c00).i32(0).get(bits).i32(0x7f00).ops("i32And").i32(0x7f00).ops("i32Eq", "select", "i32Or");
}

/** Converts a 32-bit float to the 19 bits of a `.tf32`, in the upper bits of a word. */
export const convertToTensorFloat: Emit = (e, i) => {
  const { code } = e;
  if (i.choices.get("rounding") === "rna") return roundAwayToTensorFloat(e, i);
  const value = e.temporary("f32"), bits = e.temporary("i32");
  e.assign(i.operands[0], singleAsBits, () => {
    e.push(i.operands[1], single, { anyNaN: true });
    clampSingle(e, i);
    code.tee(value).ops("i32ReinterpretF32").set(bits);
    code.get(bits);
    if (i.choices.get("rounding") === "rn") {
      code.get(bits).i32(13).ops("i32ShrU").i32(1).ops("i32And").i32(0xfff).ops("i32Add", "i32Add");
    }
    code.i32(-0x2000).ops("i32And").i32(0x7fff_e000).get(value).get(value).ops("f32Eq", "select");
  });
};

/**
 * `.rna`, computed with integers. A NaN is truncated instead of rounded. With `.satfinite`, everything that is not
 * finite, including a NaN, loses one in its last place.
 */
function roundAwayToTensorFloat(e: FunctionEmitter, i: ResolvedInstruction): void {
  const { code } = e;
  const infinity = 0x7f80_0000;
  const bits = e.temporary("i32");
  const magnitude = () => code.get(bits).i32(0x7fff_ffff).ops("i32And");
  e.assign(i.operands[0], singleAsBits, () => {
    e.push(i.operands[1], single);
    code.ops("i32ReinterpretF32").tee(bits).get(bits).i32(0x1000).ops("i32Add");
    magnitude().i32(infinity).ops("i32GtU", "select").i32(-0x2000).ops("i32And");
    if (!i.choices.has("satfinite")) return;
    code.set(bits).get(bits).i32(0x2000).i32(0);
    magnitude().i32(infinity).ops("i32GeU", "select", "i32Sub");
  });
}

function clampSingle({ code }: FunctionEmitter, { choices }: ResolvedInstruction): void {
  if (choices.has("relu")) code.f32(0).ops("f32Max");
  if (choices.has("satfinite")) code.f32(largestTensorFloat).ops("f32Min").f32(-largestTensorFloat).ops("f32Max");
}
