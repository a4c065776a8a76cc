/**
 * Instructions on single bits and on bit fields. PTX ISA, section 9.7.1.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { constant, extendAmount, inType } from "../../webassembly/opcodes.ts";
import { constantOf, repeatable, s32, u32 } from "./integer_instructions.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";

/** Returns the lowering of `popc` or `clz`, whose result always has 32 bits. */
export function countBits(operation: "Popcnt" | "Clz"): Emit {
  return (e, i) =>
    e.assign(i.operands[0], u32, () => {
      e.push(i.operands[1], i.type);
      e.code.ops(inType(i.type, operation));
      if (i.type.value === "i64") e.code.ops("i32WrapI64");
    });
}

/** Emits code for `brev`, which reverses the bits by swapping increasingly large groups. */
export const reverseBits: Emit = (e, i) => {
  const { code } = e;
  const { type } = i;
  const value = e.temporary(type.value);
  const masks = [0x5555_5555_5555_5555n, 0x3333_3333_3333_3333n, 0x0f0f_0f0f_0f0f_0f0fn, 0x00ff_00ff_00ff_00ffn];
  e.assign(i.operands[0], type, () => {
    e.push(i.operands[1], type);
    code.set(value);
    masks.forEach((mask, index) => {
      const distance = 1 << index;
      constant(code.get(value), type, distance).ops(inType(type, "ShrU"));
      constant(code, type, mask).ops(inType(type, "And")).get(value);
      constant(code, type, mask).ops(inType(type, "And"));
      constant(code, type, distance).ops(inType(type, "Shl"), inType(type, "Or")).set(value);
    });
    constant(code.get(value), type, 16).ops(inType(type, "Rotl"));
    if (type.value === "i64") {
      // The rotation by 16 bits has moved the outer 16-bit quarters to the middle. Only the 32-bit halves remain to be
      // swapped.
      code.set(value).get(value).i64(0xffff_0000_ffff_0000n).ops("i64And").i64(32n).ops("i64Rotl");
      code.get(value).i64(0x0000_ffff_0000_ffffn).ops("i64And", "i64Or");
    }
  });
};

/**
 * Emits code for `bfind`, which finds the position of the highest bit that differs from the sign, or -1 if there is
 * none.
 */
export const findHighestBit: Emit = (e, i) => {
  const { code } = e;
  const { type } = i;
  e.assign(i.operands[0], u32, () => {
    const value = repeatable(e, i.operands[1], type);
    const zeros = e.temporary("i32");
    if (!i.choices.has("shiftamt")) code.i32(type.bits - 1);
    value();
    if (type.kind === "signed") {
      value();
      constant(code, type, type.bits - 1).ops(inType(type, "ShrS"), inType(type, "Xor"));
    }
    code.ops(inType(type, "Clz"));
    if (type.value === "i64") code.ops("i32WrapI64");
    if (i.choices.has("shiftamt")) code.tee(zeros).i32(-1).get(zeros).i32(type.bits).ops("i32Ne", "select");
    else code.ops("i32Sub");
  });
};

/**
 * Emits code that pushes the position or the length of a bit field. According to the manual, both are reduced modulo
 * 256. An H200 does this only for 32-bit types; for 64-bit types, all values past the top bit are equivalent.
 */
function pushFieldBound(e: FunctionEmitter, i: ResolvedInstruction, operand: ResolvedOperand | undefined): void {
  e.push(operand, u32);
  if (i.type.bits === 32) {
    e.code.i32(0xff).ops("i32And");
  } else {
    const bound = e.temporary("i32");
    e.code.set(bound).i32(0xff).get(bound).get(bound).i32(0xff).ops("i32GtU", "select");
  }
}

/**
 * Returns the value that {@linkcode pushFieldBound} pushes, limited to the width of the type. Undefined if the operand
 * is not a literal.
 */
function knownFieldBound(i: ResolvedInstruction, operand: ResolvedOperand | undefined): number | undefined {
  const value = constantOf(operand);
  if (value === undefined) return undefined;
  const bound = BigInt.asUintN(i.type.bits === 32 ? 8 : 32, value);
  return bound > i.type.bits ? i.type.bits : Number(bound);
}

/**
 * Emits code for `bfe`, which extracts a bit field. Bits of the field past the top of the operand are zeros, or copies
 * of the sign.
 */
export const extractBits: Emit = (e, i) => {
  const position = knownFieldBound(i, i.operands[2]), length = knownFieldBound(i, i.operands[3]);
  e.assign(i.operands[0], i.type, () => {
    if (position === undefined || length === undefined) extractUnknownBits(e, i);
    else extractKnownBits(e, i, { position, length });
  });
};

