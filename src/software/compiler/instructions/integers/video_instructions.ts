/**
 * Scalar and SIMD video instructions. PTX ISA, section 9.7.18.
 *
 * An operand of a scalar instruction may be a byte or a half of its register, and the result may replace a byte or a
 * half of a third operand. SIMD instructions compute with the halves or the bytes of registers. The elements of each
 * operand are selected from both sources. The results replace elements of a third source, or are added to it.
 *
 * GPUs since `sm_50` have no scalar video instructions: ptxas expands them to others, which compute with 64 bits. Their
 * results are not always those of the manual's pseudocode. These lowerings give the results of an H200 with ptxas 13.0;
 * a comment that begins with "Unlike the manual" marks each deviation.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { clampSigned32, clampSigned64, pushPart, repeatable, s32, u32 } from "./integer_instructions.ts";
import type { ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";

/** The bits of a register that are selected by a selector such as `.h1`. */
export interface RegisterPart {
  readonly first: number;
  readonly bits: number;
}

/**
 * Returns the part of an operand that is selected by the operand's selector. Undefined if the whole register is used.
 */
export function selectedPart(e: FunctionEmitter, i: ResolvedInstruction, index: number): RegisterPart | undefined {
  const selector = i.choices.get(`selector${index}`);
  if (selector === undefined) return undefined;
  const bits = selector[0] === "h" ? 16 : 8;
  const part = Number(selector.slice(1));
  if (selector.length !== 2 || (part + 1) * bits > 32) e.fail(`".${selector}" is no byte and no half of a register`);
  return { first: part * bits, bits };
}

/**
 * Emits code that pushes an operand, or its selected part, as an i64, sign-extended if `isSigned`, else zero-extended.
 */
function pushSelected(e: FunctionEmitter, i: ResolvedInstruction, index: number, isSigned: boolean): void {
  e.push(i.operands[index], isSigned ? s32 : u32);
  const part = selectedPart(e, i, index);
  if (part !== undefined) pushPart(e, { ...part, isSigned });
  e.code.ops(isSigned ? "i64ExtendI32S" : "i64ExtendI32U");
}

/** Reports a compilation error if an operand is negated, unless the instruction allows negation. */
function checkNegations(e: FunctionEmitter, i: ResolvedInstruction, allowed: boolean): void {
  if (!allowed && [1, 2, 3].some((index) => i.choices.has(`negated${index}`))) e.fail("its operands cannot be negated");
}

/** Emits code that pops two i64, and pushes their minimum or maximum. */
function pushExtreme(e: FunctionEmitter, which: "min" | "max", { isSigned = true } = {}): void {
  const { code } = e;
  const a = e.temporary("i64"), b = e.temporary("i64");
  const comparison = `i64${which === "min" ? "Lt" : "Gt"}${isSigned ? "S" : "U"}` as const;
  code.set(b).set(a).get(a).get(b).get(a).get(b).ops(comparison, "select");
}

/** Emits code that truncates the i64 on the stack to a number of bits, and sign-extends it. */
function wrapSigned(e: FunctionEmitter, bits: number): void {
  const distance = BigInt(64 - bits);
  e.code.i64(distance).ops("i64Shl").i64(distance).ops("i64ShrS");
}

/** Emits code that clamps the i64 on the stack to the range of 32-bit integers. */
function clampToWord(e: FunctionEmitter, isSigned: boolean): void {
  if (isSigned) clampSigned64(e, -(1n << 31n), (1n << 31n) - 1n);
  else clampSigned64(e, 0n, (1n << 32n) - 1n);
}

/** Emits code for `.sat` of `vadd`, `vsub`, `vabsdiff`, `vmin` and `vmax`. */
function saturate(e: FunctionEmitter, { bits, isSigned }: { bits: number; isSigned: boolean }): void {
  if (bits < 32) {
    // Contrary to the manual, a negative result becomes the largest number, because the comparison is unsigned.
    e.code.i64((1n << BigInt(isSigned ? bits - 1 : bits)) - 1n);
    pushExtreme(e, "min", { isSigned: false });
  } else if (isSigned) {
    clampToWord(e, isSigned);
  } else {
    // Contrary to the manual, only negative results are clamped. A positive result of more than 32 bits wraps around.
    e.code.i64(0n);
    pushExtreme(e, "max");
  }
}

