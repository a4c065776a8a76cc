/**
 * The vector code by which gangs execute instructions for all threads at once.
 *
 * @module
 */
import { integerComparisons } from "../floats/comparison_instructions.ts";
import type { CompiledInstruction, EmitVectors, GangForm } from "../instruction_form.ts";
import { hasOnlyModifiers } from "../../../../ptx/instructions/instruction_traits.ts";
import { comparisonsOfDoubles, convertToDoubles, moveDoubles, onDoubles, selectDoubles } from "./gang_doubles.ts";
import type { Register, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import { knownDistance, type LogicTerm, shortestLogic } from "../integers/logic_instructions.ts";
import type { GangEmitter } from "../../simd/gang_emitter.ts";
import type { OpName, SimdOpName } from "../../webassembly/opcodes.ts";

/**
 * Restricts a gang form to instructions on 32-bit values whose result is stored in vector locals. Instructions with any
 * modifiers except those of the kinds in `implemented` are executed for one thread at a time.
 */
function onWords(form: GangForm, { implemented = [] }: { implemented?: readonly string[] } = {}): GangForm {
  return (gang, i) => {
    if (i.type.bits !== 32 || !hasOnlyModifiers(i, implemented) || !holdsVectors(gang, i)) return undefined;
    return form(gang, i);
  };
}

/**
 * Whether all registers of an instruction except predicates have 32 bits, and the result is stored in vector locals.
 */
function holdsVectors(gang: GangEmitter, instruction: CompiledInstruction): boolean {
  const [destination] = instruction.operands;
  if (destination?.kind !== "register" || gang.storageOf(destination).kind !== "vectors") return false;
  return instruction.operands.every((operand) => gang.hasVectors(operand) || isPredicate(operand));
}

function isPredicate(operand: ResolvedOperand): boolean {
  return operand.kind === "not" || (operand.kind === "register" && operand.type.kind === "predicate");
}

function destinationOf({ operands: [destination] }: CompiledInstruction): Register {
  return destination as Register;
}

/** Returns the gang form that pushes the operands in order and applies the given vector instructions. */
function inOrder(...operations: readonly SimdOpName[]): GangForm {
  return (gang, i) => () => {
    const anyNaN = i.type.kind === "float";
    const operands = i.operands.slice(1).map((operand) => gang.vector(i, { operand, anyNaN }));
    gang.assignVectors(destinationOf(i), (part) => {
      for (const push of operands) push(part);
      return gang.code.simd(...operations);
    }, { anyNaN });
  };
}

/** Returns the gang form of a float operation. The form applies only if the instruction rounds to nearest even. */
function rounded(operation: SimdOpName): GangForm {
  return (gang, i) => {
    const rounding = i.choices.get("rounding") ?? "rn";
    return rounding === "rn" ? inOrder(operation)(gang, i) : undefined;
  };
}

const multiplyAddFloats: GangForm = (gang, i) => {
  return gang.emitter.options.fusedMultiplyAdd ? rounded("f32x4RelaxedMadd")(gang, i) : undefined;
};

/** Returns the gang form of `min` or `max` of floats: if one operand is a NaN, the result is the other one. */
function extremeFloats(operation: SimdOpName): GangForm {
  return (gang, i) => () => {
    const { code, emitter: e } = gang;
    const [pushA, pushB] = i.operands.slice(1, 3).map((operand) => gang.vector(i, { operand, anyNaN: true }));
    const a = e.temporary("v128"), b = e.temporary("v128"), result = e.temporary("v128");
    gang.assignVectors(destinationOf(i), (part) => {
      pushA!(part).set(a);
      pushB!(part).set(b);
      code.get(a).get(b).simd(operation).set(result);
      code.get(result).get(a).get(b).get(b).simd("f32x4Eq", "v128Bitselect").set(result);
      return code.get(result).get(b).get(a).get(a).simd("f32x4Eq", "v128Bitselect");
    }, { anyNaN: true });
  };
}

/** Returns a gang form that selects a vector instruction by the signedness of the instruction's type. */
function bySign(signed: SimdOpName, unsigned: SimdOpName): GangForm {
  return (gang, i) => inOrder(i.type.kind === "signed" ? signed : unsigned)(gang, i);
}

const move: GangForm = (gang, i) => () => {
  gang.assignVectors(destinationOf(i), gang.vector(i, { operand: i.operands[1] }));
};

/**
 * Decomposes a factor of the form 2^n or 2^n + 1, for which shifts are faster than a multiplication. Returns undefined
 * for any other factor.
 */
function shiftsOf(factor: bigint): { readonly distance: number; readonly isPlusOne: boolean } | undefined {
  for (let distance = 0; distance < 32; distance++) {
    if (factor === 1n << BigInt(distance)) return { distance, isPlusOne: false };
    if (factor === (1n << BigInt(distance)) + 1n) return { distance, isPlusOne: true };
  }
  return undefined;
}

const multiplyLow: GangForm = (gang, i) => {
  return () => {
    const operands = i.operands.slice(1).map((operand) => gang.vector(i, { operand }));
    const [, , factor] = i.operands;
    const shifts = factor?.kind === "integer" ? shiftsOf(factor.value) : undefined;
    gang.assignVectors(destinationOf(i), (part) => {
      operands[0]!(part);
      if (shifts === undefined) operands[1]!(part).simd("i32x4Mul");
      else if (shifts.distance > 0) gang.code.i32(shifts.distance).simd("i32x4Shl");
      if (shifts?.isPlusOne) operands[0]!(part).simd("i32x4Add");
      return operands[2] === undefined ? gang.code : operands[2](part).simd("i32x4Add");
    });
  };
};

/** Returns the gang form of a shift by a literal amount. */
function shift(direction: "left" | "right"): GangForm {
  return (gang, i) => {
    const [, value, amount] = i.operands;
    if (amount?.kind !== "integer") return undefined;
    const bits = BigInt.asUintN(32, amount.value);
    const keepsSign = direction === "right" && i.type.kind === "signed";
    const operation = direction === "left" ? "i32x4Shl" : keepsSign ? "i32x4ShrS" : "i32x4ShrU";
    return () => {
      const push = gang.vector(i, { operand: value });
      gang.assignVectors(destinationOf(i), (part) => {
        if (bits > 31n && !keepsSign) return gang.code.i32x4([0, 0, 0, 0]);
        return push(part).i32(Number(bits > 31n ? 31n : bits)).simd(operation);
      });
    };
  };
}

/** The gang form of `shf`, a funnel shift, by a literal amount. */
const funnelShift: GangForm = (gang, i) => {
  const [, low, high, amount] = i.operands;
  if (amount?.kind !== "integer") return undefined;
  const distance = knownDistance(i.choices, amount.value);
  return () => {
    const { code } = gang;
    const pushHigh = gang.vector(i, { operand: high }), pushLow = gang.vector(i, { operand: low });
    gang.assignVectors(destinationOf(i), (part) => {
      if (distance === 0) return pushHigh(part);
      if (distance === 32) return pushLow(part);
      pushHigh(part).i32(distance).simd("i32x4Shl");
      pushLow(part).i32(32 - distance).simd("i32x4ShrU");
      return code.simd("v128Or");
    });
  };
};

const vectorLogic = { i32And: "v128And", i32Or: "v128Or", i32Xor: "v128Xor" } as const;

const logicOfThree: GangForm = (gang, i) => {
  const table = i.operands[4];
  if (table?.kind !== "integer" || table.value < 0n || table.value > 0xffn) return undefined;
  return () => {
    const { code } = gang;
    const inputs = i.operands.slice(1, 4).map((operand) => gang.vector(i, { operand }));
    const emit = (term: LogicTerm, part: number): void => {
      if (term.kind === "input") {
        inputs[term.index]!(part);
      } else if (term.kind === "constant") {
        code.i32x4([term.value, term.value, term.value, term.value]);
      } else {
        emit(term.left, part);
        emit(term.right, part);
        code.simd(vectorLogic[term.operation]);
      }
    };
    gang.assignVectors(destinationOf(i), (part) => {
      emit(shortestLogic(Number(table.value)), part);
      return code;
    });
  };
};

/** The gang form of `prmt` with a literal selector that does not replicate signs. */
const permuteBytes: GangForm = (gang, i) => {
  const [, a, b, selectors] = i.operands;
  if (selectors?.kind !== "integer") return undefined;
  const picks = [0, 1, 2, 3].map((byte) => Number(selectors.value >> BigInt(4 * byte) & 15n));
  if (picks.some((pick) => pick > 7)) return undefined;
  // The indices of the result's bytes in the two source vectors.
  const bytes = [0, 4, 8, 12].flatMap((lane) => picks.map((pick) => lane + (pick < 4 ? pick : 12 + pick)));
  return () => {
    const pushA = gang.vector(i, { operand: a }), pushB = gang.vector(i, { operand: b });
    gang.assignVectors(destinationOf(i), (part) => {
      pushA(part);
      return pushB(part).i8x16Shuffle(bytes);
    });
  };
};

const select: GangForm = (gang, i) => () => {
  const { code } = gang;
  const [, a, b, predicate] = i.operands;
  const pushA = gang.vector(i, { operand: a });
  const pushB = gang.vector(i, { operand: b });
  const mask = gang.maskVectors(predicate);
  gang.assignVectors(destinationOf(i), (part) => {
    pushA(part);
    pushB(part);
    mask(part);
    return code.simd("v128Bitselect");
  });
};

/** The gang form of `cvt` between 32-bit floats and integers, for conversions that are a single vector instruction. */
const convert: GangForm = (gang, i) => {
  const { sourceType: from, type: to } = i;
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
    const push = gang.vector(i, { operand: i.operands[1], type: from, anyNaN: from.kind === "float" });
    gang.assignVectors(destinationOf(i), (part) => push(part).simd(operation));
  };
};