function extractKnownBits(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { position, length }: { position: number; length: number },
): void {
  const { code } = e;
  const { type } = i;
  const signed = type.kind === "signed";
  if (length === 0 || (position === type.bits && !signed)) {
    constant(code, type, 0);
    return;
  }
  e.push(i.operands[1], type);
  const first = Math.min(position, type.bits - 1);
  const above = Math.max(0, type.bits - first - length);
  if (above === 0) {
    if (first > 0) constant(code, type, first).ops(inType(type, signed ? "ShrS" : "ShrU"));
  } else if (signed) {
    constant(code, type, above).ops(inType(type, "Shl"));
    constant(code, type, type.bits - length).ops(inType(type, "ShrS"));
  } else {
    if (first > 0) constant(code, type, first).ops(inType(type, "ShrU"));
    constant(code, type, (1n << BigInt(length)) - 1n).ops(inType(type, "And"));
  }
}

/**
 * Emits code that extracts a bit field whose position or length is not a literal, by shifting it to the top and back
 * down. A field that extends past the top bit is shifted up by fewer bits.
 */
function extractUnknownBits(e: FunctionEmitter, i: ResolvedInstruction): void {
  const { code } = e;
  const { type } = i;
  const position = e.temporary("i32"), length = e.temporary("i32"), value = e.temporary(type.value);
  const signed = type.kind === "signed";
  e.push(i.operands[1], type);
  code.set(value);
  pushFieldBound(e, i, i.operands[2]);
  code.set(position);
  pushFieldBound(e, i, i.operands[3]);
  code.tee(length).ops("i32Eqz").if(type.value);
  constant(code, type, 0).else();
  // Shift the value down to the start of the field. Past the top, there are only copies of the sign.
  if (signed) {
    code.i32(type.bits - 1).get(position).get(position).i32(type.bits - 1).ops("i32GtU", "select").set(position);
    code.get(value).get(position);
    extendAmount(code, type).ops(inType(type, "ShrS")).set(value);
  } else {
    code.get(value).get(position);
    extendAmount(code, type).ops(inType(type, "ShrU"));
    constant(code, type, 0).get(position).i32(type.bits).ops("i32LtU", "select").set(value);
  }
  code.get(length).i32(type.bits).ops("i32GeU").if(type.value).get(value).else();
  code.get(value).i32(type.bits).get(length).ops("i32Sub").tee(length);
  extendAmount(code, type).ops(inType(type, "Shl")).get(length);
  extendAmount(code, type).ops(inType(type, signed ? "ShrS" : "ShrU")).end().end();
}

/** Emits code for `bfi`, which inserts a field of one number into another. */
export const insertBits: Emit = (e, i) => {
  const position = knownFieldBound(i, i.operands[3]), length = knownFieldBound(i, i.operands[4]);
  e.assign(i.operands[0], i.type, () => {
    if (position === undefined || length === undefined) insertUnknownBits(e, i);
    else insertKnownBits(e, i, { position, length });
  });
};

function insertKnownBits(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { position, length }: { position: number; length: number },
): void {
  const { code } = e;
  const { type } = i;
  const [, field, into] = i.operands;
  if (length === 0 || position === type.bits) return e.push(into, type);
  const end = Math.min(position + length, type.bits);
  const mask = (1n << BigInt(end)) - (1n << BigInt(position));
  e.push(field, type);
  if (position > 0) constant(code, type, position).ops(inType(type, "Shl"));
  if (end < type.bits) constant(code, type, mask).ops(inType(type, "And"));
  if (position === 0 && end === type.bits) return;
  e.push(into, type);
  constant(code, type, ~mask).ops(inType(type, "And"), inType(type, "Or"));
}

function insertUnknownBits(e: FunctionEmitter, i: ResolvedInstruction): void {
  const { code } = e;
  const { type } = i;
  const position = e.temporary("i32"), length = e.temporary("i32"), mask = e.temporary(type.value);
  pushFieldBound(e, i, i.operands[3]);
  code.set(position);
  pushFieldBound(e, i, i.operands[4]);
  code.set(length);
  // The mask is (1 << length) - 1, or all ones, shifted left to the position. It is 0 if the position is past the top
  // bit.
  constant(code, type, 1).get(length);
  extendAmount(code, type).ops(inType(type, "Shl"));
  constant(code, type, 1).ops(inType(type, "Sub"));
  constant(code, type, -1).get(length).i32(type.bits).ops("i32LtU", "select").get(position);
  extendAmount(code, type).ops(inType(type, "Shl"));
  constant(code, type, 0).get(position).i32(type.bits).ops("i32LtU", "select").set(mask);
  e.push(i.operands[1], type);
  code.get(position);
  extendAmount(code, type).ops(inType(type, "Shl")).get(mask).ops(inType(type, "And"));
  e.push(i.operands[2], type);
  constant(code.get(mask), type, -1).ops(inType(type, "Xor"), inType(type, "And"), inType(type, "Or"));
}

