/**
 * Comparisons: `setp` and `set`. PTX ISA, sections 9.7.6 and 9.7.7.
 *
 * @module
 */
import { pushFloat } from "./float_instructions.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import {
  elementsOf,
  flushHalfBits,
  holdBits,
  isHalf,
  packElements,
  pushElement,
  widenHalf,
} from "./half_instructions.ts";
import type { Emit } from "../instruction_form.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { OpName } from "../../webassembly/opcodes.ts";

const predicate = typeNamed("pred");

/** Maps each integer comparison of PTX to the signed and the unsigned comparison of WebAssembly. */
export const integerComparisons: Readonly<Record<string, readonly [signed: string, unsigned: string]>> = {
  eq: ["Eq", "Eq"],
  ne: ["Ne", "Ne"],
  lt: ["LtS", "LtU"],
  le: ["LeS", "LeU"],
  gt: ["GtS", "GtU"],
  ge: ["GeS", "GeU"],
  lo: ["LtU", "LtU"],
  ls: ["LeU", "LeU"],
  hi: ["GtU", "GtU"],
  hs: ["GeU", "GeU"],
};

/**
 * Maps each float comparison of PTX to a comparison of WebAssembly and whether its result must be negated. For NaN,
 * WebAssembly's comparisons are false, except `ne`, which is true. PTX's comparisons without a `u` are false for NaN,
 * including `ne`. PTX's comparisons with a `u` are true for NaN, so they are compiled as the opposite comparison,
 * negated.
 */
const floatComparisons: Readonly<Record<string, readonly [operation: string, negated: boolean]>> = {
  eq: ["Eq", false],
  lt: ["Lt", false],
  le: ["Le", false],
  gt: ["Gt", false],
  ge: ["Ge", false],
  neu: ["Ne", false],
  ltu: ["Ge", true],
  leu: ["Gt", true],
  gtu: ["Le", true],
  geu: ["Lt", true],
};

/** Emits code that pushes the result of a comparison, 0 or 1. */
function pushComparison(e: FunctionEmitter, i: ResolvedInstruction, [a, b]: readonly ResolvedOperand[]): void {
  const comparison = i.choices.get("compare")!;
  const { type } = i;
  if (type.kind === "float") {
    compareFloats(e, comparison, {
      value: type.value === "f64" ? "f64" : "f32",
      push: [() => pushFloat(e, i, a), () => pushFloat(e, i, b)],
    });
    return;
  }
  if (type.kind === "bits" && comparison !== "eq" && comparison !== "ne") {
    e.fail(`.${comparison} cannot compare untyped bits: use .eq or .ne`);
  }
  if (type.kind === "signed" && ["lo", "ls", "hi", "hs"].includes(comparison)) {
    e.fail(`.${comparison} needs an unsigned type`);
  }
  // Equality does not depend on how numbers are extended, and registers contain narrow numbers zero-extended.
  const ignoresSign = comparison === "eq" || comparison === "ne";
  const read = ignoresSign && type.kind === "signed" ? typeNamed(`u${type.bits}`) : type;
  e.push(a, read);
  e.push(b, read);
  const [signed, unsigned] = integerComparisons[comparison]!;
  e.code.ops(`${type.value}${type.kind === "signed" ? signed : unsigned}` as OpName);
}

/**
 * Emits code that compares two floats of 32 or 64 bits. The two functions in `push` emit the code that pushes the
 * operands.
 */
function compareFloats(
  e: FunctionEmitter,
  comparison: string,
  { value, push: [pushFirst, pushSecond] }: {
    value: "f32" | "f64";
    push: readonly [first: () => void, second: () => void];
  },
): void {
  const simple = floatComparisons[comparison];
  pushFirst();
  if (simple !== undefined) {
    pushSecond();
    e.code.ops(`${value}${simple[0]}` as OpName);
    if (simple[1]) e.code.ops("i32Eqz");
    return;
  }
  const x = e.temporary(value), y = e.temporary(value);
  e.code.set(x);
  pushSecond();
  e.code.set(y);
  const compare = (first: number, second: number, operation: string) =>
    e.code.get(first).get(second).ops(`${value}${operation}` as OpName);
  switch (comparison) {
    case "ne":
    case "equ":
      compare(x, y, "Lt");
      compare(x, y, "Gt").ops("i32Or");
      if (comparison === "equ") e.code.ops("i32Eqz");
      break;
    case "num":
      compare(x, x, "Eq");
      compare(y, y, "Eq").ops("i32And");
      break;
    case "nan":
      compare(x, x, "Ne");
      compare(y, y, "Ne").ops("i32Or");
      break;
  }
}

