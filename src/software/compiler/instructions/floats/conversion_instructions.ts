/**
 * `cvt` between integers and floats of 8 to 64 bits, and to and from types that only `cvt` supports: two 16-bit or
 * 8-bit floats in a register, and `.tf32`. PTX ISA, section 9.7.9.21.
 *
 * Numbers of up to 16 bits are converted by way of 32 or 64 bits, which represent all of them, and rounded once. NaNs
 * have the bits that an H200 gives.
 *
 * @module
 */
import { canonicalizeNaN, flushSubnormal, roundToSingle, saturate } from "./float_instructions.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import {
  clampDouble,
  elementsOf,
  isHalf,
  largestHalves,
  narrowToHalf,
  packElements,
  pushElement,
  widenHalf,
} from "./half_instructions.ts";
import type { Emit } from "../instruction_form.ts";
import { type Rounding, roundingCodes } from "../../helpers/rounding_helpers.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { OpName } from "../../webassembly/opcodes.ts";
import { eightBitFormats } from "../../helpers/half_helpers.ts";

const single = typeNamed("f32");
const double = typeNamed("f64");

const integerRoundings: Readonly<Record<string, string>> = { rni: "Nearest", rzi: "Trunc", rmi: "Floor", rpi: "Ceil" };

/** Emits code for `cvt`. */
export const convert: Emit = (e, i) => {
  const { sourceType: from, type: to } = i;
  if (i.choices.has("ftz") && from.name !== "f32" && to.name !== "f32") e.fail(".ftz needs a type of .f32");
  const isBrain = from.name === "bf16" || to.name === "bf16";
  if (isBrain && i.choices.has("sat")) e.fail(".sat cannot be combined with .bf16");
  // ptxas allows registers that are wider than the instruction's types, except in conversions between 8-bit integers
  // and `.bf16`.
  const wide = !isBrain || (from.bits !== 8 && to.bits !== 8);
  e.assign(i.operands[0], to, () => {
    e.push(cutToSize(i.operands[1], from), from, { wide });
    // In conversions from 32 to 16 bits, an H200 does not flush subnormal numbers.
    if (i.choices.has("ftz") && from.name === "f32" && to.name !== "f16") flushSubnormal(e);
    if (isHalf(from)) widenHalf(e, from);
    if (i.choices.has("ftz") && from.name === "bf16") flushSubnormal(e);
    if (from.kind === "float") {
      if (to.kind === "float") floatToFloat(e, i, from);
      else floatToInteger(e, i, isHalf(from) ? single : from);
    } else if (to.kind === "float") {
      integerToFloat(e, i, from);
    } else {
      integerToInteger(e, i, from);
    }
  }, { wide });
};

/**
 * Truncates an integer literal to the width of a type. A literal operand, like a register, may be wider than the
 * instruction's type.
 */
function cutToSize(operand: ResolvedOperand | undefined, { bits, kind }: ScalarType): ResolvedOperand | undefined {
  if (operand?.kind !== "integer" || kind === "float") return operand;
  const { value } = operand;
  return { ...operand, value: kind === "signed" ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value) };
}

/** Returns the rounding mode of a conversion to a float. */
function roundingOf(e: FunctionEmitter, { choices }: ResolvedInstruction): number {
  const rounding = choices.get("rounding");
  if (rounding === undefined || rounding in integerRoundings) e.fail("it needs a rounding mode: .rn, .rz, .rm or .rp");
  return roundingCodes[rounding as Rounding];
}

/** Whether the type `to` represents all values of the type `from`. */
function holdsAll(to: ScalarType, from: ScalarType): boolean {
  return to.name === from.name || to.bits > from.bits;
}

/** Emits a conversion between floats. A 16-bit operand on the stack has already been widened to 32 bits. */
function floatToFloat(e: FunctionEmitter, i: ResolvedInstruction, declared: ScalarType): void {
  const { code } = e;
  const { type: to } = i;
  const rounding = i.choices.get("rounding");
  const toInteger = rounding === undefined ? undefined : integerRoundings[rounding];
  if (toInteger !== undefined && declared !== to) e.fail(`.${rounding} does not apply between different types`);
  const isExact = holdsAll(to, declared) && (declared.name !== "bf16" || to.name === "bf16");
  if (rounding !== undefined && toInteger === undefined && isExact) {
    e.fail(`.${rounding} does not apply: nothing is rounded`);
  }
  const from = isHalf(declared) ? single : declared;
  const source = e.temporary(from.value);
  code.tee(source);
  if (toInteger !== undefined) code.ops(`${from.value}${toInteger}` as OpName);
  if (isHalf(to)) {
    // For conversions between `.f16` and `.bf16` without a rounding mode, ptxas uses .rn.
    const isRounded = !holdsAll(to, declared) && (rounding !== undefined || declared.bits !== 16);
    const code16 = isRounded ? roundingOf(e, i) : roundingCodes.rn;
    if (from.value === "f32") code.ops("f64PromoteF32");
    if (i.choices.has("sat")) saturate(e, double);
    clampDouble(e, i, largestHalves[to.name]!);
    narrowToHalf(e, to, { rounding: code16, keepsNaN: declared.name === "f64" });
    return;
  }
  if (from.bits < to.bits) code.ops("f64PromoteF32");
  else if (from.bits > to.bits) roundToSingle(e, i, roundingOf(e, i));
  if (i.choices.has("sat")) saturate(e, to);
  else if (from.name === "f32" && to.name === "f64" && i.choices.has("ftz")) widenOneNaN(e);
  else if (from.bits !== to.bits) convertNaN(e, { source, from, to });
  else if (toInteger !== undefined || i.choices.has("ftz") || declared.name === "f16") canonicalizeNaN(e, to, [source]);
}

