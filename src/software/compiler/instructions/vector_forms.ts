/**
 * How a gang executes instructions on vectors, all its members at once.
 *
 * @module
 */
import { integerComparisons } from "./comparison_instructions.ts";
import type { VectorForm, WriteVectors } from "./instruction_traits.ts";
import type { Register } from "../typing/names.ts";
import { knownDistance } from "./logic_instructions.ts";
import { type LogicTerm, shortestLogic } from "./logic_of_three.ts";
import type { PackEmitter } from "../simd/pack_emitter.ts";
import { typeNamed } from "../typing/scalar_types.ts";
import type { ResolvedOperand, TypedInstruction } from "../typing/typed_instruction.ts";
import type { OpName, SimdOpName } from "../webassembly/opcodes.ts";

/** A form for numbers of 32 bits in vectors, without what is not done on vectors: clamping, flushing, passing NaNs on. */
function onWords(form: VectorForm): VectorForm {
  return (pack, i) => {
    const isOther = ["ftz", "sat", "NaN"].some((name) => i.choices.has(name));
    return i.type.bits !== 32 || isOther || !holdsVectors(pack, i) ? undefined : form(pack, i);
  };
}

/** Whether all registers have 32 bits, but for predicates, and the result lies in vectors. */
function holdsVectors(pack: PackEmitter, instruction: TypedInstruction): boolean {
  const [destination] = instruction.operands;
  if (destination?.kind !== "register" || pack.holding(destination).kind !== "vectors") return false;
  return instruction.operands.every((operand) => pack.hasVectors(operand) || isPredicate(operand));
}

function isPredicate(operand: ResolvedOperand): boolean {
  return operand.kind === "not" || (operand.kind === "register" && operand.type.kind === "predicate");
}

function destinationOf({ operands: [destination] }: TypedInstruction): Register {
  return destination as Register;
}

/** An instruction that is one or more on vectors, of the operands in order. */
function inOrder(...operations: readonly SimdOpName[]): VectorForm {
  return (pack, i) => () => {
    const anyNaN = i.type.kind === "float";
    const operands = i.operands.slice(1).map((operand) => pack.vector(i, { operand, anyNaN }));
    pack.assignVectors(destinationOf(i), (part) => {
      for (const push of operands) push(part);
      return pack.code.simd(...operations);
    }, { anyNaN });
  };
}

/** A float operation that rounds to nearest even. */
function rounded(operation: SimdOpName): VectorForm {
  return (pack, i) => {
    const rounding = i.choices.get("rounding") ?? "rn";
    return rounding === "rn" ? inOrder(operation)(pack, i) : undefined;
  };
}

const multiplyAddFloats: VectorForm = (pack, i) => {
  return pack.emitter.options.fusedMultiplyAdd ? rounded("f32x4RelaxedMadd")(pack, i) : undefined;
};

/** A number wins over a NaN. */
function extremeFloats(operation: SimdOpName): VectorForm {
  return (pack, i) => () => {
    const { code, emitter: e } = pack;
    const [pushA, pushB] = i.operands.slice(1, 3).map((operand) => pack.vector(i, { operand, anyNaN: true }));
    const a = e.temporary("v128"), b = e.temporary("v128"), result = e.temporary("v128");
    pack.assignVectors(destinationOf(i), (part) => {
      pushA!(part).set(a);
      pushB!(part).set(b);
      code.get(a).get(b).simd(operation).set(result);
      code.get(result).get(a).get(b).get(b).simd("f32x4Eq", "v128Bitselect").set(result);
      return code.get(result).get(b).get(a).get(a).simd("f32x4Eq", "v128Bitselect");
    }, { anyNaN: true });
  };
}

function bySign(signed: SimdOpName, unsigned: SimdOpName): VectorForm {
  return (pack, i) => inOrder(i.type.kind === "signed" ? signed : unsigned)(pack, i);
}

const move: VectorForm = (pack, i) => () => {
  pack.assignVectors(destinationOf(i), pack.vector(i, { operand: i.operands[1] }));
};

const multiplyLow: VectorForm = (pack, i) => {
  return () => {
    const operands = i.operands.slice(1).map((operand) => pack.vector(i, { operand }));
    pack.assignVectors(destinationOf(i), (part) => {
      operands[0]!(part);
      operands[1]!(part).simd("i32x4Mul");
      return operands[2] === undefined ? pack.code : operands[2](part).simd("i32x4Add");
    });
  };
};

