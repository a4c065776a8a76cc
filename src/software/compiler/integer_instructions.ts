/**
 * Integer arithmetic, logic, shifts and bit fields. PTX ISA, sections 9.7.1, 9.7.2 and 9.7.8.
 *
 * @module
 */
import type { FunctionEmitter } from "./function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { type ScalarType, typeNamed } from "./scalar_types.ts";
import type { ResolvedOperand, TypedInstruction } from "./typed_instruction.ts";
import type { CodeWriter, OpName } from "./wasm_encoder.ts";

const u32 = typeNamed("u32");

/** The same operation on 32 and 64 bits, as `Add` for `i32Add` and `i64Add`. */
type IntegerOperation<Name = OpName> = Name extends `i32${infer Rest}` ? `i64${Rest}` extends OpName ? Rest : never
  : never;

/** The instruction for an operation in a type. */
function inType({ value }: ScalarType, operation: IntegerOperation): OpName {
  return value === "i64" ? `i64${operation}` : `i32${operation}`;
}

function constant(code: CodeWriter, { value }: ScalarType, number: number): CodeWriter {
  return value === "i64" ? code.i64(BigInt(number)) : code.i32(number);
}

/** An instruction that computes its first operand from its others, which are all of its type. */
function fromOperands(emit: (e: FunctionEmitter, i: TypedInstruction) => void): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      for (const operand of i.operands.slice(1)) e.push(operand, i.type);
      emit(e, i);
    });
}

/** An instruction that is one of WebAssembly's, given by its unsigned and signed form where those differ. */
export function integer(operation: IntegerOperation, signedOperation: IntegerOperation = operation): Emit {
  return fromOperands((e, i) => e.code.ops(inType(i.type, i.type.kind === "signed" ? signedOperation : operation)));
}

/** `add.sat.s32` and `sub.sat.s32` */
export function saturating(operation: "i64Add" | "i64Sub"): Emit {
  return (e, i) =>
    e.assign(i.operands[0], i.type, () => {
      const wide = e.temporary("i64");
      for (const operand of i.operands.slice(1)) {
        e.push(operand, i.type);
        e.code.ops("i64ExtendI32S");
      }
      e.code.ops(operation).set(wide);
      clampSigned64(e, wide, { minimum: -0x8000_0000n, maximum: 0x7fff_ffffn });
      e.code.ops("i32WrapI64");
    });
}

function clampSigned64(
  { code }: FunctionEmitter,
  local: number,
  { minimum, maximum }: { minimum: bigint; maximum: bigint },
): void {
  code.i64(minimum).get(local).get(local).i64(minimum).ops("i64LtS", "select").set(local);
  code.i64(maximum).get(local).get(local).i64(maximum).ops("i64GtS", "select");
}

/** Pushes the high half of a product of two operands. */
function pushHighProduct(e: FunctionEmitter, type: ScalarType, [a, b]: readonly ResolvedOperand[]): void {
  const { code } = e;
  const shiftRight = type.kind === "signed" ? "ShrS" : "ShrU";
  if (type.bits === 16) {
    e.push(a, type);
    e.push(b, type);
    code.ops("i32Mul").i32(16).ops(`i32${shiftRight}`);
  } else if (type.bits === 32) {
    pushWide(e, type, a);
    pushWide(e, type, b);
    code.ops("i64Mul").i64(32n).ops("i64ShrU", "i32WrapI64");
  } else {
    pushHighProduct64(e, type, [a, b]);
  }
}

/** By the four products of the halves; a signed product differs from the unsigned one by the other factor. */
function pushHighProduct64(
  e: FunctionEmitter,
  type: ScalarType,
  [a, b]: readonly (ResolvedOperand | undefined)[],
): void {
  const { code } = e;
  const x = e.temporary("i64"), y = e.temporary("i64"), carry = e.temporary("i64"), middle = e.temporary("i64");
  const low = (local: number) => code.get(local).i64(0xffff_ffffn).ops("i64And");
  const high = (local: number) => code.get(local).i64(32n).ops("i64ShrU");
  e.push(a, type);
  code.set(x);
  e.push(b, type);
  code.set(y);
  low(x);
  low(y).ops("i64Mul").i64(32n).ops("i64ShrU");
  high(x);
  low(y).ops("i64Mul", "i64Add").set(carry);
  low(carry);
  low(x);
  high(y).ops("i64Mul", "i64Add").set(middle);
  high(x);
  high(y).ops("i64Mul");
  high(carry).ops("i64Add");
  high(middle).ops("i64Add");
  if (type.kind === "signed") {
    code.get(x).i64(63n).ops("i64ShrS").get(y).ops("i64And", "i64Sub");
    code.get(y).i64(63n).ops("i64ShrS").get(x).ops("i64And", "i64Sub");
  }
}

