/**
 * Sums of products of elements whose exponents are in a narrow range, as usual elements are: see `float_products.ts`.
 *
 * Engines check the address of each access to memory, which takes as long as the arithmetic with what is loaded. Eight
 * columns of B are therefore loaded once for all rows of A, and two rows are computed together. The exponents of eight
 * columns and two rows are in one vector.
 *
 * @module
 */
import { FunctionWriter } from "../webassembly/kernel_functions.ts";
import { hasRelaxedVectors } from "../webassembly/engine_features.ts";
import { narrowExponents, operandFlags } from "./formats.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { fractionBitsOf, type ProductBlock, shortMask } from "./product_block.ts";
import { type FourSums, SumRounder } from "./rounded_sums.ts";

/** The parameters of the function. */
const a = 1, b = 2, first = 3, c = 4, d = 5;

/** Tops are exponents to which this has been added, as in an f32. */
const bias = 127;
/** The least sum of two exponents. */
const leastExponent = 2 * narrowExponents.least;
/** The lowest top. Only sums without products have a lower one. */
const leastTop = bias + leastExponent - 1;

/**
 * Writes the sums of a block's products. The parameters of the function are those of a block without the flags. It
 * returns the flag `special` if an element of C is an infinity or a NaN, and the flag `wide` if some sums are wrong: those
 * that do not fit in 32 bits, or a small C without products.
 */
export function writeNarrowBlock(block: ProductBlock): FunctionDefinition {
  return new NarrowBlockWriter(block).write();
}

/** Two halves of each of two rows: what four vectors hold. */
const quarters = [0, 1, 2, 3] as const;
type Quarters = readonly [number, number, number, number];

class NarrowBlockWriter {
  readonly #f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32", "i32"], ["i32"]);
  readonly #block: ProductBlock;
  readonly #fractionBits: number;
  readonly #rounder: SumRounder;
  readonly #truncate = hasRelaxedVectors() ? "i32x4RelaxedTruncF32x4S" : "i32x4TruncSatF32x4S";
  readonly #swizzle = hasRelaxedVectors() ? "i8x16RelaxedSwizzle" : "i8x16Swizzle";
  /** The rows of B: the values in two vectors, and the exponents twice in one. */
  readonly #rows: readonly { readonly values: readonly [number, number]; readonly exponents: number }[];
  /** The largest magnitude of elements of C, doubled. */
  readonly #largest: number;
  /** The bits of the magnitudes of all sums of products. */
  readonly #magnitudes: number;
  /** The smallest of the largest exponents of products. */
  readonly #leastTop: number;
  readonly #constants = new Map<number, number>();

