/**
 * Packed integers in a register: pairs of 16-bit integers, bytes, the conversions that pack them, and `prmt`, which
 * permutes the bytes of two words. PTX ISA, sections 9.7.1, 9.7.9.22 and 9.7.9.7.
 *
 * @module
 */
import type { Emit } from "../instruction_form.ts";
import { clampSigned32, constantOf, isSameOperand, pushPart, repeatable, s32, u32 } from "./integer_instructions.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";

/**
 * Emits code for `add.u16x2` and `add.s16x2`. The top bits of the halves are added separately, so that no carry crosses
 * from one half to the other.
 */
export const addPairs: Emit = (e, i) => {
  e.assign(i.operands[0], u32, () => {
    const a = repeatable(e, i.operands[1], u32), b = repeatable(e, i.operands[2], u32);
    a().i32(0x7fff_7fff).ops("i32And");
    b().i32(0x7fff_7fff).ops("i32And", "i32Add");
    a();
    b().ops("i32Xor").i32(-0x7fff_8000).ops("i32And", "i32Xor");
  });
};

/** Returns the lowering of `min` or `max` of pairs of 16-bit integers. With `.relu`, negative results become 0. */
export function extremeOfPairs(which: "min" | "max"): Emit {
  return (e, i) => {
    const { code } = e;
    const isSigned = i.choices.get("packed") === "s16x2";
    const comparison = which === "min" ? (isSigned ? "i32LtS" : "i32LtU") : isSigned ? "i32GtS" : "i32GtU";
    const halves = [0, 16];
    e.assign(i.operands[0], u32, () => {
      const operands = i.operands.slice(1).map((operand) => repeatable(e, operand, u32));
      for (const first of halves) {
        const [a, b] = operands.map((push) => {
          const part = e.temporary("i32");
          push();
          pushPart(e, { first, bits: 16, isSigned });
          code.set(part);
          return part;
        }) as [number, number];
        code.get(a).get(b).get(a).get(b).ops(comparison, "select");
        if (i.choices.has("relu")) code.set(a).get(a).i32(0).get(a).i32(0).ops("i32GtS", "select");
        if (first === 0) code.i32(0xffff).ops("i32And");
        else code.i32(first).ops("i32Shl", "i32Or");
      }
    });
  };
}

/**
 * Emits code for `cvt.pack.sat`, which clamps two numbers to a few bits each. In the result, the second number is in
 * the lowest bits, followed by the first number and, if there is a third operand, by the low bits of the third operand.
 */
export const pack: Emit = (e, i) => {
  const { code } = e;
  const to = i.choices.get("to")!;
  const bits = Number(to.slice(1));
  const [minimum, maximum] = to.startsWith("s") ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
  const pushClamped = (index: number) => {
    e.push(i.operands[index], s32);
    clampSigned32(e, minimum, maximum);
    if (minimum < 0) code.i32(2 ** bits - 1).ops("i32And");
  };
  e.assign(i.operands[0], u32, () => {
    pushClamped(1);
    code.i32(bits).ops("i32Shl");
    pushClamped(2);
    code.ops("i32Or");
    if (i.operands[3] === undefined) return;
    e.push(i.operands[3], u32);
    code.i32(2 * bits).ops("i32Shl", "i32Or");
  });
};

/**
 * Maps each mode of `prmt` to four selectors; the low two bits of the last operand choose one of them. The lowest four
 * bits of a selector select the lowest byte of the result.
 */
const modes: ReadonlyMap<string, readonly [number, number, number, number]> = new Map([
  ["f4e", [0x3210, 0x4321, 0x5432, 0x6543]],
  ["b4e", [0x5670, 0x6701, 0x7012, 0x0123]],
  ["rc8", [0x0000, 0x1111, 0x2222, 0x3333]],
  ["ecl", [0x3210, 0x3211, 0x3222, 0x3333]],
  ["ecr", [0x0000, 0x1110, 0x2210, 0x3210]],
  ["rc16", [0x1010, 0x3232, 0x1010, 0x3232]],
]);

/** Emits code for `prmt`, which permutes bytes. Four bits of the selector choose each byte of the result. */
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

/** Emits code that pops the last operand, and pushes the selectors that this operand chooses in a mode. */
function pushSelectorsOf(e: FunctionEmitter, mode: readonly number[]): void {
  const { code } = e;
  const which = e.temporary("i64");
  const all = mode.reduceRight((sum, selectors) => sum << 16n | BigInt(selectors), 0n);
  code.i32(3).ops("i32And").i32(4).ops("i32Shl", "i64ExtendI32U").set(which).i64(all).get(which);
  code.ops("i64ShrU", "i32WrapI64");
}

/** Emits code that pushes a permutation whose selectors are not literals. */
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

/**
 * A contribution to the result of `prmt`: bytes that are copied from one source word, all rotated by the same distance,
 * or bytes that replicate the sign of one source byte.
 */
interface Contribution {
  readonly word: 0 | 1;
  /**
   * If `isSign`, the index of the byte whose sign is replicated. Otherwise the number of bytes by which the word is
   * rotated right.
   */
  readonly from: number;
  readonly isSign: boolean;
  /** The mask of the bytes of the result that this contribution supplies. */
  mask: number;
}

/**
 * Emits code that pushes a permutation with literal selectors. Bytes that are rotated by the same distance are moved
 * together.
 */
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

/** Groups the bytes of the result by their source: a source word and the rotation, or the sign of a byte. */
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

/**
 * Emits code that pops a word, rotates it right, and pushes the bytes in `mask`. Emits a shift instead if the shift
 * alone clears all other bytes.
 */
function pushRotated(code: CodeWriter, bits: number, mask: number): void {
  if (bits > 0) {
    if (mask === -1 >>> bits) code.i32(bits).ops("i32ShrU");
    else if (mask === -1 << 32 - bits) code.i32(32 - bits).ops("i32Shl");
    else code.i32(bits).ops("i32Rotr");
    if (mask === -1 >>> bits || mask === -1 << 32 - bits) return;
  }
  if (mask !== -1) code.i32(mask).ops("i32And");
}