/** By an amount that is the same for all threads. */
function shift(direction: "left" | "right"): VectorForm {
  return (pack, i) => {
    const [, value, amount] = i.operands;
    if (amount?.kind !== "integer") return undefined;
    const bits = BigInt.asUintN(32, amount.value);
    const keepsSign = direction === "right" && i.type.kind === "signed";
    const operation = direction === "left" ? "i32x4Shl" : keepsSign ? "i32x4ShrS" : "i32x4ShrU";
    return () => {
      const push = pack.vector(i, { operand: value });
      pack.assignVectors(destinationOf(i), (part) => {
        if (bits > 31n && !keepsSign) return pack.code.i32x4([0, 0, 0, 0]);
        return push(part).i32(Number(bits > 31n ? 31n : bits)).simd(operation);
      });
    };
  };
}

/** `shf` by an amount that is known. */
const funnelShift: VectorForm = (pack, i) => {
  const [, low, high, amount] = i.operands;
  if (amount?.kind !== "integer") return undefined;
  const distance = knownDistance(i.choices, amount.value);
  return () => {
    const { code } = pack;
    const pushHigh = pack.vector(i, { operand: high }), pushLow = pack.vector(i, { operand: low });
    pack.assignVectors(destinationOf(i), (part) => {
      if (distance === 0) return pushHigh(part);
      if (distance === 32) return pushLow(part);
      pushHigh(part).i32(distance).simd("i32x4Shl");
      pushLow(part).i32(32 - distance).simd("i32x4ShrU");
      return code.simd("v128Or");
    });
  };
};

const vectorLogic = { i32And: "v128And", i32Or: "v128Or", i32Xor: "v128Xor" } as const;

const logicOfThree: VectorForm = (pack, i) => {
  const table = i.operands[4];
  if (table?.kind !== "integer" || table.value < 0n || table.value > 0xffn || i.choices.has("combine")) {
    return undefined;
  }
  return () => {
    const { code } = pack;
    const inputs = i.operands.slice(1, 4).map((operand) => pack.vector(i, { operand }));
    const write = (term: LogicTerm, part: number): void => {
      if (term.kind === "input") {
        inputs[term.index]!(part);
      } else if (term.kind === "constant") {
        code.i32x4([term.value, term.value, term.value, term.value]);
      } else {
        write(term.left, part);
        write(term.right, part);
        code.simd(vectorLogic[term.operation]);
      }
    };
    pack.assignVectors(destinationOf(i), (part) => {
      write(shortestLogic(Number(table.value)), part);
      return code;
    });
  };
};

/** `prmt` by selectors that are known, none of which spreads a sign. */
const permuteBytes: VectorForm = (pack, i) => {
  const [, a, b, selectors] = i.operands;
  if (selectors?.kind !== "integer" || i.choices.has("mode")) return undefined;
  const picks = [0, 1, 2, 3].map((byte) => Number(selectors.value >> BigInt(4 * byte) & 15n));
  if (picks.some((pick) => pick > 7)) return undefined;
  // Of the bytes of two vectors, those of a lane of one and of the other.
  const bytes = [0, 4, 8, 12].flatMap((lane) => picks.map((pick) => lane + (pick < 4 ? pick : 12 + pick)));
  return () => {
    const pushA = pack.vector(i, { operand: a }), pushB = pack.vector(i, { operand: b });
    pack.assignVectors(destinationOf(i), (part) => {
      pushA(part);
      return pushB(part).i8x16Shuffle(bytes);
    });
  };
};

const select: VectorForm = (pack, i) => () => {
  const { code } = pack;
  const [, a, b, predicate] = i.operands;
  const pushA = pack.vector(i, { operand: a });
  const pushB = pack.vector(i, { operand: b });
  const mask = pack.maskVectors(() => pack.pushMask(predicate));
  pack.assignVectors(destinationOf(i), (part) => {
    pushA(part);
    pushB(part);
    mask(part);
    return code.simd("v128Bitselect");
  });
};

/** Between floats and integers of 32 bits, of which only those are here that are one instruction. */
const convert: VectorForm = (pack, i) => {
  const from = typeNamed(i.choices.get("from") ?? "b8");
  const { type: to } = i;
  const rounding = i.choices.get("rounding");
  if (from.bits !== 32 || from.name.includes("x2") || to.name.includes("x2")) return undefined;
  if (from.kind !== "float" && to.kind !== "float") return undefined;
  let operation: SimdOpName | undefined;
  if (to.kind === "float" && from.kind !== "float" && rounding === "rn") {
    operation = from.kind === "signed" ? "f32x4ConvertI32x4S" : "f32x4ConvertI32x4U";
  } else if (to.kind !== "float" && from.kind === "float" && rounding === "rzi") {
    operation = to.kind === "signed" ? "i32x4TruncSatF32x4S" : "i32x4TruncSatF32x4U";
  }
  if (operation === undefined) return undefined;
  return () => {
    const push = pack.vector(i, { operand: i.operands[1], type: from, anyNaN: from.kind === "float" });
    pack.assignVectors(destinationOf(i), (part) => push(part).simd(operation));
  };
};

