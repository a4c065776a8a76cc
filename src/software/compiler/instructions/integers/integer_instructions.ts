/**
 * Integer arithmetic, and code shared by all integer instructions, such as for operands that are read more than once.
 * PTX ISA, section 9.7.1.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";
import { constant, type IntegerOperation, inType } from "../../webassembly/opcodes.ts";

/** The type of shift amounts, positions and counts. */
export const u32: ScalarType = typeNamed("u32");
/** The type of signed 32-bit integers. */
export const s32: ScalarType = typeNamed("s32");

/** Returns the value of an integer literal. Undefined for any other operand. */
export function constantOf(operand: ResolvedOperand | undefined): bigint | undefined {
  return operand?.kind === "integer" ? operand.value : undefined;
}

/** Whether two operands are known to have the same value. */
export function isSameOperand(a: ResolvedOperand | undefined, b: ResolvedOperand | undefined): boolean {
  return a?.kind === "register" ? a === b : a?.kind === "integer" && b?.kind === "integer" && a.value === b.value;
}

/**
 * Returns a function that can push an operand several times. The returned function pushes a register or a literal
 * directly. For any other operand, `repeatable` emits code that stores the operand's value in a local, and the returned
 * function pushes the local.
 */
export function repeatable(
  e: FunctionEmitter,
  operand: ResolvedOperand | undefined,
  type: ScalarType,
): () => CodeWriter {
  if (operand?.kind === "register" || operand?.kind === "integer") {
    return () => {
      e.push(operand, type);
      return e.code;
    };
  }
  const local = e.temporary(type.value);
  e.push(operand, type);
  e.code.set(local);
  return () => e.code.get(local);
}

/**
 * Returns the lowering of an instruction whose result `emit` computes from the other operands. All operands have the
 * instruction's type.
 */
export function fromOperands(emit: (e: FunctionEmitter, i: ResolvedInstruction) => void): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      for (const operand of i.operands.slice(1)) e.push(operand, i.type);
      emit(e, i);
    });
}

/** Emits code that clamps the i64 on the stack as a signed number. */
export function clampSigned64(e: FunctionEmitter, minimum: bigint, maximum: bigint): void {
  const { code } = e;
  const value = e.temporary("i64");
  code.set(value).i64(minimum).get(value).get(value).i64(minimum).ops("i64LtS", "select").set(value);
  code.i64(maximum).get(value).get(value).i64(maximum).ops("i64GtS", "select");
}

/** Emits code that clamps the i32 on the stack as a signed number. */
export function clampSigned32(e: FunctionEmitter, minimum: number, maximum: number): void {
  const { code } = e;
  const value = e.temporary("i32");
  code.set(value).i32(minimum).get(value).get(value).i32(minimum).ops("i32LtS", "select").set(value);
  code.i32(maximum).get(value).get(value).i32(maximum).ops("i32GtS", "select");
}

const smallestS32 = -0x8000_0000n;
const largestS32 = 0x7fff_ffffn;

/** Returns the lowering of an operation that is a single WebAssembly instruction. */
export function integer(operation: IntegerOperation): Emit {
  return fromOperands((e, i) => e.code.ops(inType(i.type, operation)));
}

/** Returns the lowering of `add.sat.s32` and `sub.sat.s32`. */
export function saturating(operation: "i64Add" | "i64Sub"): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      for (const operand of i.operands.slice(1)) pushWide(e, i.type, operand);
      e.code.ops(operation);
      clampSigned64(e, smallestS32, largestS32);
      e.code.ops("i32WrapI64");
    });
}

/** Emits code that pushes the high half of the product of two operands. */
export function pushHighProduct(
  e: FunctionEmitter,
  type: ScalarType,
  [a, b]: readonly (ResolvedOperand | undefined)[],
): void {
  const { code } = e;
  if (type.bits === 16) {
    e.push(a, type);
    e.push(b, type);
    code.ops("i32Mul").i32(16).ops(type.kind === "signed" ? "i32ShrS" : "i32ShrU");
  } else if (type.bits === 32) {
    pushWide(e, type, a);
    pushWide(e, type, b);
    code.ops("i64Mul").i64(32n).ops("i64ShrU", "i32WrapI64");
  } else {
    pushHighProduct64(e, type, [a, b]);
  }
}

/**
 * Emits code that pushes the high half of a 64-bit product, computed as the sum of four products of 32-bit halves. To
 * obtain a signed product from the unsigned one, for each negative factor, the other factor is subtracted.
 */
