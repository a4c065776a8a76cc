/**
 * `prmt`: permutes the bytes of two words. PTX ISA, section 9.7.9.7.
 *
 * @module
 */
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { constantOf, isSameOperand, repeatable, u32 } from "./integer_lowering.ts";
import type { ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";

/**
 * For each mode, the selectors for the four values of the last operand's low two bits. The lowest four bits select the
 * lowest byte.
 */
const modes: ReadonlyMap<string, readonly [number, number, number, number]> = new Map([
  ["f4e", [0x3210, 0x4321, 0x5432, 0x6543]],
  ["b4e", [0x5670, 0x6701, 0x7012, 0x0123]],
  ["rc8", [0x0000, 0x1111, 0x2222, 0x3333]],
  ["ecl", [0x3210, 0x3211, 0x3222, 0x3333]],
  ["ecr", [0x0000, 0x1110, 0x2210, 0x3210]],
  ["rc16", [0x1010, 0x3232, 0x1010, 0x3232]],
]);

/** `prmt`: four bits of the selector for each byte of the result. */
export const permuteBytes: Emit = (e, i) => {
  const mode = modes.get(i.choices.get("mode") ?? "");
  const known = constantOf(i.operands[3]);
  e.assign(i.operands[0], u32, () => {
    if (known === undefined) {
      pushPermutation(e, i, () => {
        e.push(i.operands[3], u32);
        if (mode !== undefined) pushSelectorsOf(e, mode);
      });
    } else {
      pushKnownPermutation(e, i, mode?.[Number(known & 3n)] ?? Number(known & 0xffffn));
    }
  });
};

/** Pops the last operand, and pushes the selectors for it in a mode. */
function pushSelectorsOf(e: FunctionEmitter, mode: readonly number[]): void {
  const { code } = e;
  const which = e.temporary("i64");
  const all = mode.reduceRight((sum, selectors) => sum << 16n | BigInt(selectors), 0n);
  code.i32(3).ops("i32And").i32(4).ops("i32Shl", "i64ExtendI32U").set(which).i64(all).get(which);
  code.ops("i64ShrU", "i32WrapI64");
}

function pushPermutation(e: FunctionEmitter, i: ResolvedInstruction, pushSelectors: () => void): void {
  const { code } = e;
  const bytes = e.temporary("i64"), selectors = e.temporary("i32"), byte = e.temporary("i32");
  e.push(i.operands[2], u32);
  code.ops("i64ExtendI32U").i64(32n).ops("i64Shl");
  e.push(i.operands[1], u32);
  code.ops("i64ExtendI32U", "i64Or").set(bytes);
  pushSelectors();
  code.set(selectors).i32(0);
  for (let index = 0; index < 4; index++) {
    const selector = () => code.get(selectors).i32(4 * index).ops("i32ShrU");
    code.get(bytes);
    selector().i32(7).ops("i32And").i32(3).ops("i32Shl", "i64ExtendI32U", "i64ShrU", "i32WrapI64", "i32Extend8S");
    code.set(byte).get(byte).i32(7).ops("i32ShrS").get(byte);
    selector().i32(8).ops("i32And", "select").i32(0xff).ops("i32And").i32(8 * index).ops("i32Shl", "i32Or");
  }
}

/** Bytes of the result that come from one rotation of one word, or from the sign of one byte. */
interface Contribution {
  readonly word: 0 | 1;
  /** The byte whose sign is replicated, or the bytes by which the word is rotated right. */
  readonly from: number;
  readonly isSign: boolean;
  /** The mask of these bytes in the result. */
  mask: number;
}

/** Bytes that are rotated by the same distance are moved together. */
function pushKnownPermutation(e: FunctionEmitter, i: ResolvedInstruction, selectors: number): void {
  const { code } = e;
  const words = [i.operands[1], i.operands[2]] as const;
  const contributions = findContributions(selectors, isSameOperand(...words))
    .filter(({ word }) => constantOf(words[word]) !== 0n);
  if (contributions.length === 0) code.i32(0);
  const push = words.map((word) => repeatable(e, word, u32));
  contributions.forEach(({ word, from, isSign, mask }, index) => {
    push[word]!();
    if (isSign) {
      if (from < 3) code.i32(24 - 8 * from).ops("i32Shl");
      code.i32(31).ops("i32ShrS");
      if (mask !== -1) code.i32(mask).ops("i32And");
    } else {
      pushRotated(code, from * 8, mask);
    }
    if (index > 0) code.ops("i32Or");
  });
}

function findContributions(selectors: number, wordsAreSame: boolean): readonly Contribution[] {
  const contributions: Contribution[] = [];
  for (let index = 0; index < 4; index++) {
    const selector = selectors >> 4 * index & 15;
    const word = wordsAreSame || (selector & 4) === 0 ? 0 : 1;
    const isSign = selector >= 8;
    const from = isSign ? selector & 3 : (selector & 3) - index & 3;
    const mask = 0xff << 8 * index;
    const same = contributions.find((one) => one.word === word && one.from === from && one.isSign === isSign);
    if (same === undefined) contributions.push({ word, from, isSign, mask });
    else same.mask |= mask;
  }
  return contributions;
}

/** Pops a word, and pushes some of its bytes rotated right. A single shift is used if it clears the other bytes. */
function pushRotated(code: CodeWriter, bits: number, mask: number): void {
  if (bits > 0) {
    if (mask === -1 >>> bits) code.i32(bits).ops("i32ShrU");
    else if (mask === -1 << 32 - bits) code.i32(32 - bits).ops("i32Shl");
    else code.i32(bits).ops("i32Rotr");
    if (mask === -1 >>> bits || mask === -1 << 32 - bits) return;
  }
  if (mask !== -1) code.i32(mask).ops("i32And");
}
