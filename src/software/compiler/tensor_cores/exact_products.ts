/**
 * Products of matrices of integers, which are exact, and of 64-bit numbers, which are chains of fused multiply-adds.
 *
 * @module
 */
import { helperIndex } from "../helpers/helper_functions.ts";
import { type Rounding, roundingCodes } from "../helpers/rounding_helpers.ts";
import { loopOverLanes, type ProductShape, pushPlace, registersOfOperand } from "./fragments.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import { hasFusedMultiplyAdd, writeFusedMultiplyAdd } from "../webassembly/engine_features.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { workspace } from "./workspace.ts";

/** A format of integer elements. */
export type IntegerFormat = "s8" | "u8" | "s4" | "u4" | "b1";

/** The size of an integer element in bits. */
export function bitsOfInteger(format: IntegerFormat): number {
  return Number(format.slice(1));
}

/** The number of bytes of a row of A or a column of B in the workspace, where elements of 4 bits have 8. */
function bytesOfRow(format: IntegerFormat, depth: number): number {
  return format === "b1" ? depth / 8 : depth;
}

/** An operand A or B. */
export interface OperandShape {
  readonly operand: "a" | "b";
  /** The number of rows of A or columns of B. */
  readonly count: number;
  /** The number of elements of each row of A or column of B. */
  readonly depth: number;
}

/**
 * Returns a function that copies an operand's fragments to the workspace, with one row of A or column of B after
 * another. Its parameters are the workspace and the offset of the fragments.
 */
export function integerReader(
  functions: KernelFunctions,
  operand: OperandShape & { readonly format: IntegerFormat },
): number {
  return functions.indexOf(`read ${JSON.stringify(operand)}`, () => writeIntegerReader(operand));
}

function writeIntegerReader(
  { operand, format, count, depth }: OperandShape & { readonly format: IntegerFormat },
): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32"]);
  const { code } = f;
  const place = f.local(), word = f.local();
  const bits = bitsOfInteger(format), rowBytes = bytesOfRow(format, depth), blocks = count / 8;
  const bytesOfRegister = bits === 4 ? 8 : 4;
  const expanded = f.local("v128");
  loopOverLanes(f, (lane) => {
    pushPlace(f, lane, { perGroup: rowBytes, perMember: bytesOfRegister });
    code.set(place);
    for (let register = 0; register < registersOfOperand({ count, depth, bits }); register++) {
      const at = workspace[operand] + 8 * (register % blocks) * rowBytes +
        4 * bytesOfRegister * Math.floor(register / blocks);
      if (bits !== 4) {
        code.get(place).get(lane.fragment).memory("i32Load", 4 * register).memory("i32Store", at);
        continue;
      }
      code.get(lane.fragment).memory("i32Load", 4 * register).set(word);
      code.get(word).i32(0x0f0f_0f0f).ops("i32And").simd("i32x4Splat");
      code.get(word).i32(4).ops("i32ShrU").i32(0x0f0f_0f0f).ops("i32And").simd("i32x4Splat");
      code.i8x16Shuffle([0, 16, 1, 17, 2, 18, 3, 19, 0, 16, 1, 17, 2, 18, 3, 19]);
      if (format === "s4") {
        const eights = Array(4).fill(0x0808_0808);
        code.i32x4(eights).simd("v128Xor").i32x4(eights).simd("i8x16Sub");
      }
      code.set(expanded);
      code.get(place).get(expanded).storeLane("v128Store64Lane", 0, at);
    }
  });
  return f.finish();
}

/** A product of matrices of integers. */
export interface IntegerProduct extends ProductShape {
  readonly a: IntegerFormat;
  readonly b: IntegerFormat;
  readonly isSparse: boolean;
  /** Whether results that do not fit are limited. Default: they are taken modulo 2^32. */
  readonly saturates: boolean;
  /** How bits are combined. Undefined for other elements. */
  readonly operation: "xor" | "and" | undefined;
}

/** Returns a function that computes D from A, B and C in the workspace, which is its parameter. */
export function integerMultiplication(functions: KernelFunctions, product: IntegerProduct): number {
  return functions.indexOf(`multiply ${JSON.stringify(product)}`, () => {
    return product.isSparse ? writeSparseIntegers(product) : writeIntegers(product);
  });
}

