/**
 * The layout of matrices among the lanes of a warp, and functions that copy fragments to the workspace and back.
 *
 * Lane l has the group g = floor(l / 4) and the number t = l % 4 in its group. A register of A holds elements of the
 * row g of 8 rows, and a register of B elements of the column g of 8 columns: adjacent elements along K, those of lane
 * t + 1 after those of lane t. C and D are distributed in pairs of elements of the row g: those in columns 2 t and
 * 2 t + 1. This holds for all shapes. PTX ISA, sections 9.7.14.5.1 to 9.7.14.5.13.
 *
 * @module
 */
import { bitsOfFormat, ElementReader, type FloatFormat, operandFlags } from "./formats.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { workspace } from "./workspace.ts";

/** The number of rows of A, columns of B and D, and products for each element of D. */
export interface ProductShape {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** The parameters of functions that copy fragments: the workspace, and the offset of the fragment in a lane's memory. */
const space = 0, offset = 1;

/** Writes a loop over lanes. Sets locals to the offset of a lane's fragment, to g and to t. */
export function loopOverLanes(
  f: FunctionWriter,
  body: (locals: { fragment: number; group: number; member: number }) => void,
): void {
  const { code } = f;
  const fragment = f.local(), group = f.local(), member = f.local();
  f.loop(32, (lane) => {
    code.get(space).get(lane).i32(2).ops("i32Shl", "i32Add").memory("i32Load", workspace.lanes);
    code.get(offset).ops("i32Add").set(fragment);
    code.get(lane).i32(2).ops("i32ShrU").set(group);
    code.get(lane).i32(3).ops("i32And").set(member);
    body({ fragment, group, member });
  });
}

/** Writes code that pushes `begin + group * perGroup + member * perMember`. */
export function pushPlace(
  { code }: FunctionWriter,
  { group, member }: { group: number; member: number },
  { begin = space, perGroup, perMember }: { begin?: number; perGroup: number; perMember: number },
): void {
  code.get(begin);
  code.get(group).i32(perGroup).ops("i32Mul", "i32Add");
  code.get(member).i32(perMember).ops("i32Mul", "i32Add");
}

/** An operand A or B of floating-point elements. */
export interface FloatFragments {
  readonly operand: "a" | "b";
  readonly format: FloatFormat;
  /** The number of rows of A or columns of B. */
  readonly count: number;
  /** The number of elements of each row of A or column of B. */
  readonly depth: number;
  /** Whether elements 0 and 1 of each four come first, then elements 2 and 3: the order in which fp8 is multiplied. */
  readonly isSplit: boolean;
  /** Whether subnormal numbers of e4m3 have exponents of their own. Default: true. */
  readonly normalizes?: boolean;
}

/** The number of registers of an operand. */
export function registersOfOperand({ count, depth, bits }: { count: number; depth: number; bits: number }): number {
  return Math.ceil(count * depth * bits / 1024);
}

/**
 * Returns a function that converts an operand's fragments. Its parameters are the workspace, the offset of the fragments
 * and the offset of the operand in linear memory, where the values precede the exponents; it returns the operand's
 * flags.
 */
export function floatReader(functions: KernelFunctions, operand: FloatFragments): number {
  return functions.indexOf(`read ${JSON.stringify(operand)}`, () => writeFloatReader(operand));
}

function writeFloatReader(operand: FloatFragments): FunctionDefinition {
  const { format, count, depth, normalizes = true } = operand;
  const f = new FunctionWriter(["i32", "i32", "i32"], ["i32"]);
  const target = 2;
  const reader = new ElementReader(f, format, { normalizes });
  if (operand.operand === "a") writeReaderOfRows(f, reader, operand);
  else writeReaderOfColumns(f, reader, operand);
  pushFlags(f, reader, { target, size: count * depth });
  return f.finish();
}

/** What is known of the elements of an operand that have been converted. */
export interface OperandFlags {
  /** Writes code that pushes whether any element is an infinity or a NaN. */
  pushIsSpecial(): void;
  /** Writes code that pushes whether any element has an exponent outside of `narrowExponents`. */
  pushIsWide(): void;
  /** Writes code that replaces the values on the stack: those that stand for infinities and NaNs by these. */
  restoreSpecial(): void;
}

/**
 * Writes code that pushes the flags of an operand of `size` elements that have been converted to the offset in the local
 * `target`, and that corrects its infinities and NaNs.
 */
export function pushFlags(
  f: FunctionWriter,
  reader: OperandFlags,
  { target, size }: { target: number; size: number },
): void {
  const { code } = f;
  const isSpecial = f.local(), place = f.local();
  reader.pushIsSpecial();
  code.tee(isSpecial).ifUnlikely();
  code.get(target).set(place);
  f.loop(size / 4, () => {
    code.get(place).get(place).v128Load();
    reader.restoreSpecial();
    code.v128Store().get(place).i32(16).ops("i32Add").set(place);
  });
  code.end();
  code.get(isSpecial);
  reader.pushIsWide();
  code.i32(operandFlags.wide).ops("i32Mul", "i32Or");
}

/** The place of an element along K, for lanes with t = 0. */
function placeAlong(
  { depth, isSplit }: FloatFragments,
  { perRegister, chunk, element }: { perRegister: number; chunk: number; element: number },
): number {
  return isSplit ? (element >> 1) * (depth / 2) + 8 * chunk + element % 2 : 4 * perRegister * chunk + element;
}

/** Writes code that converts A: a lane's registers hold elements of two or more rows. */
function writeReaderOfRows(f: FunctionWriter, reader: ElementReader, operand: FloatFragments): void {
  const { format, count, depth, isSplit } = operand;
  const { code } = f;
  const bits = bitsOfFormat[format], perRegister = 32 / bits;
  const registers = registersOfOperand({ count, depth, bits });
  const blocks = count / 8, exponentsAt = 4 * count * depth;
  const words = f.local("v128"), place = f.local(), halfPlace = f.local();
  const parts = [0, 1].map(() => ({ values: f.local("v128"), exponents: f.local("v128") }));
  const [first, second] = [parts[0]!, parts[1]!];
  const pairs = f.local("v128");
  loopOverLanes(f, (lane) => {
    const perMember = isSplit ? 2 : perRegister;
    pushPlace(f, lane, { begin: 2, perGroup: 4 * depth, perMember: 4 * perMember });
    code.set(place);
    pushPlace(f, lane, { begin: 2, perGroup: 2 * depth, perMember: 2 * perMember });
    code.set(halfPlace);
    for (let begin = 0; begin < registers; begin += 4) {
      const length = Math.min(4, registers - begin);
      code.get(lane.fragment);
      // What follows the fragment in memory must not count.
      if (length === 4) code.v128Load(4 * begin);
      else code.loadNumber(length === 1 ? "v128Load32Zero" : "v128Load64Zero", 4 * begin);
      code.set(words);
      const at = (index: number, element: number) => {
        const register = begin + index;
        const k = placeAlong(operand, { perRegister, chunk: Math.floor(register / blocks), element });
        return k + 8 * (register % blocks) * depth;
      };
      for (let element = 0; element < perRegister; element += 2) {
        reader.read(words, { element, ...first });
        if (perRegister === 1) {
          for (let index = 0; index < length; index++) {
            code.get(place).get(first.values).storeLane("v128Store32Lane", index, 4 * at(index, 0));
            code.get(halfPlace).get(first.exponents);
            code.storeLane("v128Store16Lane", 2 * index, exponentsAt + 2 * at(index, 0));
          }
          continue;
        }
        reader.read(words, { element: element + 1, ...second });
        for (let index = 0; index < length; index++) {
          if (index % 2 === 0) {
            code.get(first.values).get(second.values).i8x16Shuffle(index === 0 ? lowerPairs : upperPairs).set(pairs);
          }
          code.get(place).get(pairs).storeLane("v128Store64Lane", index % 2, 4 * at(index, element));
        }
        code.get(first.exponents).get(second.exponents).i8x16Shuffle(pairsOfExponents).set(pairs);
        for (let index = 0; index < length; index++) {
          code.get(halfPlace).get(pairs);
          code.storeLane("v128Store32Lane", index, exponentsAt + 2 * at(index, element));
        }
      }
    }
  });
}

/** Returns the bytes of a shuffle that alternates between words of two vectors. */
function alternatingWords(first: number): number[] {
  return [first, first + 1].flatMap((word) =>
    [0, 16].flatMap((vector) => [0, 1, 2, 3].map((i) => vector + 4 * word + i))
  );
}

const lowerPairs = alternatingWords(0);
const upperPairs = alternatingWords(2);
/** The low halves of words of two vectors, in turn. */
const pairsOfExponents = [0, 1, 2, 3].flatMap((word) => [4 * word, 4 * word + 1, 16 + 4 * word, 17 + 4 * word]);

/** Writes code that converts B: the same registers of eight lanes hold elements of eight columns. */
function writeReaderOfColumns(f: FunctionWriter, reader: ElementReader, operand: FloatFragments): void {
  const { format, count, depth, isSplit } = operand;
  const { code } = f;
  const bits = bitsOfFormat[format], perRegister = 32 / bits;
  const registers = registersOfOperand({ count, depth, bits });
  const blocks = count / 8, exponentsAt = 4 * count * depth;
  const place = f.local(), halfPlace = f.local();
  const fragments = Array.from({ length: 8 }, () => f.local());
  const halves = [0, 1].map(() => ({ words: f.local("v128"), values: f.local("v128"), exponents: f.local("v128") }));
  f.loop(4, (member) => {
    const perMember = (isSplit ? 2 : perRegister) * count;
    code.get(2).get(member).i32(4 * perMember).ops("i32Mul", "i32Add").set(place);
    code.get(2).get(member).i32(2 * perMember).ops("i32Mul", "i32Add").set(halfPlace);
    fragments.forEach((fragment, group) => {
      code.get(space).get(member).i32(2).ops("i32Shl", "i32Add").memory("i32Load", workspace.lanes + 16 * group);
      code.get(offset).ops("i32Add").set(fragment);
    });
    for (let register = 0; register < registers; register++) {
      halves.forEach(({ words }, half) => {
        code.get(fragments[4 * half]!).loadNumber("v128Load32Zero", 4 * register);
        for (let lane = 1; lane < 4; lane++) {
          code.get(fragments[4 * half + lane]!).memory("i32Load", 4 * register).simdLane("i32x4ReplaceLane", lane);
        }
        code.set(words);
      });
      for (let element = 0; element < perRegister; element++) {
        const k = placeAlong(operand, { perRegister, chunk: Math.floor(register / blocks), element });
        const at = k * count + 8 * (register % blocks);
        halves.forEach(({ words, ...locals }, half) => {
          reader.read(words, { element, ...locals });
          code.get(place).get(locals.values).v128Store(4 * at + 16 * half);
        });
        code.get(halfPlace).get(halves[0]!.exponents).get(halves[1]!.exponents).simd("i16x8NarrowI32x4S");
        code.v128Store(exponentsAt + 2 * at);
      }
    }
  });
}

/** The elements of C or D. */
export type AccumulatorFormat = "f16" | "f32" | "s32" | "f64";

/**
 * Returns a function that copies C's fragments to a matrix in the workspace, or D's from there. Its parameters are the
 * workspace, the offset of the fragments and the offset of the matrix in linear memory. Elements of 16 bits have 32 in
 * the matrix.
 */
export function accumulatorCopy(
  functions: KernelFunctions,
  { part, format, m, n }: { part: "c" | "d"; format: AccumulatorFormat; m: number; n: number },
): number {
  return functions.indexOf(`${part} ${format} ${m} ${n}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32"]);
    const { code } = f;
    const bytes = format === "f64" ? 8 : 4;
    const place = f.local(), lanes = f.local(), fragment = f.local(), word = f.local();
    code.get(2).set(place).get(space).set(lanes);
    f.loop(8, () => {
      for (let member = 0; member < 4; member++) {
        code.get(lanes).memory("i32Load", workspace.lanes + 4 * member).get(offset).ops("i32Add").set(fragment);
        for (let column = 0, pair = 0; column < n; column += 8) {
          for (let row = 0; row < m; row += 8, pair++) {
            const at = bytes * (row * n + column + 2 * member);
            if (format === "f16" && part === "c") {
              code.get(fragment).memory("i32Load", 4 * pair).set(word);
              code.get(place).get(word).i32(0xffff).ops("i32And").memory("i32Store", at);
              code.get(place).get(word).i32(16).ops("i32ShrU").memory("i32Store", at + 4);
            } else if (format === "f16") {
              code.get(fragment).get(place).memory("i32Load", at).get(place).memory("i32Load", at + 4);
              code.i32(16).ops("i32Shl", "i32Or").memory("i32Store", 4 * pair);
            } else {
              for (let byte = 0; byte < 2 * bytes; byte += 8) {
                const from = 2 * bytes * pair + byte, to = at + byte;
                if (part === "c") code.get(place).get(fragment).memory("i64Load", from).memory("i64Store", to);
                else code.get(fragment).get(place).memory("i64Load", to).memory("i64Store", from);
              }
            }
          }
        }
      }
      code.get(place).i32(bytes * n).ops("i32Add").set(place).get(lanes).i32(16).ops("i32Add").set(lanes);
    });
    return f.finish();
  });
}