/**
 * Returns a gang form that uses `emit` if the destination is a predicate, which is stored as a mask, and the form
 * `numbers` otherwise. Instructions on predicates that have a modifier are executed for one thread at a time.
 */
function alsoOnMasks(numbers: GangForm, emit: (gang: GangEmitter, i: CompiledInstruction) => void): GangForm {
  return (gang, i) => {
    if (i.type.kind !== "predicate") return numbers(gang, i);
    const [destination] = i.operands;
    if (destination?.kind !== "register" || !hasOnlyModifiers(i, [])) return undefined;
    return () => {
      emit(gang, i);
      gang.assignMask(destination);
    };
  };
}

/** Returns the gang form of a bitwise operation on two operands, which are both predicates or both numbers. */
function logic(onMasks: OpName, onNumbers: SimdOpName): GangForm {
  return alsoOnMasks(onWords(inOrder(onNumbers)), (gang, { operands: [, a, b] }) => {
    gang.pushMask(a);
    gang.pushMask(b);
    gang.code.ops(onMasks);
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

/**
 * Emits code that combines the mask on the stack, the result of a comparison, with the predicate operand, if there is
 * one.
 */
function combine(gang: GangEmitter, i: CompiledInstruction): void {
  const combination = i.choices.get("combine");
  if (combination === undefined) return;
  gang.pushMask(i.operands[3]);
  gang.code.ops(combination === "and" ? "i32And" : combination === "or" ? "i32Or" : "i32Xor");
}

/** The gang form of `setp`. */
export const gangComparison: GangForm = (gang, i) => {
  const { type, choices } = i;
  const [destination, a, b, combined] = i.operands;
  if (destination?.kind !== "register" || !hasOnlyModifiers(i, ["compare", "combine"])) return undefined;
  if (choices.has("combine") !== (combined !== undefined)) return undefined;
  const ordered = compareOrdered(gang, i);
  if (ordered !== undefined) return ordered;
  const isFloat = type.kind === "float";
  const isDouble = isFloat && type.bits === 64;
  if (isDouble ? !gang.hasDoubles(a) || !gang.hasDoubles(b) : type.bits !== 32) return undefined;
  if (!isDouble && (!gang.hasVectors(a) || !gang.hasVectors(b))) return undefined;
  const comparison = choices.get("compare")!;
  const [signed, unsigned] = integerComparisons[comparison] ?? [];
  const [operation, isNegated] = isFloat
    ? (isDouble ? comparisonsOfDoubles : floatComparisons)[comparison] ?? []
    : [`i32x4${type.kind === "signed" || signed === "Eq" || signed === "Ne" ? signed : unsigned}` as SimdOpName, false];
  if (operation === undefined) return undefined;
  return () => {
    const { code, emitter: e } = gang;
    const [pushA, pushB] = [a, b].map((operand) => {
      return isDouble ? gang.doubles(operand) : gang.vector(i, { operand, anyNaN: isFloat });
    });
    const compare = (part: number) => {
      pushA!(part);
      return pushB!(part).simd(operation);
    };
    const outcomes = Array.from({ length: gang.vectors }, (_, part) => {
      const outcome = e.newLocal("v128");
      if (isDouble) gang.narrow(compare, part);
      else compare(part);
      code.set(outcome);
      return outcome;
    });
    gang.pushGathered(outcomes);
    if (isNegated) code.i32(gang.wholeMask).ops("i32Xor");
    combine(gang, i);
    gang.assignMask(destination);
    if (!isNegated && combined === undefined) gang.noteMaskVectors(destination, outcomes);
  };
};

/** Maps each comparison to the equivalent one with swapped operands. */
const mirrored: Readonly<Record<string, string>> = {
  ...{ lt: "gt", le: "ge", gt: "lt", ge: "le", lo: "hi", ls: "hs", hi: "lo", hs: "ls" },
};
const names: Readonly<Record<string, string>> = { lo: "lt", ls: "le", hi: "gt", hs: "ge" };

/**
 * Returns vector code for a comparison of a strided value with a uniform value. Usually, the result is the same for all
 * threads of the gang, and the emitted code determines it from the values of the first and the last thread. If the
 * results differ or a value in between may wrap around, the code compares one thread at a time instead.
 */
function compareOrdered(gang: GangEmitter, i: CompiledInstruction): EmitVectors | undefined {
  const { type, choices, form } = i;
  const [destination, a, b] = i.operands;
  const comparison = choices.get("compare")!;
  if (type.kind !== "signed" && type.kind !== "unsigned" || type.bits < 32 || choices.has("combine")) return undefined;
  if (mirrored[comparison] === undefined || destination?.kind !== "register") return undefined;
  const hasWidth = (operand: ResolvedOperand | undefined) =>
    operand?.kind !== "register" || operand.type.bits === type.bits;
  if (!hasWidth(a) || !hasWidth(b)) return undefined;
  const [first, second] = [a!, b!].map(gang.uniformity.strideOf);
  const isMirrored = first === 0n;
  const stride = isMirrored ? second : first;
  if (stride === undefined || stride === 0n || (isMirrored ? first : second) !== 0n) return undefined;
  const span = (stride < 0n ? -stride : stride) * BigInt(gang.width - 1);
  if (span >= 1n << BigInt(type.bits - 1)) return undefined;
  const relation = isMirrored ? mirrored[comparison]! : comparison;
  const operation = names[relation] ?? relation;
  const isWithEqual = operation === "le" || operation === "gt";
  const isNegated = operation === "ge" || operation === "gt";
  return () => {
    const { code, emitter: e } = gang;
    const wide = type.bits === 64;
    const value = wide ? "i64" : "i32";
    const op = (name: string) => `${value}${name}` as OpName;
    const constant = (number: bigint) => wide ? code.i64(number) : code.i32(Number(BigInt.asIntN(32, number)));
    const least = e.temporary(value), limit = e.temporary(value);
    const push = (operand: ResolvedOperand | undefined, { isLeast, local }: { isLeast: boolean; local: number }) => {
      e.push(operand, type);
      if (isLeast && stride < 0n) constant(span).ops(op("Sub"));
      // Adding half the range to signed values maps them to unsigned values in the same order.
      if (type.kind === "signed") constant(1n << BigInt(type.bits - 1)).ops(op("Xor"));
      code.set(local);
    };
    push(isMirrored ? b : a, { isLeast: true, local: least });
    push(isMirrored ? a : b, { isLeast: false, local: limit });
    code.get(least).get(limit).ops(op(isWithEqual ? "LeU" : "LtU"));
    code.get(limit).get(least).ops(op("Sub"));
    constant(span).ops(op(isWithEqual ? "GeU" : "GtU"), "i32And").if("i32").i32(isNegated ? 0 : gang.wholeMask).else();
    code.get(least).get(limit).ops(op(isWithEqual ? "GtU" : "GeU")).get(least);
    constant(-1n - span).ops(op("LeU"), "i32And").if("i32").i32(isNegated ? gang.wholeMask : 0).else();
    gang.emitMembers(i, form.emit!);
    code.get(e.registerLocal(destination)).end().end();
    gang.assignMask(destination);
  };
}

/** Returns a gang form that tries `first` and, if it returns undefined, `second`. */
function either(first: GangForm, second: GangForm): GangForm {
  return (gang, i) => first(gang, i) ?? second(gang, i);
}

/** The gang form of `selp`. */
export const gangSelection: GangForm = either(onWords(select), selectDoubles);
/** The gang form of `cvt`. */
export const gangConversion: GangForm = either(
  onWords(convert, { implemented: ["from", "rounding"] }),
  convertToDoubles,
);
/** The gang form of `mov`. */
export const gangMove: GangForm = alsoOnMasks(either(onWords(move), moveDoubles), (gang, { operands: [, a] }) => {
  gang.pushMask(a);
});

type IntegerGangForm =
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

/** The gang forms of instructions on integers and untyped bits. */
export const integerGangForms: Readonly<Record<IntegerGangForm, GangForm>> = {
  add: onWords(inOrder("i32x4Add")),
  subtract: onWords(inOrder("i32x4Sub")),
  multiply: onWords(multiplyLow, { implemented: ["lo"] }),
  minimum: onWords(bySign("i32x4MinS", "i32x4MinU")),
  maximum: onWords(bySign("i32x4MaxS", "i32x4MaxU")),
  absolute: onWords(inOrder("i32x4Abs")),
  negate: onWords(inOrder("i32x4Neg")),
  and: logic("i32And", "v128And"),
  or: logic("i32Or", "v128Or"),
  xor: logic("i32Xor", "v128Xor"),
  not: alsoOnMasks(onWords(inOrder("v128Not")), (gang, { operands: [, a] }) => {
    gang.pushMask(a).i32(gang.wholeMask).ops("i32Xor");
  }),
  shiftLeft: onWords(shift("left")),
  shiftRight: onWords(shift("right")),
  funnelShift: onWords(funnelShift, { implemented: ["direction", "mode", "b32"] }),
  logicOfThree: onWords(logicOfThree),
  permuteBytes: onWords(permuteBytes),
};

type FloatGangForm =
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

/** The gang forms of instructions on 32-bit floats. */
export const floatGangForms: Readonly<Record<FloatGangForm, GangForm>> = {
  add: onWords(rounded("f32x4Add"), { implemented: ["rounding"] }),
  subtract: onWords(rounded("f32x4Sub"), { implemented: ["rounding"] }),
  multiply: onWords(rounded("f32x4Mul"), { implemented: ["rounding"] }),
  multiplyAdd: onWords(multiplyAddFloats, { implemented: ["rounding"] }),
  divide: onWords(rounded("f32x4Div"), { implemented: ["rounding"] }),
  squareRoot: onWords(rounded("f32x4Sqrt"), { implemented: ["rounding"] }),
  absolute: onWords(inOrder("f32x4Abs")),
  negate: onWords(inOrder("f32x4Neg")),
  minimum: onWords(extremeFloats("f32x4Min")),
  maximum: onWords(extremeFloats("f32x4Max")),
};

const multiplyAddDoubles: GangForm = (gang, i) => {
  return gang.emitter.options.fusedMultiplyAdd ? onDoubles("f64x2RelaxedMadd")(gang, i) : undefined;
};

type DoubleGangForm = "add" | "subtract" | "multiply" | "multiplyAdd" | "divide" | "squareRoot" | "absolute" | "negate";

/** The gang forms of instructions on 64-bit floats. */
export const doubleGangForms: Readonly<Record<DoubleGangForm, GangForm>> = {
  add: onDoubles("f64x2Add"),
  subtract: onDoubles("f64x2Sub"),
  multiply: onDoubles("f64x2Mul"),
  multiplyAdd: multiplyAddDoubles,
  divide: onDoubles("f64x2Div"),
  squareRoot: onDoubles("f64x2Sqrt"),
  absolute: onDoubles("f64x2Abs"),
  negate: onDoubles("f64x2Neg"),
};