function writeIntegers(product: IntegerProduct): FunctionDefinition {
  const { m, n, k, a: aFormat, b: bFormat, operation } = product;
  const f = new FunctionWriter(["i32"]);
  const { code } = f;
  const rowBytes = bytesOfRow(aFormat, k), columnBytes = bytesOfRow(bFormat, k);
  const chunks = rowBytes / 16;
  const a = f.local(), b = f.local(), at = f.local(), vector = f.local("v128"), sum = f.local("v128");
  const halves = Array.from({ length: 2 * chunks }, () => f.local("v128"));
  const extended = (format: IntegerFormat, half: number) => {
    const sign = format.startsWith("s") ? "S" : "U";
    return half === 0 ? `i16x8ExtendLowI8x16${sign}` as const : `i16x8ExtendHighI8x16${sign}` as const;
  };
  code.get(0).set(a).get(0).set(at);
  f.loop(m, () => {
    for (let chunk = 0; chunk < chunks; chunk++) {
      code.get(a).v128Load(workspace.a + 16 * chunk).set(vector);
      if (operation !== undefined) {
        code.get(vector).set(halves[chunk]!);
        continue;
      }
      for (const half of [0, 1]) code.get(vector).simd(extended(aFormat, half)).set(halves[2 * chunk + half]!);
    }
    code.get(0).set(b);
    f.loop(n, () => {
      for (let chunk = 0; chunk < chunks; chunk++) {
        code.get(b).v128Load(workspace.b + 16 * chunk);
        if (operation !== undefined) {
          code.get(halves[chunk]!).simd(operation === "xor" ? "v128Xor" : "v128And", "i8x16Popcnt");
          code.simd("i16x8ExtaddPairwiseI8x16U", "i32x4ExtaddPairwiseI16x8U");
        } else {
          code.set(vector);
          for (const half of [0, 1]) {
            code.get(vector).simd(extended(bFormat, half)).get(halves[2 * chunk + half]!).simd("i32x4DotI16x8S");
          }
          code.simd("i32x4Add");
        }
        if (chunk > 0) code.get(sum).simd("i32x4Add");
        code.set(sum);
      }
      code.get(at);
      for (const lane of [0, 1, 2, 3]) {
        code.get(sum).simdLane("i32x4ExtractLane", lane);
        if (lane > 0) code.ops("i32Add");
      }
      writeSum(f, { at, saturates: product.saturates });
      code.get(b).i32(columnBytes).ops("i32Add").set(b);
      code.get(at).i32(4).ops("i32Add").set(at);
    });
    code.get(a).i32(rowBytes).ops("i32Add").set(a);
  });
  return f.finish();
}

function writeSparseIntegers(product: IntegerProduct): FunctionDefinition {
  const { m, n, k, a: aFormat, b: bFormat } = product;
  const f = new FunctionWriter(["i32"]);
  const { code } = f;
  const kept = k / 2;
  const a = f.local(), b = f.local(), source = f.local(), sources = f.local(), at = f.local(), element = f.local();
  const sum = f.local();
  const load = (format: IntegerFormat) => format.startsWith("s") ? "i32Load8S" as const : "i32Load8U" as const;
  code.get(0).set(a).get(0).set(at).get(0).set(sources);
  f.loop(m, () => {
    code.get(0).set(b);
    f.loop(n, () => {
      code.i32(0).set(sum).get(a).set(element).get(sources).set(source);
      f.loop(kept, () => {
        code.get(element).memory(load(aFormat), workspace.a);
        code.get(b).get(source).memory("i32Load16U", workspace.sources).ops("i32Add").memory(
          load(bFormat),
          workspace.b,
        );
        code.ops("i32Mul").get(sum).ops("i32Add").set(sum);
        code.get(element).i32(1).ops("i32Add").set(element).get(source).i32(2).ops("i32Add").set(source);
      });
      code.get(at).get(sum);
      writeSum(f, { at, saturates: product.saturates });
      code.get(b).i32(k).ops("i32Add").set(b).get(at).i32(4).ops("i32Add").set(at);
    });
    code.get(a).i32(kept).ops("i32Add").set(a).get(sources).i32(2 * kept).ops("i32Add").set(sources);
  });
  return f.finish();
}

