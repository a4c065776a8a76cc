/**
 * SIMD video instructions, on the halves or the bytes of registers. PTX ISA, section 9.7.18.2.
 *
 * The elements of each source are selected from both sources. The results replace elements of a third source, or are
 * added to it.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { pushPart } from "./integer_instructions.ts";
import { clampSigned32, repeatable, u32 } from "./integer_lowering.ts";
import type { ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";
import { checkNegations, comparisons } from "./video_instructions.ts";

type Operation = "add" | "sub" | "avrg" | "absdiff" | "min" | "max" | "set";

/** The digits of a selector, that of the lowest element first. */
function selectedElements(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { index, count, otherwise }: { index: number; count: 2 | 4; otherwise: string },
): number[] {
  const letter = count === 2 ? "h" : "b";
  const selector = i.choices.get(`selector${index}`) ?? letter + otherwise;
  const digits = [...selector.slice(1)].map(Number).reverse();
  // The elements of the destination come in order, and may be fewer. Those of a source come from both sources.
  const isMask = index === 0;
  const isValid = selector[0] === letter && digits.every((digit) => digit < (isMask ? count : 2 * count)) &&
    (isMask ? digits.every((digit, at) => at === 0 || digits[at - 1]! < digit) : digits.length === count);
  if (!isValid) e.fail(`the selector ".${selector}" does not fit this operand`);
  return digits;
}

/** Pops two elements of up to 16 bits, and pushes the result with all of its bits. */
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
      // Half of the sum, rounded up unless the sum is negative, then down.
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

/** `vadd2`, `vset4` and so on. */
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