  constructor(block: ProductBlock) {
    const f = this.#f;
    this.#block = block;
    this.#fractionBits = fractionBitsOf(block);
    this.#rounder = new SumRounder(f, { fractionBits: this.#fractionBits, bias });
    this.#rows = Array.from({ length: block.k }, () => {
      return { values: [f.local("v128"), f.local("v128")], exponents: f.local("v128") };
    });
    this.#largest = f.local("v128");
    this.#magnitudes = f.local("v128");
    this.#leastTop = f.constant(-1);
  }

  write(): FunctionDefinition {
    const { m, n, depth, rows } = this.#block;
    const f = this.#f;
    const { code } = f;
    const at = { a: f.local(), b: f.local(), aExponents: f.local(), bExponents: f.local(), c: f.local(), d: f.local() };
    const columns = (column?: number) => {
      const offset = (bytes: number) => {
        if (column !== undefined) code.get(column).i32(3 + Math.log2(bytes)).ops("i32Shl", "i32Add");
      };
      const begin = (base: number, local: number, bytes: number) => {
        code.get(base);
        offset(bytes);
        code.set(local);
      };
      code.get(b).get(first).i32(4 * n).ops("i32Mul", "i32Add");
      offset(4);
      code.set(at.b);
      code.get(b).get(first).i32(2 * n).ops("i32Mul", "i32Add").i32(4 * rows * n).ops("i32Add");
      offset(2);
      code.set(at.bExponents);
      begin(c, at.c, 4);
      begin(d, at.d, 4);
      code.get(a).get(first).i32(2).ops("i32Shl", "i32Add").set(at.a);
      code.get(a).get(first).i32(1).ops("i32Shl", "i32Add").i32(4 * m * depth).ops("i32Add").set(at.aExponents);
      this.#loadRows(at);
      f.loop(m / 2, () => {
        this.#writePair(at);
        const advance = (local: number, bytes: number) => code.get(local).i32(2 * bytes).ops("i32Add").set(local);
        advance(at.a, 4 * depth);
        advance(at.aExponents, 2 * depth);
        advance(at.c, 4 * n);
        advance(at.d, 4 * n);
      });
    };
    // Splats outside of loops, unlike constants, are not repeated where they are used.
    for (const number of [bias, 2 * bias + this.#fractionBits, -this.#fractionBits]) this.#constant(number);
    if (n === 8) columns();
    else f.loop(n / 8, columns);
    this.#pushFlags();
    return f.finish();
  }

  #loadRows(at: { readonly b: number; readonly bExponents: number }): void {
    const { code } = this.#f;
    const { n } = this.#block;
    this.#rows.forEach(({ values, exponents }, index) => {
      values.forEach((local, half) => code.get(at.b).v128Load(4 * index * n + 16 * half).set(local));
      // The exponent of 0 becomes the least number of 8 bits.
      code.get(at.bExponents).v128Load(2 * index * n).tee(exponents).get(exponents).simd("i8x16NarrowI16x8S");
      code.set(exponents);
    });
  }

  #writePair(at: Readonly<Record<"a" | "aExponents" | "c" | "d", number>>): void {
    const { k, n, d: dFormat, depth, isShort } = this.#block;
    const f = this.#f;
    const { code } = f;
    const four = () => quarters.map(() => f.local("v128")) as unknown as Quarters;
    const place = (quarter: number) => 4 * n * (quarter >> 1) + 16 * (quarter & 1);
    const cs = four(), tops = four(), scales = four(), sums = four(), addends = four();
    this.#findTops(at.aExponents, tops);
    this.#loadAddends(at.c, { cs, tops, place });
    for (const quarter of quarters) {
      code.get(this.#constant(2 * bias + this.#fractionBits)).get(tops[quarter]).simd("i32x4Sub");
      code.i32(23).simd("i32x4Shl").set(scales[quarter]);
    }
    const elements = [f.local("v128"), f.local("v128")], element = f.local("v128");
    for (let index = 0; index < k; index++) {
      elements.forEach((vector, row) => {
        if (index % 4 === 0) code.get(at.a).v128Load(4 * depth * row + 4 * index).set(vector);
        code.get(vector).get(vector).i8x16Shuffle(splatOf(index % 4)).set(element);
        for (const half of [0, 1] as const) {
          const quarter = quarters[2 * row + half]!;
          code.get(this.#rows[index]!.values[half]).get(element).simd("f32x4Mul");
          code.get(scales[quarter]).simd("f32x4Mul", this.#truncate);
          if (index > 0) code.get(sums[quarter]).simd("i32x4Add");
          code.set(sums[quarter]);
        }
      });
    }
    for (const quarter of quarters) {
      code.get(cs[quarter]).get(scales[quarter]).simd("f32x4Mul", this.#truncate).set(addends[quarter]);
      code.get(at.d);
      const four = { sum: sums[quarter], addend: addends[quarter], top: tops[quarter] };
      if (dFormat === "f16") this.#rounder.pushHalf(four);
      else this.#pushSingle(four);
      if (isShort && dFormat === "f32") {
        code.get(this.#constant(shortMask));
        // Masking a negative number may leave -0, to which adding 0 gives +0.
        code.simd("v128And").f32(0).simd("f32x4Splat", "f32x4Add");
      }
      code.v128Store(place(quarter));
    }
  }

  /** Writes code that pushes four sums, which must fit in 32 bits, rounded toward zero to f32. */
  #pushSingle({ sum, addend, top }: FourSums): void {
    const f = this.#f;
    const { code } = f;
    const total = f.local("v128"), result = f.local("v128");
    code.get(sum).simd("i32x4Abs").get(this.#magnitudes).simd("v128Or").set(this.#magnitudes);
    code.get(sum).get(addend).simd("i32x4Add").tee(total).simd("f32x4ConvertI32x4S").tee(result);
    // One less in the last place where the conversion has rounded away from zero.
    code.get(result).simd(this.#truncate, "i32x4Abs").get(total).simd("i32x4Abs", "i32x4GtS", "i32x4Add");
    code.get(top).get(this.#constant(-this.#fractionBits)).simd("i32x4Add").i32(23).simd("i32x4Shl", "f32x4Mul");
  }

  /** Writes code that finds the largest exponents of products. */
  #findTops(exponentsAt: number, tops: Quarters): void {
    const { k, depth } = this.#block;
    const f = this.#f;
    const { code } = f;
    const top = f.local("v128"), mask = f.local("v128"), extended = f.local("v128");
    const vectors = Array.from({ length: Math.ceil(k / 8) }, (_, index) => {
      const vector = f.local("v128");
      for (const row of [0, 1]) code.get(exponentsAt).v128Load(2 * depth * row + 16 * index);
      code.simd("i8x16NarrowI16x8S").set(vector);
      return vector;
    });
    for (let element = 0; element < Math.min(8, k); element++) {
      // Eight times the element of the first row, then of the second.
      if (element === 0) code.i32x4([0, 0, 0x0808_0808, 0x0808_0808]);
      else code.get(mask).i32(0x0101_0101).simd("i32x4Splat", "i32x4Add");
      code.set(mask);
      vectors.forEach((vector, index) => {
        code.get(vector).get(mask).simd(this.#swizzle).get(this.#rows[8 * index + element]!.exponents);
        code.simd("i8x16AddSatS");
        if (element > 0 || index > 0) code.get(top).simd("i8x16MaxS");
        code.set(top);
      });
    }
    code.get(top).get(this.#leastTop).simd("i8x16MinS").set(this.#leastTop);
    code.get(top).i32(leastTop - bias).simd("i8x16Splat", "i8x16MaxS").set(top);
    for (const row of [0, 1] as const) {
      code.get(top).simd(row === 0 ? "i16x8ExtendLowI8x16S" : "i16x8ExtendHighI8x16S").set(extended);
      for (const half of [0, 1] as const) {
        code.get(extended).simd(half === 0 ? "i32x4ExtendLowI16x8S" : "i32x4ExtendHighI16x8S");
        code.get(this.#constant(bias)).simd("i32x4Add").set(tops[quarters[2 * row + half]!]);
      }
    }
  }

  /** Writes code that loads elements of C, and raises the tops to their exponents. */
  #loadAddends(
    base: number,
    { cs, tops, place }: { cs: Quarters; tops: Quarters; place: (quarter: number) => number },
  ): void {
    const { c: cFormat, d: dFormat } = this.#block;
    const f = this.#f;
    const { code } = f;
    const doubled = f.local("v128");
    for (const quarter of quarters) {
      const value = cs[quarter];
      code.get(base).v128Load(place(quarter));
      if (cFormat === "f16") this.#rounder.widenHalf();
      code.tee(value).i32(1).simd("i32x4Shl").tee(doubled).get(this.#largest).simd("i32x4MaxU").set(this.#largest);
      code.get(doubled).i32(24).simd("i32x4ShrU");
      if (cFormat === "f16" && dFormat === "f16") {
        // A subnormal f16 has the exponent -14, unless GPUs convert it to an f32 first.
        code.get(this.#constant(bias - 14)).simd("i32x4MaxS");
        code.get(value).f32(0).simd("f32x4Splat", "f32x4Ne", "v128And");
      }
      code.get(tops[quarter]).simd("i32x4MaxS").set(tops[quarter]);
    }
  }

  #pushFlags(): void {
    const f = this.#f;
    const { code } = f;
    const { m, n, c: cFormat, d: dFormat } = this.#block;
    code.get(this.#largest);
    this.#push(cFormat === "f16" ? (bias + 16) * 2 ** 24 : 0xff00_0000);
    code.simd("i32x4GeU", "v128AnyTrue");
    if (dFormat === "f32") {
      code.get(this.#magnitudes);
      this.#push(-(2 ** 30));
      code.simd("v128And", "v128AnyTrue").i32(operandFlags.wide).ops("i32Mul", "i32Or");
    }
    if (cFormat === "f16") return;
    // Without products, the top is C's exponent, however small.
    code.get(this.#leastTop).i32(leastExponent - 1).simd("i8x16Splat", "i8x16LeS", "v128AnyTrue").if("i32");
    const smallest = f.constant(-1);
    f.loop(m * n / 4, () => {
      code.get(c).v128Load().i32(1).simd("i32x4Shl");
      this.#push(1);
      code.simd("i32x4Sub").get(smallest).simd("i32x4MinU").set(smallest);
      code.get(c).i32(16).ops("i32Add").set(c);
    });
    code.get(smallest);
    this.#push(leastTop * 2 ** 24 - 1);
    code.simd("i32x4LtU", "v128AnyTrue").i32(operandFlags.wide).ops("i32Mul").else().i32(0).end().ops("i32Or");
  }

  /** Returns a local that holds four equal numbers, and writes code that sets it. */
  #constant(number: number): number {
    let local = this.#constants.get(number);
    if (local === undefined) {
      local = this.#f.local("v128");
      this.#f.code.i32(number).simd("i32x4Splat").set(local);
      this.#constants.set(number, local);
    }
    return local;
  }

  #push(number: number): void {
    this.#f.code.i32x4([number, number, number, number]);
  }
}

/** The bytes of a shuffle that repeats a word. */
function splatOf(word: number): number[] {
  return Array.from({ length: 16 }, (_, byte) => 4 * word + byte % 4);
}