/**
 * Emits code that pops the intermediate result of an instruction, and assigns the final result: the result of the
 * second operation, or the third source with the intermediate result inserted at the selected part.
 */
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
  const result = e.temporary("i64");
  code.set(result);
  e.assign(destination, type, () => {
    code.get(result);
    if (second === "min" || second === "max") {
      // Contrary to the manual, the second operations `min` and `max` compare 64 bits. If the type is unsigned, they
      // compare negative results as large unsigned numbers.
      e.push(c, type);
      code.ops(isSigned ? "i64ExtendI32S" : "i64ExtendI32U");
      pushExtreme(e, second, { isSigned });
      code.ops("i32WrapI64");
      return;
    }
    code.ops("i32WrapI64");
    if (second === "add") {
      e.push(c, type);
      code.ops("i32Add");
    } else if (part !== undefined) {
      const mask = (part.bits === 16 ? 0xffff : 0xff) << part.first;
      // Contrary to the manual, `.h1` stores the upper half of the result, and all other selectors store its lowest
      // bits.
      if (part.bits < 16 || part.first === 0) code.i32(part.first).ops("i32Shl");
      code.i32(mask).ops("i32And");
      e.push(c, type);
      code.i32(~mask).ops("i32And", "i32Or");
    }
  });
}

function isSignedChoice({ choices }: ResolvedInstruction, slot: string): boolean {
  return choices.get(slot) === "s32";
}

/** Returns the lowering of `vadd`, `vsub`, `vabsdiff`, `vmin` and `vmax`. */
export function videoArithmetic(operation: "add" | "sub" | "absdiff" | "min" | "max"): Emit {
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
    const isSigned = isSignedChoice(i, "type");
    if (i.choices.has("sat")) saturate(e, { bits: selectedPart(e, i, 0)?.bits ?? 32, isSigned });
    // Contrary to the manual, sums and differences are truncated to 32 bits and sign-extended before the second
    // operation reads them.
    if (operation === "add" || operation === "sub") wrapSigned(e, 32);
    finish(e, i, isSigned);
  };
}

/** Returns the lowering of `vshl` and `vshr`. */
export function videoShift(direction: "left" | "right"): Emit {
  return (e, i) => {
    const { code } = e;
    checkNegations(e, i, false);
    pushSelected(e, i, 1, isSignedChoice(i, "first"));
    pushSelected(e, i, 2, false);
    if (i.choices.get("mode") === "wrap") code.i64(31n).ops("i64And");
    else clampSigned64(e, 0n, 32n);
    code.ops(direction === "left" ? "i64Shl" : "i64ShrS");
    const isSigned = isSignedChoice(i, "type");
    if (i.choices.has("sat")) {
      // As in the manual, the result is first truncated to 34 bits. There are three deviations from the manual: only
      // `vshl` and `vshr` truncate, the result is clamped to 32 bits even if a part of the destination is selected, and
      // the second operation reads the sign-extended result.
      wrapSigned(e, 34);
      clampToWord(e, isSigned);
      wrapSigned(e, 32);
    }
    finish(e, i, isSigned);
  };
}

/**
 * Emits code for `vset`: the result is 1 if the comparison is true, else 0. Contrary to the manual, the second
 * operation has the type of the first source.
 */
export const videoComparison: Emit = (e, i) => {
  checkNegations(e, i, false);
  const isSigned = isSignedChoice(i, "first");
  pushSelected(e, i, 1, isSigned);
  pushSelected(e, i, 2, isSignedChoice(i, "second"));
  const comparison = i.choices.get("compare") as keyof typeof comparisons;
  e.code.ops(`i64${comparisons[comparison]}`, "i64ExtendI32U");
  finish(e, i, isSigned);
};

/** Maps the modifiers of comparisons to WebAssembly's signed comparisons. */
const comparisons = { eq: "Eq", ne: "Ne", lt: "LtS", le: "LeS", gt: "GtS", ge: "GeS" } as const;

/** Emits code for `vmad`: a product, plus a third operand, plus 1 with `.po`, shifted right. */
export const videoMultiplyAdd: Emit = (e, i) => {
  const { code } = e;
  const { choices } = i;
  const types = [isSignedChoice(i, "first"), isSignedChoice(i, "second")] as const;
  const isNegated = choices.has("negated1") !== choices.has("negated2");
  const isSumNegated = choices.has("negated3");
  if (isNegated && isSumNegated) e.fail("either the product or the third source can be negated, not both");
  if (choices.has("po") && [1, 2, 3].some((index) => choices.has(`negated${index}`))) {
    e.fail(".po cannot be combined with negated sources");
  }
  if (choices.has("selector0") || choices.has("selector3")) e.fail("only its factors can be parts of a register");
  const isSigned = types.includes(true) || isNegated || isSumNegated;
  if (isNegated) code.i64(0n);
  // Contrary to the manual, factors that are whole registers are read as signed even if their type is unsigned. Factors
  // that are parts of registers have the signedness of their type.
  types.forEach((isSignedFactor, at) => {
    pushSelected(e, i, at + 1, isSignedFactor || selectedPart(e, i, at + 1) === undefined);
  });
  code.ops("i64Mul");
  if (isNegated) code.ops("i64Sub");
  e.push(i.operands[3], s32);
  code.ops("i64ExtendI32S", isSumNegated ? "i64Sub" : "i64Add");
  if (choices.has("po")) code.i64(1n).ops("i64Add");
  // An unsigned result is shifted as an unsigned 64-bit number, so that a negative sum becomes a large number.
  const distance = BigInt(choices.get("scale")?.slice(3) ?? 0);
  if (distance > 0n) code.i64(distance).ops(isSigned ? "i64ShrS" : "i64ShrU");
  if (choices.has("sat")) clampToWord(e, isSigned);
  const result = e.temporary("i64");
  code.set(result);
  e.assign(i.operands[0], u32, () => code.get(result).ops("i32WrapI64"));
};