/**
 * Emits code that pushes an operand as an i64: clamped to at most 32 or, with `.wrap`, reduced to its low five bits.
 */
function pushBitCount(e: FunctionEmitter, i: ResolvedInstruction, operand: ResolvedOperand | undefined): void {
  const { code } = e;
  e.push(operand, u32);
  if (i.choices.get("mode") === "wrap") {
    code.i32(31).ops("i32And");
  } else {
    const amount = e.temporary("i32");
    code.set(amount).get(amount).i32(32).get(amount).i32(32).ops("i32LtU", "select");
  }
  code.ops("i64ExtendI32U");
}

/**
 * Emits code for `bmsk`, which creates a mask with a given number of ones that begin at a given position. The shift has
 * 64 bits, so that ones past the top are dropped.
 */
export const makeMask: Emit = (e, i) => {
  e.assign(i.operands[0], u32, () => {
    e.code.i64(1n);
    pushBitCount(e, i, i.operands[2]);
    e.code.ops("i64Shl").i64(1n).ops("i64Sub");
    pushBitCount(e, i, i.operands[1]);
    e.code.ops("i64Shl", "i32WrapI64");
  });
};

/** Emits code for `szext`, which sign- or zero-extends the low bits of a number. A width of zero gives 0. */
export const extendLowBits: Emit = (e, i) => {
  const { code } = e;
  e.assign(i.operands[0], i.type, () => {
    const above = e.temporary("i64");
    e.push(i.operands[1], i.type);
    code.ops("i64ExtendI32U").i64(32n);
    pushBitCount(e, i, i.operands[2]);
    // The first shift has 64 bits, so that the result is 0 if no bits are kept.
    code.ops("i64Sub").tee(above).ops("i64Shl", "i32WrapI64").get(above).ops("i32WrapI64");
    code.ops(i.type.kind === "signed" ? "i32ShrS" : "i32ShrU");
  });
};

/**
 * Emits code for `fns`, which searches upward or downward from a position for the n-th set bit. The result is the bit's
 * position, or -1 if there is no such bit. The most negative n gives 0, as on an H200.
 */
export const findNthSet: Emit = (e, i) => {
  const { code } = e;
  const [bits, count] = [e.temporary("i32"), e.temporary("i32")];
  const mask = repeatable(e, i.operands[1], u32);
  const base = repeatable(e, i.operands[2], u32);
  const offset = repeatable(e, i.operands[3], s32);
  /**
   * Emits code that clears `count` set bits of `bits` one by one, or all of them if there are fewer. `pushRest` emits
   * the code that pushes `bits` with the next set bit cleared.
   */
  const dropBits = (pushRest: () => void) => {
    code.loop().get(count).i32(0).ops("i32GtS").get(bits).i32(0).ops("i32Ne", "i32And").if();
    pushRest();
    code.set(bits).get(count).i32(1).ops("i32Sub").set(count).br(1).end().end();
  };
  e.assign(i.operands[0], u32, () => {
    offset().i32(-0x8000_0000).ops("i32Eq").if("i32").i32(0).else();
    base().i32(31).ops("i32GtU").if("i32").i32(-1).else();
    offset().ops("i32Eqz").if("i32");
    base().i32(-1);
    mask();
    base().ops("i32ShrU").i32(1).ops("i32And", "select").else();
    offset().i32(0).ops("i32GtS").if("i32");
    mask().i32(-1);
    base().ops("i32Shl", "i32And").set(bits);
    offset().i32(1).ops("i32Sub").set(count);
    dropBits(() => code.get(bits).get(bits).i32(1).ops("i32Sub", "i32And"));
    code.get(bits).ops("i32Ctz").i32(-1).get(bits).ops("select").else();
    mask().i32(-2);
    base().ops("i32Shl").i32(-1).ops("i32Xor", "i32And").set(bits).i32(-1);
    offset().ops("i32Sub").set(count);
    dropBits(() => code.get(bits).i32(-0x8000_0000).get(bits).ops("i32Clz", "i32ShrU", "i32Xor"));
    code.i32(31).get(bits).ops("i32Clz", "i32Sub").end().end().end().end();
  });
};
