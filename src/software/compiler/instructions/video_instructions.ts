/**
 * Scalar video instructions. PTX ISA, section 9.7.18.1.
 *
 * An operand may be a byte or a half of its register, and the result may replace one in a third operand. The manual's
 * intermediate results have 34 bits, those of second operations 33, and those of `vmad` more.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import { type Emit, type InstructionForm, instructionForm } from "./instruction_form.ts";
import { pure } from "./instruction_traits.ts";
import { pushPart } from "./integer_instructions.ts";
import { clampSigned64, s32, u32 } from "./integer_lowering.ts";
import type { ResolvedInstruction } from "../typing/resolved_instruction.ts";

/** The part of a register that a selector such as `.h1` names. */
export interface RegisterPart {
  readonly first: number;
  readonly bits: number;
}

/** The part of an operand that is selected. Undefined for the whole register. */
export function selectedPart(e: FunctionEmitter, i: ResolvedInstruction, index: number): RegisterPart | undefined {
  const selector = i.choices.get(`selector${index}`);
  if (selector === undefined) return undefined;
  const bits = selector[0] === "h" ? 16 : 8;
  const part = Number(selector.slice(1));
  if (selector.length !== 2 || (part + 1) * bits > 32) e.fail(`".${selector}" is no byte and no half of a register`);
  return { first: part * bits, bits };
}

/** Pushes an operand or its selected part as an i64, extended by its type. */
function pushSelected(e: FunctionEmitter, i: ResolvedInstruction, index: number, isSigned: boolean): void {
  e.push(i.operands[index], isSigned ? s32 : u32);
  const part = selectedPart(e, i, index);
  if (part !== undefined) pushPart(e, { ...part, isSigned });
  e.code.ops(isSigned ? "i64ExtendI32S" : "i64ExtendI32U");
}

/** Refuses what only some video instructions have. */
export function checkNegations(e: FunctionEmitter, i: ResolvedInstruction, allowed: boolean): void {
  if (!allowed && [1, 2, 3].some((index) => i.choices.has(`negated${index}`))) e.fail("its operands cannot be negated");
}

/** Pushes the minimum or the maximum of two i64 on the stack. */
function pushExtreme(e: FunctionEmitter, which: "min" | "max"): void {
  const { code } = e;
  const a = e.temporary("i64"), b = e.temporary("i64");
  code.set(b).set(a).get(a).get(b).get(a).get(b).ops(which === "min" ? "i64LtS" : "i64GtS", "select");
}

/** Pops the intermediate result, and assigns what the modifiers make of it. */
function finish(e: FunctionEmitter, i: ResolvedInstruction, isSigned: boolean): void {
  const { code } = e;
  const { choices, operands: [destination, , , c] } = i;
  const part = selectedPart(e, i, 0);
  const second = choices.get("op2");
  if (second !== undefined && part !== undefined) {
    e.fail("it cannot have both a selected destination and a second operation");
  }
  if ((second !== undefined || part !== undefined) && c === undefined) e.fail("it needs a third source");
  const type = isSigned ? s32 : u32;
  if (choices.has("sat")) {
    const bits = BigInt(part?.bits ?? 32);
    if (isSigned) clampSigned64(e, -(1n << bits - 1n), (1n << bits - 1n) - 1n);
    else clampSigned64(e, 0n, (1n << bits) - 1n);
  }
  const result = e.temporary("i64");
  code.set(result);
  e.assign(destination, type, () => {
    if (second !== undefined && second !== "add") {
      // These compare 33 bits.
      code.get(result).i64(31n).ops("i64Shl").i64(31n).ops("i64ShrS");
      e.push(c, type);
      code.ops(isSigned ? "i64ExtendI32S" : "i64ExtendI32U");
      pushExtreme(e, second as "min" | "max");
      code.ops("i32WrapI64");
      return;
    }
    code.get(result).ops("i32WrapI64");
    if (second === "add") {
      e.push(c, type);
      code.ops("i32Add");
    } else if (part !== undefined) {
      const mask = part.bits === 16 ? 0xffff : 0xff;
      code.i32(mask).ops("i32And").i32(part.first).ops("i32Shl");
      e.push(c, type);
      code.i32(~(mask << part.first)).ops("i32And", "i32Or");
    }
  });
}

