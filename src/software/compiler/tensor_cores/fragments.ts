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
import { bitsOfFormat, ElementReader, type FloatFormat } from "./formats.ts";
import { FunctionWriter, type WarpFunctions } from "./warp_functions.ts";
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
export function floatReader(functions: WarpFunctions, operand: FloatFragments): number {
  return functions.indexOf(`read ${JSON.stringify(operand)}`, () => writeFloatReader(operand));
}

function writeFloatReader(
  { operand, format, count, depth, isSplit, normalizes = true }: FloatFragments,
): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32", "i32"], ["i32"]);
  const { code } = f;
  const target = 2;
  const bits = bitsOfFormat[format];
  const perRegister = 32 / bits;
  const registers = registersOfOperand({ count, depth, bits });
  const blocks = count / 8;
  const reader = new ElementReader(f, format, { normalizes });
  // The distance between elements along K, and between rows of A or columns of B, in elements.
  const [alongDepth, alongCount] = operand === "a" ? [1, depth] : [count, 1];
  const words = f.local("v128"), part = f.local("v128");
  const parts = Array.from({ length: perRegister }, () => ({ values: f.local("v128"), exponents: f.local("v128") }));
  const place = f.local(), halfPlace = f.local();
  const exponentsAt = 4 * count * depth;
  loopOverLanes(f, (lane) => {
    const perMember = (isSplit ? 2 : perRegister) * alongDepth;
    pushPlace(f, lane, { begin: target, perGroup: 4 * alongCount, perMember: 4 * perMember });
    code.set(place);
    pushPlace(f, lane, { begin: target, perGroup: 2 * alongCount, perMember: 2 * perMember });
    code.set(halfPlace);
    for (let first = 0; first < registers; first += 4) {
      // What follows the fragment in memory must not count.
      const rest = registers - first;
      code.get(lane.fragment);
      if (rest >= 4) code.v128Load(4 * first);
      else code.loadNumber(rest === 1 ? "v128Load32Zero" : "v128Load64Zero", 4 * first);
      code.set(words);
      parts.forEach((locals, element) => {
        code.get(words);
        if (element > 0) code.i32(bits * element).simd("i32x4ShrU");
        if (bits < 32 && element < perRegister - 1) code.i32x4(Array(4).fill(2 ** bits - 1)).simd("v128And");
        code.set(part);
        reader.read(part, locals);
      });
      for (let register = first; register < Math.min(first + 4, registers); register++) {
        const chunk = Math.floor(register / blocks);
        parts.forEach(({ values, exponents }, element) => {
          const k = isSplit
            ? (element >> 1) * (depth / 2) + 8 * chunk + element % 2
            : 4 * perRegister * chunk + element;
          const at = k * alongDepth + 8 * (register % blocks) * alongCount;
          code.get(place).get(values).storeLane("v128Store32Lane", register - first, 4 * at);
          code.get(halfPlace).get(exponents);
          code.storeLane("v128Store16Lane", 2 * (register - first), exponentsAt + 2 * at);
        });
      }
    }
  });
  reader.pushFlags();
  return f.finish();
}

/** The elements of C or D. */
export type AccumulatorFormat = "f16" | "f32" | "s32" | "f64";

/**
 * Returns a function that copies C's fragments to the workspace, or D's from there. Its parameters are the workspace
 * and the offset of the fragments. Elements of 16 bits have 32 in the workspace.
 */
export function accumulatorCopy(
  functions: WarpFunctions,
  { part, format, m, n }: { part: "c" | "d"; format: AccumulatorFormat; m: number; n: number },
): number {
  return functions.indexOf(`${part} ${format} ${m} ${n}`, () => {
    const f = new FunctionWriter(["i32", "i32"]);
    const { code } = f;
    const bytes = format === "f64" ? 8 : 4;
    const place = f.local(), word = f.local();
    loopOverLanes(f, (lane) => {
      pushPlace(f, lane, { perGroup: bytes * n, perMember: 2 * bytes });
      code.set(place);
      for (let column = 0, pair = 0; column < n; column += 8) {
        for (let row = 0; row < m; row += 8, pair++) {
          const at = workspace[part] + bytes * (row * n + column);
          if (format === "f16" && part === "c") {
            code.get(lane.fragment).memory("i32Load", 4 * pair).set(word);
            code.get(place).get(word).i32(0xffff).ops("i32And").memory("i32Store", at);
            code.get(place).get(word).i32(16).ops("i32ShrU").memory("i32Store", at + 4);
          } else if (format === "f16") {
            code.get(lane.fragment).get(place).memory("i32Load", at).get(place).memory("i32Load", at + 4);
            code.i32(16).ops("i32Shl", "i32Or").memory("i32Store", 4 * pair);
          } else {
            for (let byte = 0; byte < 2 * bytes; byte += 8) {
              if (part === "c") {
                code.get(place).get(lane.fragment).memory("i64Load", 2 * bytes * pair + byte).memory(
                  "i64Store",
                  at + byte,
                );
              } else {
                code.get(lane.fragment).get(place).memory("i64Load", at + byte);
                code.memory("i64Store", 2 * bytes * pair + byte);
              }
            }
          }
        }
      }
    });
    return f.finish();
  });
}