/** Pushes an operand of 16 or 32 bits in twice its width. */
function pushWide(e: FunctionEmitter, type: ScalarType, operand: ResolvedOperand | undefined): void {
  e.push(operand, type);
  if (type.bits === 32) e.code.ops(type.kind === "signed" ? "i64ExtendI32S" : "i64ExtendI32U");
}

function twiceAsWide(type: ScalarType): ScalarType {
  return typeNamed(`${type.kind === "signed" ? "s" : "u"}${type.bits * 2}`);
}

/** `mul.hi` and, with a third operand to add, `mad.hi`. */
export const multiplyHigh: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    pushHighProduct(e, i.type, i.operands.slice(1, 3));
    addThird(e, i, i.type);
  });
};

/** `mad.lo` */
export const multiplyAddLow: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], i.type);
    e.push(i.operands[2], i.type);
    e.code.ops(inType(i.type, "Mul"));
    addThird(e, i, i.type);
  });
};

/** `mul.wide` and, with a third operand to add, `mad.wide`. */
export const multiplyWide: Emit = (e, i) => {
  const wide = twiceAsWide(i.type);
  e.assign(i.operands[0], wide, () => {
    pushWide(e, i.type, i.operands[1]);
    pushWide(e, i.type, i.operands[2]);
    e.code.ops(inType(wide, "Mul"));
    addThird(e, i, wide);
  });
};

function addThird(e: FunctionEmitter, i: TypedInstruction, type: ScalarType): void {
  if (i.operands[3] === undefined) return;
  e.push(i.operands[3], type);
  e.code.ops(inType(type, "Add"));
}

/**
 * `div` and `rem`. PTX leaves division by zero to the machine: as on an H200, all bits of the result are set. The
 * smallest number divided by -1 wraps.
 */
export function divide(part: "quotient" | "remainder"): Emit {
  return (e, i) => {
    const { type } = i;
    const signed = type.kind === "signed";
    const dividend = e.temporary(type.value), divisor = e.temporary(type.value);
    const { code } = e;
    e.assign(i.operands[0], type, () => {
      e.push(i.operands[1], type);
      code.set(dividend);
      e.push(i.operands[2], type);
      code.tee(divisor).ops(inType(type, "Eqz")).if(type.value);
      constant(code, type, -1).else();
      if (signed) {
        code.get(divisor);
        constant(code, type, -1).ops(inType(type, "Eq")).if(type.value);
        constant(code, type, 0);
        if (part === "quotient") code.get(dividend).ops(inType(type, "Sub"));
        code.else();
      }
      code.get(dividend).get(divisor);
      if (part === "quotient") code.ops(inType(type, signed ? "DivS" : "DivU"));
      else code.ops(inType(type, signed ? "RemS" : "RemU"));
      if (signed) code.end();
      code.end();
    });
  };
}

/** `neg` */
export const negate: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    constant(e.code, i.type, 0);
    e.push(i.operands[1], i.type);
    e.code.ops(inType(i.type, "Sub"));
  });
};

/** `abs`; that of the smallest number is itself. */
export const absolute: Emit = (e, i) => {
  const { type } = i;
  const value = e.temporary(type.value);
  e.assign(i.operands[0], type, () => {
    e.push(i.operands[1], type);
    constant(e.code.set(value), type, 0).get(value).ops(inType(type, "Sub")).get(value).get(value);
    constant(e.code, type, 0).ops(inType(type, "LtS"), "select");
  });
};

/** `min` and `max` */
export function extreme(signedComparison: IntegerOperation, unsignedComparison: IntegerOperation): Emit {
  return (e, i) => {
    const a = e.temporary(i.type.value), b = e.temporary(i.type.value);
    e.assign(i.operands[0], i.type, () => {
      e.push(i.operands[1], i.type);
      e.code.set(a);
      e.push(i.operands[2], i.type);
      e.code.set(b).get(a).get(b).get(a).get(b);
      e.code.ops(inType(i.type, i.type.kind === "signed" ? signedComparison : unsignedComparison), "select");
    });
  };
}

/** `not`, of a predicate too. */
export const not: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], i.type);
    if (i.type.kind === "predicate") e.code.ops("i32Eqz");
    else constant(e.code, i.type, -1).ops(inType(i.type, "Xor"));
  });
};

/** `cnot`: 1 for 0, else 0. */
export const logicalNot: Emit = fromOperands((e, i) => {
  e.code.ops(inType(i.type, "Eqz"));
  if (i.type.value === "i64") e.code.ops("i64ExtendI32U");
});