/** Writes code that pops a sum of products, adds the element of C at `at`, and stores D below the address on the stack. */
function writeSum(f: FunctionWriter, { at, saturates }: { at: number; saturates: boolean }): void {
  const { code } = f;
  code.get(at).memory("i32Load", workspace.c);
  if (!saturates) {
    code.ops("i32Add").memory("i32Store", workspace.d);
    return;
  }
  const addend = f.local(), exact = f.local("i64");
  code.set(addend).ops("i64ExtendI32S").get(addend).ops("i64ExtendI32S", "i64Add").set(exact);
  const limit = (bound: bigint, comparison: "i64GtS" | "i64LtS") => {
    code.i64(bound).get(exact).get(exact).i64(bound).ops(comparison, "select").set(exact);
  };
  limit(2n ** 31n - 1n, "i64GtS");
  limit(-(2n ** 31n), "i64LtS");
  code.get(exact).ops("i32WrapI64").memory("i32Store", workspace.d);
}

/**
 * Returns a function that copies an operand's fragments of 64-bit numbers to the workspace. Its parameters are the
 * workspace and the offset of the fragments.
 */
export function doubleReader(functions: KernelFunctions, { operand, count, depth }: OperandShape): number {
  return functions.indexOf(`read ${operand} f64 ${count} ${depth}`, () => {
    const f = new FunctionWriter(["i32", "i32"]);
    const { code } = f;
    const place = f.local();
    const [alongDepth, alongCount] = operand === "a" ? [1, depth] : [count, 1];
    const blocks = count / 8;
    loopOverLanes(f, (lane) => {
      pushPlace(f, lane, { perGroup: 8 * alongCount, perMember: 8 * alongDepth });
      code.set(place);
      for (let register = 0; register < count * depth / 32; register++) {
        const at = 8 * (register % blocks) * alongCount + 4 * Math.floor(register / blocks) * alongDepth;
        code.get(place).get(lane.fragment).memory("i64Load", 8 * register);
        code.memory("i64Store", workspace[operand] + 8 * at);
      }
    });
    return f.finish();
  });
}

/**
 * Returns a function that computes D of 64-bit numbers from A, B and C in the workspace, which is its parameter: a chain
 * of fused multiply-adds that begins with C.
 */
export function doubleMultiplication(
  functions: KernelFunctions,
  { m, n, k, rounding }: ProductShape & { readonly rounding: Rounding },
): number {
  return functions.indexOf(`multiply f64 ${m} ${n} ${k} ${rounding}`, () => {
    const f = new FunctionWriter(["i32"]);
    const { code } = f;
    const a = f.local(), b = f.local(), at = f.local(), row = f.local();
    const x = f.local("f64"), y = f.local("f64"), sum = f.local("f64"), result = f.local("f64");
    const isNaN = (local: number) => code.get(local).get(local).ops("f64Ne");
    const quiet = (local: number) => {
      code.get(local).ops("i64ReinterpretF64").i64(1n << 51n).ops("i64Or", "f64ReinterpretI64");
    };
    code.get(0).set(at).get(0).set(row);
    f.loop(m, () => {
      f.loop(n, (column) => {
        code.get(at).memory("f64Load", workspace.c).set(sum);
        code.get(row).set(a).get(0).get(column).i32(3).ops("i32Shl", "i32Add").set(b);
        f.loop(k, () => {
          code.get(a).memory("f64Load", workspace.a).set(x).get(b).memory("f64Load", workspace.b).set(y);
          if (rounding === "rn" && hasFusedMultiplyAdd()) {
            writeFusedMultiplyAdd(code, "f64", [x, y, sum].map((local) => () => code.get(local)));
          } else {
            code.get(x).get(y).get(sum).i32(roundingCodes[rounding]).call(helperIndex("fusedMultiplyAdd64"));
          }
          code.set(result);
          isNaN(result).ifUnlikely();
          isNaN(y).if("f64");
          quiet(y);
          code.else();
          isNaN(sum).if("f64");
          quiet(sum);
          code.else();
          isNaN(x).if("f64");
          quiet(x);
          code.else().f64Bits(0xfff8_0000_0000_0000n).end().end().end().set(result).end();
          code.get(result).set(sum);
          code.get(a).i32(8).ops("i32Add").set(a).get(b).i32(8 * n).ops("i32Add").set(b);
        });
        code.get(at).get(sum).memory("f64Store", workspace.d);
        code.get(at).i32(8).ops("i32Add").set(at);
      });
      code.get(row).i32(8 * k).ops("i32Add").set(row);
    });
    return f.finish();
  });
}