/**
 * Emits code that replaces a NaN on the stack with the canonical 32-bit NaN, widened to 64 bits. This is the result of
 * a conversion with `.ftz` from 32 to 64 bits.
 */
function widenOneNaN(e: FunctionEmitter): void {
  const value = e.temporary("f64");
  e.code.tee(value).f64Bits(0x7fff_ffff_e000_0000n).get(value).get(value).ops("f64Eq", "select");
}

/**
 * Emits code that replaces a NaN on the stack with a quiet NaN that has the sign and the high fraction bits of the NaN
 * in the local `source`.
 */
function convertNaN(
  e: FunctionEmitter,
  { source, from, to }: { source: number; from: ScalarType; to: ScalarType },
): void {
  const { code } = e;
  const result = e.temporary(to.value);
  const bits = e.temporary("i64");
  const part = (mask: bigint) => code.get(bits).i64(mask).ops("i64And");
  code.tee(result).get(result).ops(`${to.value}Ne` as OpName).if(to.value).get(source);
  if (from.value === "f32") {
    code.ops("i32ReinterpretF32", "i64ExtendI32U").set(bits);
    part(0x8000_0000n).i64(32n).ops("i64Shl");
    part(0x7f_ffffn).i64(29n).ops("i64Shl", "i64Or").i64(0x7ff8_0000_0000_0000n).ops("i64Or", "f64ReinterpretI64");
  } else {
    code.ops("i64ReinterpretF64").set(bits);
    part(1n << 63n).i64(32n).ops("i64ShrU");
    part(0xf_ffff_ffff_ffffn).i64(29n).ops("i64ShrU", "i64Or").i64(0x7fc0_0000n).ops("i64Or", "i32WrapI64");
    code.ops("f32ReinterpretI32");
  }
  code.else().get(result).end();
}

/**
 * Emits a conversion from a float to an integer. Numbers out of range are clamped. A NaN gives an integer with only the
 * highest bit set if either type has 64 bits, else 0, as on an H200.
 */
function floatToInteger(e: FunctionEmitter, i: ResolvedInstruction, from: ScalarType): void {
  const { code } = e;
  const { type: to } = i;
  const rounding = i.choices.get("rounding");
  const operation = rounding === undefined ? undefined : integerRoundings[rounding];
  if (operation === undefined) e.fail("it needs a rounding mode: .rni, .rzi, .rmi or .rpi");
  const fromName = from.value === "f64" ? "F64" : "F32";
  const sign = to.kind === "signed" ? "S" : "U";
  const value = e.temporary(from.value);
  if (operation !== "Trunc") code.ops(`${from.value}${operation}` as OpName);
  code.tee(value).ops(`${to.value}TruncSat${fromName}${sign}` as OpName);
  if (to.bits < 32) clamp32(e, { bits: to.bits, from: to.kind === "signed", to: to.kind === "signed" });
  if (from.bits === 64 || to.bits === 64) {
    if (to.bits === 64) code.i64(1n << 63n);
    else code.i32(2 ** (to.bits - 1));
    code.get(value).get(value).ops(`${from.value}Eq` as OpName, "select");
  }
}

function integerToFloat(e: FunctionEmitter, i: ResolvedInstruction, from: ScalarType): void {
  const { type: to } = i;
  const rounding = roundingOf(e, i);
  const fromName = from.value === "i64" ? "I64" : "I32";
  const sign = from.kind === "signed" ? "S" : "U";
  if (rounding === roundingCodes.rn && !isHalf(to)) {
    e.code.ops(`${to.value}Convert${fromName}${sign}` as OpName);
    if (i.choices.has("sat")) saturate(e, to);
    return;
  }
  // A 32-bit integer is exact in a 64-bit float. A 64-bit integer is rounded to odd if the 64-bit float will be rounded
  // again.
  if (from.bits === 64) pushSumOfHalves(e, sign, to.name === "f64" ? rounding : roundingCodes.odd);
  else e.code.ops(`f64Convert${fromName}${sign}` as OpName);
  if (i.choices.has("sat")) saturate(e, double);
  if (isHalf(to)) narrowToHalf(e, to, { rounding });
  else if (to.name === "f32") roundToSingle(e, i, rounding);
}

/**
 * Emits code that converts an i64 to a 64-bit float with a single rounding: as the sum of its two 32-bit halves, each
 * of which is exact.
 */