/** `shl` and `shr`: an amount past the width shifts everything out, where WebAssembly would take it modulo the width. */
export function shift(direction: "left" | "right"): Emit {
  return (e, i) => {
    const { code } = e;
    const { type } = i;
    const amount = e.temporary("i32");
    const pushAmount = () => type.value === "i64" ? code.get(amount).ops("i64ExtendI32U") : code.get(amount);
    e.assign(i.operands[0], type, () => {
      e.push(i.operands[2], u32);
      code.set(amount);
      if (direction === "right" && type.kind === "signed") {
        code.i32(type.bits - 1).get(amount).get(amount).i32(type.bits - 1).ops("i32GtU", "select").set(amount);
        e.push(i.operands[1], type);
        pushAmount().ops(inType(type, "ShrS"));
      } else {
        e.push(i.operands[1], type);
        pushAmount().ops(inType(type, direction === "left" ? "Shl" : "ShrU"));
        constant(code, type, 0).get(amount).i32(type.bits).ops("i32LtU", "select");
      }
    });
  };
}

/** `shf`: the upper or lower half of two words that are shifted together. */
export const funnelShift: Emit = (e, i) => {
  const { code } = e;
  const left = i.choices.get("direction") === "l";
  e.assign(i.operands[0], u32, () => {
    e.push(i.operands[2], u32);
    code.ops("i64ExtendI32U").i64(32n).ops("i64Shl");
    e.push(i.operands[1], u32);
    code.ops("i64ExtendI32U", "i64Or");
    const amount = e.temporary("i32");
    e.push(i.operands[3], u32);
    code.set(amount);
    if (i.choices.get("mode") === "wrap") code.get(amount).i32(31).ops("i32And");
    else code.i32(32).get(amount).get(amount).i32(32).ops("i32GtU", "select");
    code.ops("i64ExtendI32U");
    if (left) code.ops("i64Shl").i64(32n).ops("i64ShrU", "i32WrapI64");
    else code.ops("i64ShrU", "i32WrapI64");
  });
};

/** `popc` and `clz`: counts, always in 32 bits. */
export function count(operation: "Popcnt" | "Clz"): Emit {
  return (e, i) =>
    e.assign(i.operands[0], u32, () => {
      e.push(i.operands[1], i.type);
      e.code.ops(inType(i.type, operation));
      if (i.type.value === "i64") e.code.ops("i32WrapI64");
    });
}

/** `brev`, by exchanging ever larger groups of bits. */
export const reverseBits: Emit = (e, i) => {
  const { code } = e;
  const { type } = i;
  const value = e.temporary(type.value);
  const masks = [0x5555_5555_5555_5555n, 0x3333_3333_3333_3333n, 0x0f0f_0f0f_0f0f_0f0fn, 0x00ff_00ff_00ff_00ffn];
  const push = (number: bigint) =>
    type.value === "i64" ? code.i64(number) : code.i32(Number(BigInt.asIntN(32, number)));
  e.assign(i.operands[0], type, () => {
    e.push(i.operands[1], type);
    code.set(value);
    masks.forEach((mask, index) => {
      const distance = 1n << BigInt(index);
      code.get(value);
      push(distance).ops(inType(type, "ShrU"));
      push(mask).ops(inType(type, "And")).get(value);
      push(mask).ops(inType(type, "And"));
      push(distance).ops(inType(type, "Shl"), inType(type, "Or")).set(value);
    });
    code.get(value);
    push(16n).ops(inType(type, "Rotl"));
    if (type.value === "i64") {
      // Rotating moved the outer quarters to the middle: only the halves are left to exchange.
      code.set(value).get(value).i64(0xffff_0000_ffff_0000n).ops("i64And").i64(32n).ops("i64Rotl");
      code.get(value).i64(0x0000_ffff_0000_ffffn).ops("i64And", "i64Or");
    }
  });
};

/** `bfind`: the position of the highest bit that is not the sign, or -1. */
export const findHighestBit: Emit = (e, i) => {
  const { code } = e;
  const { type } = i;
  const value = e.temporary(type.value);
  e.assign(i.operands[0], u32, () => {
    e.push(i.operands[1], type);
    if (type.kind === "signed") {
      code.tee(value);
      constant(code.get(value), type, type.bits - 1).ops(inType(type, "ShrS"), inType(type, "Xor"));
    }
    code.ops(inType(type, "Clz"));
    if (type.value === "i64") code.ops("i32WrapI64");
    const zeros = e.temporary("i32");
    code.set(zeros);
    if (i.choices.has("shiftamt")) code.get(zeros).i32(-1).get(zeros).i32(type.bits).ops("i32Ne", "select");
    else code.i32(type.bits - 1).get(zeros).ops("i32Sub");
  });
};