type Operation = "add" | "sub" | "avrg" | "absdiff" | "min" | "max" | "set";

/**
 * Returns the element numbers in a selector, beginning with the one for the lowest element of the result. `otherwise`
 * is the default selector.
 */
function selectedElements(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { index, count, otherwise }: { index: number; count: 2 | 4; otherwise: string },
): number[] {
  const letter = count === 2 ? "h" : "b";
  const selector = i.choices.get(`selector${index}`) ?? letter + otherwise;
  const digits = [...selector.slice(1)].map(Number).reverse();
  // A destination selects its elements in ascending order, and may select fewer than `count`. A source operand selects
  // `count` of the elements of both sources.
  const isMask = index === 0;
  const isValid = selector[0] === letter && digits.every((digit) => digit < (isMask ? count : 2 * count)) &&
    (isMask ? digits.every((digit, at) => at === 0 || digits[at - 1]! < digit) : digits.length === count);
  if (!isValid) e.fail(`the selector ".${selector}" does not fit this operand`);
  return digits;
}

/** Emits code that pops two elements of up to 16 bits, and pushes the result without truncating it. */
function pushResult(e: FunctionEmitter, i: ResolvedInstruction, operation: Operation): void {
  const { code } = e;
  const a = e.temporary("i32"), b = e.temporary("i32");
  code.set(b).set(a);
  switch (operation) {
    case "add":
      code.get(a).get(b).ops("i32Add");
      break;
    case "sub":
      code.get(a).get(b).ops("i32Sub");
      break;
    case "avrg":
      // The average: half of the sum, rounded up if the sum is not negative, else rounded down.
      code.get(a).get(b).ops("i32Add").tee(a).get(a).i32(0).ops("i32GeS", "i32Add").i32(1).ops("i32ShrS");
      break;
    case "absdiff":
      code.get(a).get(b).ops("i32Sub").get(b).get(a).ops("i32Sub").get(a).get(b).ops("i32GtS", "select");
      break;
    case "min":
    case "max":
      code.get(a).get(b).get(a).get(b).ops(operation === "min" ? "i32LtS" : "i32GtS", "select");
      break;
    case "set":
      code.get(a).get(b).ops(`i32${comparisons[i.choices.get("compare") as keyof typeof comparisons]}`);
  }
}

/** Returns the lowering of a SIMD video instruction, such as `vadd2` or `vset4`, on `count` packed elements. */
export function onElements(operation: Operation, count: 2 | 4): Emit {
  const bits = 32 / count;
  return (e, i) => {
    const { code } = e;
    const { choices } = i;
    checkNegations(e, i, false);
    if (choices.has("selector3")) e.fail("its third source cannot have a selector");
    if (i.operands.slice(1).some(({ kind }) => kind === "integer")) e.refuse("its sources must be registers");
    const mask = selectedElements(e, i, { index: 0, count, otherwise: count === 2 ? "10" : "3210" });
    const [first, second] = [
      selectedElements(e, i, { index: 1, count, otherwise: count === 2 ? "10" : "3210" }),
      selectedElements(e, i, { index: 2, count, otherwise: count === 2 ? "32" : "7654" }),
    ];
    const sources = [repeatable(e, i.operands[1], u32), repeatable(e, i.operands[2], u32)] as const;
    const pushElement = (element: number, slot: string) => {
      sources[element < count ? 0 : 1]();
      pushPart(e, { first: element % count * bits, bits, isSigned: choices.get(slot) === "s32" });
    };
    const isSum = choices.has("add");
    const kept = isSum ? -1 : mask.reduce((kept, element) => kept & ~((2 ** bits - 1) << element * bits), -1);
    e.assign(i.operands[0], u32, () => {
      e.push(i.operands[3], u32);
      code.i32(kept).ops("i32And");
      for (const element of mask) {
        pushElement(first[element]!, "first");
        pushElement(second[element]!, "second");
        pushResult(e, i, operation);
        if (choices.has("sat")) {
          if (choices.get("type") === "s32") clampSigned32(e, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1);
          else clampSigned32(e, 0, 2 ** bits - 1);
        }
        if (isSum) code.ops("i32Add");
        else code.i32(2 ** bits - 1).ops("i32And").i32(element * bits).ops("i32Shl", "i32Or");
      }
    });
  };
}