/** A form for predicates, which are masks, and for numbers of 32 bits. */
function alsoOnMasks(numbers: VectorForm, write: (pack: PackEmitter, i: TypedInstruction) => void): VectorForm {
  return (pack, i) => {
    if (i.type.kind !== "predicate") return numbers(pack, i);
    const [destination] = i.operands;
    if (destination?.kind !== "register") return undefined;
    return () => {
      write(pack, i);
      pack.assignMask(destination);
    };
  };
}

/** Logic of two operands, predicates or numbers. */
function logic(onMasks: OpName, onNumbers: SimdOpName): VectorForm {
  return alsoOnMasks(onWords(inOrder(onNumbers)), (pack, { operands: [, a, b] }) => {
    pack.pushMask(a);
    pack.pushMask(b);
    pack.code.ops(onMasks);
  });
}

const floatComparisons: Readonly<Record<string, readonly [operation: SimdOpName, isNegated: boolean]>> = {
  eq: ["f32x4Eq", false],
  lt: ["f32x4Lt", false],
  le: ["f32x4Le", false],
  gt: ["f32x4Gt", false],
  ge: ["f32x4Ge", false],
  neu: ["f32x4Ne", false],
  ltu: ["f32x4Ge", true],
  leu: ["f32x4Gt", true],
  gtu: ["f32x4Le", true],
  geu: ["f32x4Lt", true],
};

function combine(pack: PackEmitter, i: TypedInstruction): void {
  const combination = i.choices.get("combine");
  if (combination === undefined) return;
  pack.pushMask(i.operands[3]);
  pack.code.ops(combination === "and" ? "i32And" : combination === "or" ? "i32Or" : "i32Xor");
}

/** `setp` */
export const vectorComparison: VectorForm = (pack, i) => {
  const { type, choices } = i;
  const [destination, a, b, combined] = i.operands;
  if (destination?.kind !== "register" || (choices.get("combine") === undefined) !== (combined === undefined)) {
    return undefined;
  }
  const ordered = compareOrdered(pack, i);
  if (ordered !== undefined) return ordered;
  if (type.bits !== 32 || choices.has("ftz")) return undefined;
  if (!pack.hasVectors(a) || !pack.hasVectors(b)) return undefined;
  const comparison = choices.get("compare")!;
  const isFloat = type.kind === "float";
  const [signed, unsigned] = integerComparisons[comparison] ?? [];
  const [operation, isNegated] = isFloat
    ? floatComparisons[comparison] ?? []
    : [`i32x4${type.kind === "signed" || signed === "Eq" || signed === "Ne" ? signed : unsigned}` as SimdOpName, false];
  if (operation === undefined) return undefined;
  return () => {
    const { code, emitter: e } = pack;
    const pushA = pack.vector(i, { operand: a, anyNaN: isFloat }),
      pushB = pack.vector(i, { operand: b, anyNaN: isFloat });
    const outcomes = Array.from({ length: pack.vectors }, (_, part) => {
      const outcome = e.temporary("v128");
      pushA(part);
      pushB(part).simd(operation).set(outcome);
      return outcome;
    });
    pack.pushGathered(outcomes);
    if (isNegated) code.i32(pack.wholeMask).ops("i32Xor");
    combine(pack, i);
    pack.assignMask(destination);
  };
};

/** A comparison with what all threads have, seen from the other side. */
const mirrored: Readonly<Record<string, string>> = {
  ...{ lt: "gt", le: "ge", gt: "lt", ge: "le", lo: "hi", ls: "hs", hi: "lo", hs: "ls" },
};
const names: Readonly<Record<string, string>> = { lo: "lt", ls: "le", hi: "gt", hs: "ge" };

/**
 * Compares numbers that ascend from thread to thread with one that all have: mostly all threads agree, which the first and
 * the last number tell where none in between wraps around.
 */