function pushHighProduct64(
  e: FunctionEmitter,
  type: ScalarType,
  [a, b]: readonly (ResolvedOperand | undefined)[],
): void {
  const { code } = e;
  const x = repeatable(e, a, type), y = repeatable(e, b, type);
  const carry = e.temporary("i64"), middle = e.temporary("i64");
  const low = (push: typeof x) => push().i64(0xffff_ffffn).ops("i64And");
  const high = (push: typeof x) => push().i64(32n).ops("i64ShrU");
  low(x);
  low(y).ops("i64Mul").i64(32n).ops("i64ShrU");
  high(x);
  low(y).ops("i64Mul", "i64Add").set(carry);
  code.get(carry).i64(0xffff_ffffn).ops("i64And");
  low(x);
  high(y).ops("i64Mul", "i64Add").set(middle);
  high(x);
  high(y).ops("i64Mul").get(carry).i64(32n).ops("i64ShrU", "i64Add").get(middle).i64(32n).ops("i64ShrU", "i64Add");
  if (type.kind === "signed") {
    x().i64(63n).ops("i64ShrS");
    y().ops("i64And", "i64Sub");
    y().i64(63n).ops("i64ShrS");
    x().ops("i64And", "i64Sub");
  }
}

/** Emits code that pushes an operand of 16 or 32 bits, extended to twice its width. */
function pushWide(e: FunctionEmitter, type: ScalarType, operand: ResolvedOperand | undefined): void {
  e.push(operand, type);
  if (type.bits === 32) e.code.ops(type.kind === "signed" ? "i64ExtendI32S" : "i64ExtendI32U");
}

function twiceAsWide(type: ScalarType): ScalarType {
  return typeNamed(`${type.kind === "signed" ? "s" : "u"}${type.bits * 2}`);
}

/** Emits code for `mul.hi`, and for `mad.hi`, which adds a third operand. */
export const multiplyHigh: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    pushHighProduct(e, i.type, i.operands.slice(1, 3));
    if (i.choices.has("sat")) addSaturating(e, i);
    else addThird(e, i, i.type);
  });
};

/** Emits code for `mad.lo` and `mul.lo`. */
export const multiplyLow: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], i.type);
    e.push(i.operands[2], i.type);
    e.code.ops(inType(i.type, "Mul"));
    addThird(e, i, i.type);
  });
};

/** Emits code for `mul.wide`, and for `mad.wide`, which adds a third operand. */
export const multiplyWide: Emit = (e, i) => {
  const wide = twiceAsWide(i.type);
  e.assign(i.operands[0], wide, () => {
    pushWide(e, i.type, i.operands[1]);
    pushWide(e, i.type, i.operands[2]);
    e.code.ops(inType(wide, "Mul"));
    addThird(e, i, wide);
  });
};

/**
 * Emits code for `mul24` and `mad24`, which compute the low or high 32 bits of the 48-bit product of the operands' low
 * 24 bits.
 */
export const multiply24: Emit = (e, i) => {
  const { code } = e;
  e.assign(i.operands[0], i.type, () => {
    for (const operand of i.operands.slice(1, 3)) {
      e.push(operand, i.type);
      if (i.type.kind === "signed") code.i32(8).ops("i32Shl").i32(8).ops("i32ShrS");
      else code.i32(0xff_ffff).ops("i32And");
      if (i.choices.has("hi")) code.ops(i.type.kind === "signed" ? "i64ExtendI32S" : "i64ExtendI32U");
    }
    if (i.choices.has("hi")) code.ops("i64Mul").i64(16n).ops("i64ShrU", "i32WrapI64");
    else code.ops("i32Mul");
    if (i.choices.has("sat")) addSaturating(e, i);
    else addThird(e, i, i.type);
  });
};

/** Emits code that adds the third source operand, if there is one, to the value on the stack. */
function addThird(e: FunctionEmitter, i: ResolvedInstruction, type: ScalarType): void {
  if (i.operands[3] === undefined) return;
  e.push(i.operands[3], type);
  e.code.ops(inType(type, "Add"));
}

/**
 * Emits code that adds the third source operand to the i32 on the stack, and clamps the sum to the range of an `.s32`.
 */
function addSaturating(e: FunctionEmitter, i: ResolvedInstruction): void {
  e.code.ops("i64ExtendI32S");
  pushWide(e, s32, i.operands[3]);
  e.code.ops("i64Add");
  clampSigned64(e, smallestS32, largestS32);
  e.code.ops("i32WrapI64");
}

/**
 * Returns the lowering of `div` or `rem`. The result of a division by zero, which PTX leaves unspecified, has all bits
 * set, as on an H200. Dividing the smallest number by -1 wraps around.
 */
