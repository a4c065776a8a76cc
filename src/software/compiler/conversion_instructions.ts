/**
 * `cvt`, between all integers and floats of 16, 32 and 64 bits. PTX ISA, section 9.7.9.21.
 *
 * Halves are computed with in 32 or 64 bits, which hold every half, and rounded once. The bits of a NaN are those that an
 * H100 gives.
 *
 * @module
 */
import { canonicalizeNaN, flushSubnormal, saturate } from "./float_instructions.ts";
import type { FunctionEmitter } from "./function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { type ScalarType, typeNamed } from "./scalar_types.ts";
import type { TypedInstruction } from "./typed_instruction.ts";
import type { OpName } from "./wasm_encoder.ts";

const single = typeNamed("f32");
const double = typeNamed("f64");

const roundings: Readonly<Record<string, string>> = { rni: "Nearest", rzi: "Trunc", rmi: "Floor", rpi: "Ceil" };

/** `cvt` */
export const convert: Emit = (e, i) => {
  const from = typeNamed(i.choices.get("from")!);
  const { type: to } = i;
  if (i.choices.has("ftz") && from.name !== "f32" && to.name !== "f32") e.fail(".ftz needs a type of .f32");
  e.assign(i.operands[0], to, () => {
    e.push(i.operands[1], from, { wide: true });
    if (i.choices.has("ftz") && from.name === "f32") flushSubnormal(e);
    if (from.name === "f16") e.callHelper("halfToSingle");
    if (from.kind === "float") {
      if (to.kind === "float") floatToFloat(e, i, from);
      else floatToInteger(e, i, from.name === "f16" ? single : from);
    } else if (to.kind === "float") {
      integerToFloat(e, i, from);
    } else {
      integerToInteger(e, i, from);
    }
  }, { wide: true });
};

/** Takes a half as the single that it has become. */
function floatToFloat(e: FunctionEmitter, i: TypedInstruction, declared: ScalarType): void {
  const { type: to } = i;
  const rounding = i.choices.get("rounding");
  const toInteger = rounding === undefined ? undefined : roundings[rounding];
  if (declared.bits === to.bits) {
    if (rounding !== undefined && toInteger === undefined) e.fail(`.${rounding} does not apply between equal types`);
  } else if (declared.bits < to.bits) {
    if (rounding !== undefined) e.fail(`.${rounding} does not apply: nothing is rounded`);
  } else {
    if (rounding !== "rn") e.fail("only rounding to nearest even, .rn, is supported here");
    if (i.choices.has("ftz") && to.name === "f32") e.fail(".ftz is not supported here");
  }
  const from = declared.name === "f16" ? single : declared;
  const source = e.temporary(from.value);
  e.code.tee(source);
  if (toInteger !== undefined) e.code.ops(`${from.value}${toInteger}` as OpName);
  if (to.name === "f16") return floatToHalf(e, i, from);
  if (from.bits < to.bits) e.code.ops("f64PromoteF32");
  else if (from.bits > to.bits) e.code.ops("f32DemoteF64");
  if (i.choices.has("sat")) saturate(e, to);
  else if (from.bits !== to.bits) convertNaN(e, { source, from, to });
  else if (toInteger !== undefined || i.choices.has("ftz") || declared !== from) canonicalizeNaN(e, to, [source]);
}

function floatToHalf(e: FunctionEmitter, i: TypedInstruction, from: ScalarType): void {
  const { code } = e;
  if (from.value === "f32") {
    const promoted = e.temporary("f64");
    // A NaN of 32 bits becomes 0x7fff, whichever it is: the half whose bits are the top of this one's.
    code.ops("f64PromoteF32").tee(promoted).f64Bits(0x7fff_ffff_ffff_ffffn).get(promoted).get(promoted);
    code.ops("f64Eq", "select");
  }
  if (i.choices.has("sat")) saturate(e, double);
  e.callHelper("doubleToHalf");
}

/** Puts for a NaN on the stack the one it was converted from: its sign and the high bits of its fraction, made quiet. */
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
 * Numbers past the range give its ends. A NaN gives the highest bit alone where either type has 64 bits, else 0, as on
 * an H200.
 */
function floatToInteger(e: FunctionEmitter, i: TypedInstruction, from: ScalarType): void {
  const { code } = e;
  const { type: to } = i;
  const rounding = i.choices.get("rounding");
  const operation = rounding === undefined ? undefined : roundings[rounding];
  if (operation === undefined) e.fail("it must say how to round: .rni, .rzi, .rmi or .rpi");
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

function integerToFloat(e: FunctionEmitter, i: TypedInstruction, from: ScalarType): void {
  // What 64 bits do not hold exactly is more than a half can hold.
  const to = i.type.name === "f16" ? double : i.type;
  if (i.choices.get("rounding") !== "rn") e.fail("only rounding to nearest even, .rn, is supported here");
  const fromName = from.value === "i64" ? "I64" : "I32";
  e.code.ops(`${to.value}Convert${fromName}${from.kind === "signed" ? "S" : "U"}` as OpName);
  if (i.choices.has("sat")) saturate(e, to);
  if (to !== i.type) e.callHelper("doubleToHalf");
}

function integerToInteger(e: FunctionEmitter, i: TypedInstruction, from: ScalarType): void {
  const { code } = e;
  const { type: to } = i;
  if (i.choices.has("rounding")) e.fail("integers are not rounded");
  if (i.choices.has("sat")) {
    const signed = from.kind === "signed";
    if (to.kind === from.kind ? to.bits >= from.bits : !signed && to.bits > from.bits) {
      e.fail(`.sat does not apply: ".${to.name}" has every number of ".${from.name}"`);
    }
    if (from.bits === 64) clamp64(e, { type: to, from: signed });
    else if (to.bits === 64) {
      if (signed && to.kind === "unsigned") clamp32(e, { bits: 32, from: true, to: false });
    } else clamp32(e, { bits: to.bits, from: signed, to: to.kind === "signed" });
  }
  if (from.bits === 64 && to.bits < 64) code.ops("i32WrapI64");
  if (from.bits < 64 && to.bits === 64) code.ops(from.kind === "signed" ? "i64ExtendI32S" : "i64ExtendI32U");
}

/** Clamps the i32 on the stack, read as signed or not, to the range of an integer of some bits. */
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
  // No signed number of 32 bits exceeds the largest unsigned one.
  if (from && maximum > 0x7fff_ffff) code.get(value);
  else code.i32(maximum).get(value).get(value).i32(maximum).ops(beyond, "select");
}

/** Clamps the i64 on the stack, read as signed or not, to the range of a type. */
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
