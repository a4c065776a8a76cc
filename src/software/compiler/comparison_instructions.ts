/**
 * `setp` and `set`: comparisons. PTX ISA, sections 9.7.5 and 9.7.6.
 *
 * @module
 */
import { pushFloat } from "./float_instructions.ts";
import type { FunctionEmitter } from "./function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { typeNamed } from "./scalar_types.ts";
import type { ResolvedOperand, TypedInstruction } from "./typed_instruction.ts";
import type { OpName } from "./wasm_encoder.ts";

const predicate = typeNamed("pred");

const integerComparisons: Readonly<Record<string, readonly [signed: string, unsigned: string]>> = {
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
 * WebAssembly's comparisons are false for NaN but for its `ne`, which is true. PTX's are false without a `u`, `ne` too,
 * and true with it: the opposite comparison, negated.
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

/** Pushes how the operands 1 and 2 compare, as 0 or 1. */
function pushComparison(e: FunctionEmitter, i: TypedInstruction, [a, b]: readonly ResolvedOperand[]): void {
  const comparison = i.choices.get("compare")!;
  const { type } = i;
  if (type.kind !== "float") {
    e.push(a, type);
    e.push(b, type);
    const [signed, unsigned] = integerComparisons[comparison]!;
    e.code.ops(`${type.value}${type.kind === "signed" ? signed : unsigned}` as OpName);
    return;
  }
  const simple = floatComparisons[comparison];
  if (simple !== undefined) {
    pushFloat(e, i, a);
    pushFloat(e, i, b);
    e.code.ops(`${type.value}${simple[0]}` as OpName);
    if (simple[1]) e.code.ops("i32Eqz");
    return;
  }
  const x = e.temporary(type.value), y = e.temporary(type.value);
  pushFloat(e, i, a);
  e.code.set(x);
  pushFloat(e, i, b);
  e.code.set(y);
  const compare = (first: number, second: number, operation: string) =>
    e.code.get(first).get(second).ops(`${type.value}${operation}` as OpName);
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

/** Combines the i32 on the stack with the predicate that the instruction may name last. */
function combine(e: FunctionEmitter, i: TypedInstruction): void {
  const combination = i.choices.get("combine");
  const operand = i.operands[3];
  if ((combination === undefined) !== (operand === undefined)) {
    e.fail("a predicate as last operand and a modifier .and, .or or .xor go together");
  }
  if (combination === undefined) return;
  e.push(operand, predicate);
  e.code.ops(combination === "and" ? "i32And" : combination === "or" ? "i32Or" : "i32Xor");
}

/** `setp`, with one result or with that and its opposite. */
export const setPredicate: Emit = (e, i) => {
  const [destination, ...compared] = i.operands;
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

/** `set`: all ones, or 1.0, for true. */
export const setValue: Emit = (e, i) => {
  const result = typeNamed(i.choices.get("result")!);
  e.assign(i.operands[0], result, () => {
    pushComparison(e, i, i.operands.slice(1));
    combine(e, i);
    if (result.kind === "float") {
      e.code.ops("f32ConvertI32U");
    } else {
      const outcome = e.temporary("i32");
      e.code.set(outcome).i32(0).get(outcome).ops("i32Sub");
    }
  });
};