function compareOrdered(pack: PackEmitter, i: TypedInstruction): WriteVectors | undefined {
  const { type, choices, form } = i;
  const [destination, a, b] = i.operands;
  const comparison = choices.get("compare")!;
  if (type.kind !== "signed" && type.kind !== "unsigned" || type.bits < 32 || choices.has("combine")) return undefined;
  if (mirrored[comparison] === undefined || destination?.kind !== "register") return undefined;
  const hasWidth = (operand: ResolvedOperand | undefined) =>
    operand?.kind !== "register" || operand.type.bits === type.bits;
  if (!hasWidth(a) || !hasWidth(b)) return undefined;
  const [first, second] = [a!, b!].map(pack.shapes.shapeOf);
  const isMirrored = first === 0n;
  const stride = isMirrored ? second : first;
  if (stride === undefined || stride === 0n || (isMirrored ? first : second) !== 0n) return undefined;
  const span = (stride < 0n ? -stride : stride) * BigInt(pack.width - 1);
  if (span >= 1n << BigInt(type.bits - 1)) return undefined;
  const relation = isMirrored ? mirrored[comparison]! : comparison;
  const operation = names[relation] ?? relation;
  const isWithEqual = operation === "le" || operation === "gt";
  const isNegated = operation === "ge" || operation === "gt";
  return () => {
    const { code, emitter: e } = pack;
    const wide = type.bits === 64;
    const value = wide ? "i64" : "i32";
    const op = (name: string) => `${value}${name}` as OpName;
    const constant = (number: bigint) => wide ? code.i64(number) : code.i32(Number(BigInt.asIntN(32, number)));
    const least = e.temporary(value), limit = e.temporary(value);
    const push = (operand: ResolvedOperand | undefined, { isLeast, local }: { isLeast: boolean; local: number }) => {
      e.push(operand, type);
      if (isLeast && stride < 0n) constant(span).ops(op("Sub"));
      // Signed numbers are ordered as unsigned ones are that are off by half the range.
      if (type.kind === "signed") constant(1n << BigInt(type.bits - 1)).ops(op("Xor"));
      code.set(local);
    };
    push(isMirrored ? b : a, { isLeast: true, local: least });
    push(isMirrored ? a : b, { isLeast: false, local: limit });
    code.get(least).get(limit).ops(op(isWithEqual ? "LeU" : "LtU"));
    code.get(limit).get(least).ops(op("Sub"));
    constant(span).ops(op(isWithEqual ? "GeU" : "GtU"), "i32And").if("i32").i32(isNegated ? 0 : pack.wholeMask).else();
    code.get(least).get(limit).ops(op(isWithEqual ? "GtU" : "GeU")).get(least);
    constant(-1n - span).ops(op("LeU"), "i32And").if("i32").i32(isNegated ? pack.wholeMask : 0).else();
    pack.writeLanes(i, form.emit!);
    code.get(e.registerLocal(destination)).end().end();
    pack.assignMask(destination);
  };
}

/** `selp` */
export const vectorSelection: VectorForm = onWords(select);
/** `cvt` */
export const vectorConversion: VectorForm = onWords(convert);
/** `mov` */
export const vectorMove: VectorForm = alsoOnMasks(onWords(move), (pack, { operands: [, a] }) => {
  pack.pushMask(a);
});

type IntegerVector =
  | "add"
  | "subtract"
  | "multiply"
  | "minimum"
  | "maximum"
  | "absolute"
  | "negate"
  | "and"
  | "or"
  | "xor"
  | "not"
  | "shiftLeft"
  | "shiftRight"
  | "funnelShift"
  | "logicOfThree"
  | "permuteBytes";

/** Of integers, and of bits. */
export const integerVectors: Readonly<Record<IntegerVector, VectorForm>> = {
  add: onWords(inOrder("i32x4Add")),
  subtract: onWords(inOrder("i32x4Sub")),
  multiply: onWords(multiplyLow),
  minimum: onWords(bySign("i32x4MinS", "i32x4MinU")),
  maximum: onWords(bySign("i32x4MaxS", "i32x4MaxU")),
  absolute: onWords(inOrder("i32x4Abs")),
  negate: onWords(inOrder("i32x4Neg")),
  and: logic("i32And", "v128And"),
  or: logic("i32Or", "v128Or"),
  xor: logic("i32Xor", "v128Xor"),
  not: alsoOnMasks(onWords(inOrder("v128Not")), (pack, { operands: [, a] }) => {
    pack.pushMask(a).i32(pack.wholeMask).ops("i32Xor");
  }),
  shiftLeft: onWords(shift("left")),
  shiftRight: onWords(shift("right")),
  funnelShift: onWords(funnelShift),
  logicOfThree: onWords(logicOfThree),
  permuteBytes: onWords(permuteBytes),
};

type FloatVector =
  | "add"
  | "subtract"
  | "multiply"
  | "multiplyAdd"
  | "divide"
  | "squareRoot"
  | "absolute"
  | "negate"
  | "minimum"
  | "maximum";

/** Of floats of 32 bits. */
export const floatVectors: Readonly<Record<FloatVector, VectorForm>> = {
  add: onWords(rounded("f32x4Add")),
  subtract: onWords(rounded("f32x4Sub")),
  multiply: onWords(rounded("f32x4Mul")),
  multiplyAdd: onWords(multiplyAddFloats),
  divide: onWords(rounded("f32x4Div")),
  squareRoot: onWords(rounded("f32x4Sqrt")),
  absolute: onWords(inOrder("f32x4Abs")),
  negate: onWords(inOrder("f32x4Neg")),
  minimum: onWords(extremeFloats("f32x4Min")),
  maximum: onWords(extremeFloats("f32x4Max")),
};