/**
 * Pushes the position or the length of a field. The manual takes them modulo 256. An H200 does in 32 bits, but not in 64,
 * where all that is past the end is alike.
 */
function pushFieldPlace(e: FunctionEmitter, i: TypedInstruction, operand: ResolvedOperand | undefined): void {
  e.push(operand, u32);
  if (i.type.bits === 32) {
    e.code.i32(0xff).ops("i32And");
  } else {
    const place = e.temporary("i32");
    e.code.set(place).i32(0xff).get(place).get(place).i32(0xff).ops("i32GtU", "select");
  }
}

/**
 * `bfe`: bits past the end are zeros, or the sign.
 *
 * The field is moved to the top, past which nothing is, and back down; a field that ends past the top moves less.
 */
export const extractBits: Emit = (e, i) => {
  const { code } = e;
  const { type } = i;
  const position = e.temporary("i32"), length = e.temporary("i32"), value = e.temporary(type.value);
  const signed = type.kind === "signed";
  const extendAmount = () => type.value === "i64" ? code.ops("i64ExtendI32U") : code;
  e.assign(i.operands[0], type, () => {
    e.push(i.operands[1], type);
    code.set(value);
    pushFieldPlace(e, i, i.operands[2]);
    code.set(position);
    pushFieldPlace(e, i, i.operands[3]);
    code.tee(length).ops("i32Eqz").if(type.value);
    constant(code, type, 0).else();
    // The value shifted down to the field; past the top there is nothing but the sign.
    if (signed) {
      code.i32(type.bits - 1).get(position).get(position).i32(type.bits - 1).ops("i32GtU", "select").set(position);
      code.get(value).get(position);
      extendAmount().ops(inType(type, "ShrS")).set(value);
    } else {
      code.get(value).get(position);
      extendAmount().ops(inType(type, "ShrU"));
      constant(code, type, 0).get(position).i32(type.bits).ops("i32LtU", "select").set(value);
    }
    code.get(length).i32(type.bits).ops("i32GeU").if(type.value).get(value).else();
    code.get(value).i32(type.bits).get(length).ops("i32Sub").tee(length);
    extendAmount().ops(inType(type, "Shl")).get(length);
    extendAmount().ops(inType(type, signed ? "ShrS" : "ShrU")).end().end();
  });
};

/** `bfi`: a field of one number put into another. */
export const insertBits: Emit = (e, i) => {
  const { code } = e;
  const { type } = i;
  const position = e.temporary("i32"), length = e.temporary("i32"), mask = e.temporary(type.value);
  const extendAmount = () => type.value === "i64" ? code.ops("i64ExtendI32U") : code;
  e.assign(i.operands[0], type, () => {
    pushFieldPlace(e, i, i.operands[3]);
    code.set(position);
    pushFieldPlace(e, i, i.operands[4]);
    code.set(length);
    // (1 << length) - 1, or all ones, moved to the position, or nothing where that is past the top.
    constant(code, type, 1).get(length);
    extendAmount().ops(inType(type, "Shl"));
    constant(code, type, 1).ops(inType(type, "Sub"));
    constant(code, type, -1).get(length).i32(type.bits).ops("i32LtU", "select").get(position);
    extendAmount().ops(inType(type, "Shl"));
    constant(code, type, 0).get(position).i32(type.bits).ops("i32LtU", "select").set(mask);
    e.push(i.operands[1], type);
    code.get(position);
    extendAmount().ops(inType(type, "Shl")).get(mask).ops(inType(type, "And"));
    e.push(i.operands[2], type);
    constant(code.get(mask), type, -1).ops(inType(type, "Xor"), inType(type, "And"), inType(type, "Or"));
  });
};

/** `sad`: |a - b| + c */
export const absoluteDifference: Emit = (e, i) => {
  const { code } = e;
  const { type } = i;
  const a = e.temporary(type.value), b = e.temporary(type.value);
  e.assign(i.operands[0], type, () => {
    e.push(i.operands[1], type);
    code.set(a);
    e.push(i.operands[2], type);
    code.set(b).get(a).get(b).ops(inType(type, "Sub")).get(b).get(a).ops(inType(type, "Sub")).get(a).get(b);
    code.ops(inType(type, type.kind === "signed" ? "GtS" : "GtU"), "select");
    e.push(i.operands[3], type);
    code.ops(inType(type, "Add"));
  });
};