export function divide(part: "quotient" | "remainder"): Emit {
  const operations = part === "quotient" ? ["DivS", "DivU"] as const : ["RemS", "RemU"] as const;
  return (e, i) => {
    const { code } = e;
    const { type } = i;
    const signed = type.kind === "signed";
    const operation = inType(type, operations[signed ? 0 : 1]);
    const known = constantOf(i.operands[2]);
    const divideBy = known === undefined ? undefined : signed ? BigInt.asIntN(type.bits, known) : known;
    e.assign(i.operands[0], type, () => {
      if (divideBy !== undefined && divideBy !== 0n && !(signed && divideBy === -1n)) {
        e.push(i.operands[1], type);
        e.push(i.operands[2], type);
        code.ops(operation);
        return;
      }
      const dividend = repeatable(e, i.operands[1], type), divisor = repeatable(e, i.operands[2], type);
      divisor().ops(inType(type, "Eqz")).if(type.value);
      constant(code, type, -1).else();
      if (signed) {
        divisor();
        constant(code, type, -1).ops(inType(type, "Eq")).if(type.value);
        constant(code, type, 0);
        if (part === "quotient") dividend().ops(inType(type, "Sub"));
        code.else();
      }
      dividend();
      divisor().ops(operation);
      if (signed) code.end();
      code.end();
    });
  };
}

/** Emits code for `neg`. */
export const negate: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    constant(e.code, i.type, 0);
    e.push(i.operands[1], i.type);
    e.code.ops(inType(i.type, "Sub"));
  });
};

/** Emits code for `abs`, which returns the most negative number unchanged. */
export const absolute: Emit = (e, i) => {
  const { type } = i;
  e.assign(i.operands[0], type, () => {
    const value = repeatable(e, i.operands[1], type);
    constant(e.code, type, 0);
    value().ops(inType(type, "Sub"));
    value();
    value();
    constant(e.code, type, 0).ops(inType(type, "LtS"), "select");
  });
};

/** Returns the lowering of `min` or `max`. With `.relu`, a negative result becomes 0. */
export function extreme(which: "min" | "max"): Emit {
  const comparisons = which === "min" ? ["LtS", "LtU"] as const : ["GtS", "GtU"] as const;
  return (e, i) => {
    const { code } = e;
    const comparison = comparisons[i.type.kind === "signed" ? 0 : 1];
    e.assign(i.operands[0], i.type, () => {
      const a = repeatable(e, i.operands[1], i.type), b = repeatable(e, i.operands[2], i.type);
      a();
      b();
      a();
      b().ops(inType(i.type, comparison), "select");
      if (!i.choices.has("relu")) return;
      const value = e.temporary("i32");
      code.tee(value).i32(0).get(value).i32(0).ops("i32GtS", "select");
    });
  };
}

/** Emits code for `sad`, which computes |a - b| + c. */
export const absoluteDifference: Emit = (e, i) => {
  const { type } = i;
  e.assign(i.operands[0], type, () => {
    const a = repeatable(e, i.operands[1], type), b = repeatable(e, i.operands[2], type);
    a();
    b().ops(inType(type, "Sub"));
    b();
    a().ops(inType(type, "Sub"));
    a();
    b().ops(inType(type, type.kind === "signed" ? "GtS" : "GtU"), "select");
    e.push(i.operands[3], type);
    e.code.ops(inType(type, "Add"));
  });
};

/**
 * Returns the lowering of `dp4a` or `dp2a`: a dot product of the bytes or 16-bit halves of one operand with the bytes
 * of another, plus a third operand.
 */
export function dotProduct(parts: 2 | 4): Emit {
  return (e, i) => {
    const { code } = e;
    const aType = typeNamed(i.choices.get("type")!), bType = typeNamed(i.choices.get("second")!);
    e.assign(i.operands[0], s32, () => {
      const a = repeatable(e, i.operands[1], s32), b = repeatable(e, i.operands[2], s32);
      const firstByte = i.choices.has("hi") ? 2 : 0;
      e.push(i.operands[3], s32);
      for (let part = 0; part < parts; part++) {
        a();
        pushPart(e, { first: part * 32 / parts, bits: 32 / parts, isSigned: aType.kind === "signed" });
        b();
        pushPart(e, { first: (firstByte + part) * 8, bits: 8, isSigned: bType.kind === "signed" });
        code.ops("i32Mul", "i32Add");
      }
    });
  };
}

/**
 * Emits code that pops an i32, and pushes the bit field of `bits` bits that begins at bit `first`, sign- or
 * zero-extended.
 */
export function pushPart(
  { code }: FunctionEmitter,
  { first, bits, isSigned }: { first: number; bits: number; isSigned: boolean },
): void {
  if (first > 0) code.i32(first).ops(isSigned && first + bits === 32 ? "i32ShrS" : "i32ShrU");
  if (first + bits === 32) return;
  if (isSigned) code.ops(bits === 8 ? "i32Extend8S" : "i32Extend16S");
  else code.i32(2 ** bits - 1).ops("i32And");
}