function pushSumOfHalves(e: FunctionEmitter, sign: "S" | "U", rounding: number): void {
  const integer = e.temporary("i64");
  e.code.tee(integer).i64(32n).ops(`i64Shr${sign}`, `f64ConvertI64${sign}`).f64(2 ** 32);
  e.code.get(integer).ops("i32WrapI64", "f64ConvertI32U").i32(rounding);
  e.callHelper("fusedMultiplyAdd64");
}

function integerToInteger(e: FunctionEmitter, i: ResolvedInstruction, from: ScalarType): void {
  const { code } = e;
  const { type: to } = i;
  if (i.choices.has("rounding")) e.fail("integers are not rounded");
  if (i.choices.has("sat")) {
    const signed = from.kind === "signed";
    if (to.kind === from.kind ? to.bits >= from.bits : !signed && to.bits > from.bits) {
      e.fail(`.sat does not apply: ".${to.name}" represents every number of ".${from.name}"`);
    }
    if (from.bits === 64) clamp64(e, { type: to, from: signed });
    else if (to.bits === 64) {
      if (signed && to.kind === "unsigned") clamp32(e, { bits: 32, from: true, to: false });
    } else clamp32(e, { bits: to.bits, from: signed, to: to.kind === "signed" });
  }
  if (from.bits === 64 && to.bits < 64) code.ops("i32WrapI64");
  if (from.bits < 64 && to.bits === 64) code.ops(from.kind === "signed" ? "i64ExtendI32S" : "i64ExtendI32U");
}

/**
 * Emits code that clamps the i32 on the stack to the range of a narrower integer. `from` states whether the i32 is
 * signed, and `to` whether the narrower integer is signed.
 */
function clamp32(e: FunctionEmitter, { bits, from, to }: { bits: number; from: boolean; to: boolean }): void {
  const { code } = e;
  const value = e.temporary("i32");
  code.set(value);
  if (from) {
    const minimum = to ? -(2 ** (bits - 1)) : 0;
    code.i32(minimum).get(value).get(value).i32(minimum).ops("i32LtS", "select").set(value);
  }
  const maximum = to ? 2 ** (bits - 1) - 1 : 2 ** bits - 1;
  const beyond = from ? "i32GtS" : "i32GtU";
  // No signed 32-bit number exceeds the maximum of an unsigned 32-bit integer.
  if (from && maximum > 0x7fff_ffff) code.get(value);
  else code.i32(maximum).get(value).get(value).i32(maximum).ops(beyond, "select");
}

/** Emits code that clamps the i64 on the stack, signed or unsigned, to the range of a type. */
function clamp64(e: FunctionEmitter, { type: { bits, kind }, from }: { type: ScalarType; from: boolean }): void {
  const { code } = e;
  const value = e.temporary("i64");
  const signed = kind === "signed";
  code.set(value);
  if (from) {
    const minimum = signed ? -(1n << BigInt(bits - 1)) : 0n;
    code.i64(minimum).get(value).get(value).i64(minimum).ops("i64LtS", "select").set(value);
  }
  const maximum = signed ? (1n << BigInt(bits - 1)) - 1n : (1n << BigInt(bits)) - 1n;
  if (from && maximum >= 1n << 63n) code.get(value);
  else code.i64(maximum).get(value).get(value).i64(maximum).ops(from ? "i64GtS" : "i64GtU", "select");
}

const bits16 = typeNamed("b16");
const half = typeNamed("f16");
const singleAsBits = typeNamed("b32");

/** The largest finite number of type `.tf32`, a 19-bit float. */
const largestTensorFloat = (2 - 2 ** -10) * 2 ** 127;

/** Emits code for `cvt` of two 32-bit floats to two packed 16-bit floats. The second operand becomes the lower half. */
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

/** Emits code for `cvt` of two floats of 32 or 16 bits to two packed 8-bit floats. */
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

/** Emits code for `cvt` of two packed 8-bit floats to two packed 16-bit floats. */
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
 * Emits code that converts an `.e4m3`, in the upper byte of 16 bits, to the bits of an `.f16` that is 2^-8 times its
 * value: an `.e4m3` has one exponent bit less than an `.f16`, and a bias of 7 instead of 15.
 */
function widenShortExponent(e: FunctionEmitter): void {
  const { code } = e;
  const bits = e.temporary("i32");
  code.set(bits).get(bits).i32(0x8000).ops("i32And").get(bits).i32(0x7f00).ops("i32And").i32(1).ops("i32ShrU", "i32Or");
  // In an `.e4m3`, the only NaN has all bits of exponent and fraction set.
  code.i32(0x7c00).i32(0).get(bits).i32(0x7f00).ops("i32And").i32(0x7f00).ops("i32Eq", "select", "i32Or");
}

/** Emits code for `cvt` of a 32-bit float to a `.tf32`, whose 19 bits are the upper bits of the result. */
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
 * Emits code for `cvt.rna` to `.tf32`, computed with integers. A NaN is truncated instead of rounded. With
 * `.satfinite`, the bits of an infinity or NaN are decremented by one in the last place of the `.tf32`.
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