/** `lop3`: any function of three bits, given by its truth table, as the sum of its terms. */
export const logicOfThree: Emit = (e, i) => {
  const { code } = e;
  const table = i.operands[4];
  if (table?.kind !== "integer" || table.value < 0n || table.value > 0xffn) {
    return e.fail("its truth table must be a number from 0 to 255");
  }
  const truth = table.value;
  const inputs = i.operands.slice(1, 4);
  const locals = inputs.map(() => e.temporary("i32"));
  e.assign(i.operands[0], u32, () => {
    inputs.forEach((input, index) => {
      e.push(input, u32);
      code.set(locals[index]!);
    });
    code.i32(0);
    for (let term = 0; term < 8; term++) {
      if ((truth >> BigInt(term) & 1n) === 0n) continue;
      locals.forEach((local, index) => {
        code.get(local);
        if ((term >> (2 - index) & 1) === 0) code.i32(-1).ops("i32Xor");
        if (index > 0) code.ops("i32And");
      });
      code.ops("i32Or");
    }
  });
};

/** `prmt` in its default mode: four bytes picked out of eight, or the sign of one spread over a byte. */
export const permuteBytes: Emit = (e, i) => {
  const { code } = e;
  const bytes = e.temporary("i64"), selectors = e.temporary("i32"), byte = e.temporary("i32");
  e.assign(i.operands[0], u32, () => {
    e.push(i.operands[2], u32);
    code.ops("i64ExtendI32U").i64(32n).ops("i64Shl");
    e.push(i.operands[1], u32);
    code.ops("i64ExtendI32U", "i64Or").set(bytes);
    e.push(i.operands[3], u32);
    code.set(selectors).i32(0);
    for (let index = 0; index < 4; index++) {
      const selector = () => code.get(selectors).i32(4 * index).ops("i32ShrU");
      code.get(bytes);
      selector().i32(7).ops("i32And").i32(3).ops("i32Shl", "i64ExtendI32U", "i64ShrU", "i32WrapI64", "i32Extend8S");
      code.set(byte).get(byte).i32(7).ops("i32ShrS").get(byte);
      selector().i32(8).ops("i32And", "select").i32(0xff).ops("i32And").i32(8 * index).ops("i32Shl", "i32Or");
    }
  });
};

/** `mov`, with vectors on either side taken apart or put together. */
export const move: Emit = (e, i) => {
  const [destination, source] = i.operands;
  if (destination?.kind === "vector") unpack(e, i, destination.elements);
  else if (source?.kind === "vector") pack(e, i, source.elements);
  else e.assign(destination, i.type, () => e.push(source, i.type));
};

function partType(e: FunctionEmitter, { type }: TypedInstruction, count: number): ScalarType {
  const bits = type.bits / count;
  if (type.kind !== "bits" || (count !== 2 && count !== 4) || bits < 8) {
    e.fail(`it cannot take ${count} parts`);
  }
  return typeNamed(`b${bits}`);
}

function unpack(e: FunctionEmitter, i: TypedInstruction, parts: readonly ResolvedOperand[]): void {
  const part = partType(e, i, parts.length);
  const whole = e.temporary("i64");
  e.push(i.operands[1], i.type);
  if (i.type.value === "i32") e.code.ops("i64ExtendI32U");
  e.code.set(whole);
  parts.forEach((destination, index) => {
    e.assign(destination, part, () => {
      e.code.get(whole).i64(BigInt(index * part.bits)).ops("i64ShrU", "i32WrapI64");
      e.extend(part);
    });
  });
}

function pack(e: FunctionEmitter, i: TypedInstruction, parts: readonly ResolvedOperand[]): void {
  const part = partType(e, i, parts.length);
  e.assign(i.operands[0], i.type, () => {
    parts.forEach((source, index) => {
      e.push(source, part);
      e.code.ops("i64ExtendI32U").i64(BigInt(index * part.bits)).ops("i64Shl");
      if (index > 0) e.code.ops("i64Or");
    });
    if (i.type.value === "i32") e.code.ops("i32WrapI64");
  });
}

/** `selp`: one of two by a predicate. */
export const selectByPredicate: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], i.type);
    e.push(i.operands[2], i.type);
    e.push(i.operands[3], typeNamed("pred"));
    e.code.ops("select");
  });
};

/** `slct.s32`: one of two by a sign. */
export const selectBySign: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.push(i.operands[1], i.type);
    e.push(i.operands[2], i.type);
    e.push(i.operands[3], typeNamed("s32"));
    e.code.i32(0).ops("i32GeS", "select");
  });
};