/**
 * Emits code that copies the operands of a comparison of 16-bit floats to locals. The returned function pushes the
 * result for the elements at a given index.
 */
function halfComparison(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  operands: readonly ResolvedOperand[],
): { readonly count: number; readonly push: (index: number) => void } {
  const { element, count } = elementsOf(i.type);
  const [a = 0, b = 0] = holdBits(e, i.type, operands.slice(0, 2));
  const flushes = i.choices.has("ftz");
  const pushNumber = (local: number, index: number) => {
    pushElement(e, local, { index, count });
    if (flushes) flushHalfBits(e);
    widenHalf(e, element);
  };
  const push = (index: number) =>
    compareFloats(e, i.choices.get("compare")!, {
      value: "f32",
      push: [() => pushNumber(a, index), () => pushNumber(b, index)],
    });
  return { count, push };
}

/**
 * Emits code that combines the comparison result on the stack with the predicate operand, if there is one, as `.and`,
 * `.or` or `.xor` specifies.
 */
function combine(e: FunctionEmitter, i: ResolvedInstruction): void {
  const combination = i.choices.get("combine");
  const operand = i.operands[3];
  if ((combination === undefined) !== (operand === undefined)) {
    e.fail("a predicate as last operand needs one of .and, .or and .xor, and each of these needs the predicate");
  }
  if (combination === undefined) return;
  e.push(operand, predicate);
  e.code.ops(combination === "and" ? "i32And" : combination === "or" ? "i32Or" : "i32Xor");
}

/** Emits code for `setp` with one result, or with two results, the second of which is for the opposite comparison. */
export const setPredicate: Emit = (e, i) => {
  const [destination, ...compared] = i.operands;
  if (isHalf(i.type)) {
    setHalfPredicate(e, i);
    return;
  }
  const outcome = e.temporary("i32"), first = e.temporary("i32"), second = e.temporary("i32");
  pushComparison(e, i, compared);
  if (destination?.kind !== "pair") {
    e.assign(destination, predicate, () => combine(e, i));
    return;
  }
  e.code.set(outcome).get(outcome);
  combine(e, i);
  e.code.set(first).get(outcome).ops("i32Eqz");
  combine(e, i);
  e.code.set(second);
  e.assign(destination.first, predicate, () => e.code.get(first));
  e.assign(destination.second, predicate, () => e.code.get(second));
};

/** Emits code for `setp` of packed 16-bit floats, with one result for each pair of elements. */
function setHalfPredicate(e: FunctionEmitter, i: ResolvedInstruction): void {
  const [destination, ...compared] = i.operands;
  const { count, push } = halfComparison(e, i, compared);
  const outcomes = Array.from({ length: count }, (_, index) => {
    const outcome = e.temporary("i32");
    push(index);
    combine(e, i);
    e.code.set(outcome);
    return outcome;
  });
  const [first = 0, second] = outcomes;
  if (destination?.kind === "pair" && second === undefined) {
    e.fail("it needs one result for each element that it compares: p|q for two");
  }
  // The manual requires two results for two elements. If there is only one result, ptxas compiles the comparison of the
  // first elements.
  if (destination?.kind !== "pair") {
    e.assign(destination, predicate, () => e.code.get(first));
    return;
  }
  e.assign(destination.first, predicate, () => e.code.get(first));
  e.assign(destination.second, predicate, () => e.code.get(second!));
}

/** Emits code for `set`: the result is all ones or 1.0 if the comparison is true, else 0. */
export const setValue: Emit = (e, i) => {
  const result = typeNamed(i.choices.get("result")!);
  const compared = i.operands.slice(1);
  if (i.choices.has("ftz") && result.name === "bf16") e.fail(".ftz cannot be combined with a .bf16 result");
  e.assign(i.operands[0], result, () => {
    if (!isHalf(i.type)) {
      pushComparison(e, i, compared);
      combine(e, i);
      pushTruth(e, result.name);
      return;
    }
    const { count, push } = halfComparison(e, i, compared);
    packElements(e, count, (index) => {
      push(index);
      combine(e, i);
      pushTruth(e, count === 1 ? result.name : isHalf(result) ? elementsOf(result).element.name : "u16");
    });
  });
};

/** Emits code that converts the 0 or 1 on the stack to the result of `set` in the type with the given name. */
function pushTruth(e: FunctionEmitter, name: string): void {
  const { code } = e;
  if (name === "f32") {
    code.ops("f32ConvertI32U");
    return;
  }
  const outcome = e.temporary("i32");
  const one = name === "f16" ? 0x3c00 : name === "bf16" ? 0x3f80 : name.endsWith("16") ? 0xffff : -1;
  code.set(outcome).i32(one).i32(0).get(outcome).ops("select");
}