function isSignedChoice({ choices }: ResolvedInstruction, slot: string): boolean {
  return choices.get(slot) === "s32";
}

/** `vadd`, `vsub`, `vabsdiff`, `vmin` and `vmax` */
function arithmetic(operation: "add" | "sub" | "absdiff" | "min" | "max"): Emit {
  return (e, i) => {
    const { code } = e;
    checkNegations(e, i, false);
    pushSelected(e, i, 1, isSignedChoice(i, "first"));
    pushSelected(e, i, 2, isSignedChoice(i, "second"));
    if (operation === "add") code.ops("i64Add");
    else if (operation === "min" || operation === "max") pushExtreme(e, operation);
    else {
      code.ops("i64Sub");
      const difference = e.temporary("i64");
      if (operation === "absdiff") {
        code.set(difference).i64(0n).get(difference).ops("i64Sub").get(difference);
        code.get(difference).i64(0n).ops("i64LtS", "select");
      }
    }
    finish(e, i, isSignedChoice(i, "type"));
  };
}

/** `vshl` and `vshr`. Results of `vshl` wrap around at 34 bits. */
function shift(direction: "left" | "right"): Emit {
  return (e, i) => {
    const { code } = e;
    checkNegations(e, i, false);
    pushSelected(e, i, 1, isSignedChoice(i, "first"));
    pushSelected(e, i, 2, false);
    if (i.choices.get("mode") === "wrap") code.i64(31n).ops("i64And");
    else clampSigned64(e, 0n, 32n);
    if (direction === "left") code.ops("i64Shl").i64(30n).ops("i64Shl").i64(30n).ops("i64ShrS");
    else code.ops("i64ShrS");
    finish(e, i, isSignedChoice(i, "type"));
  };
}

/** `vset`: 1 or 0. The result and the third source are unsigned. */
const compare: Emit = (e, i) => {
  checkNegations(e, i, false);
  pushSelected(e, i, 1, isSignedChoice(i, "first"));
  pushSelected(e, i, 2, isSignedChoice(i, "second"));
  const comparison = i.choices.get("compare") as keyof typeof comparisons;
  e.code.ops(`i64${comparisons[comparison]}`, "i64ExtendI32U");
  finish(e, i, false);
};

/** The signed comparisons, by their modifiers. */
export const comparisons = { eq: "Eq", ne: "Ne", lt: "LtS", le: "LeS", gt: "GtS", ge: "GeS" } as const;

/** `vmad`: a product, plus a third operand, plus 1 with `.po`, divided by a power of two. The sum may need 65 bits. */
const multiplyAdd: Emit = (e, i) => {
  const { code } = e;
  const { choices } = i;
  const [firstSigned, secondSigned] = [isSignedChoice(i, "first"), isSignedChoice(i, "second")];
  const isNegated = choices.has("negated1") !== choices.has("negated2");
  const isSumNegated = choices.has("negated3");
  if (isNegated && isSumNegated) e.fail("either the product or the third source can be negated, not both");
  if (choices.has("po") && [1, 2, 3].some((index) => choices.has(`negated${index}`))) {
    e.fail(".po cannot be combined with negated sources");
  }
  if (choices.has("selector0") || choices.has("selector3")) e.fail("only its factors can be parts of a register");
  const isSigned = firstSigned || secondSigned || isNegated || isSumNegated;
  const low = e.temporary("i64"), high = e.temporary("i64"), term = e.temporary("i64");
  pushSelected(e, i, 1, firstSigned);
  pushSelected(e, i, 2, secondSigned);
  code.ops("i64Mul").set(low);
  if (firstSigned || secondSigned) code.get(low).i64(63n).ops("i64ShrS").set(high);
  else code.i64(0n).set(high);
  if (isNegated) { for (const half of [low, high]) code.get(half).i64(-1n).ops("i64Xor").set(half); }
  e.push(i.operands[3], u32);
  if (isSumNegated) code.i32(-1).ops("i32Xor");
  code.ops(isSigned ? "i64ExtendI32S" : "i64ExtendI32U").set(term);
  // Adds the term, with its sign and with the carry.
  code.get(low).get(term).ops("i64Add").tee(low).get(term).ops("i64LtU", "i64ExtendI32U");
  code.get(high).ops("i64Add");
  if (isSigned) code.get(term).i64(63n).ops("i64ShrS", "i64Add");
  code.set(high);
  if (choices.has("po") || isNegated || isSumNegated) {
    code.get(low).i64(1n).ops("i64Add").tee(low).ops("i64Eqz", "i64ExtendI32U").get(high).ops("i64Add").set(high);
  }
  const distance = BigInt(choices.get("scale")?.slice(3) ?? 0);
  if (distance > 0n) {
    code.get(low).i64(distance).ops("i64ShrU").get(high).i64(64n - distance).ops("i64Shl", "i64Or").set(low);
    code.get(high).i64(distance).ops("i64ShrS").set(high);
  }
  e.assign(i.operands[0], u32, () => {
    code.get(low);
    if (choices.has("sat")) {
      // A sum that does not fit into 64 bits is replaced by one that is as far out of range.
      if (isSigned) {
        code.get(high).i64(63n).ops("i64ShrS").i64((1n << 63n) - 1n).ops("i64Xor");
        code.get(low).i64(63n).ops("i64ShrS").get(high).ops("i64Eq", "select");
        clampSigned64(e, -(1n << 31n), (1n << 31n) - 1n);
      } else {
        code.i64(0xffff_ffffn).get(low).i64(0xffff_ffffn).ops("i64LtU", "select");
      }
    }
    code.ops("i32WrapI64");
  });
};

const types = "<type:u32|s32>.<first:u32|s32>.<second:u32|s32>";
const second = "<op2:add|min|max>?";
const operands = "d.sel, a.sel, b.sel [, c]";

/** The forms of these instructions. */
export const videoForms: readonly InstructionForm[] = ([
  [`vadd.${types}.sat?.${second} ${operands}`, "9.7.18.1.1", arithmetic("add")],
  [`vsub.${types}.sat?.${second} ${operands}`, "9.7.18.1.1", arithmetic("sub")],
  [`vabsdiff.${types}.sat?.${second} ${operands}`, "9.7.18.1.1", arithmetic("absdiff")],
  [`vmin.${types}.sat?.${second} ${operands}`, "9.7.18.1.1", arithmetic("min")],
  [`vmax.${types}.sat?.${second} ${operands}`, "9.7.18.1.1", arithmetic("max")],
  [`vshl.<type:u32|s32>.<first:u32|s32>.u32.sat?.<mode:clamp|wrap>.${second} ${operands}`, "9.7.18.1.2", shift("left")],
  [
    `vshr.<type:u32|s32>.<first:u32|s32>.u32.sat?.<mode:clamp|wrap>.${second} ${operands}`,
    "9.7.18.1.2",
    shift("right"),
  ],
  [`vmad.${types}.po?.sat?.<scale:shr7|shr15>? d, a.sel, b.sel, c`, "9.7.18.1.3", multiplyAdd],
  [`vset.<first:u32|s32>.<second:u32|s32>.<compare:eq|ne|lt|le|gt|ge>.${second} ${operands}`, "9.7.18.1.4", compare],
] as const).map(([syntax, section, lowering]) => instructionForm(syntax, section, { lowering, traits: pure }));
