/**
 * How sums of products become elements of D, and elements of C become numbers.
 *
 * A sum is an integer, and the number of products of which the largest exponent is `top`: it counts multiples of
 * 2^(top - fraction bits).
 *
 * @module
 */
import type { FunctionWriter } from "../webassembly/kernel_functions.ts";

/** Four sums: the products and the element of C, which together may not fit in 32 bits, and the largest exponents. */
export interface FourSums {
  readonly sum: number;
  readonly addend: number;
  readonly top: number;
}

/** Writes the conversions of the elements of C and D. */
export class SumRounder {
  readonly #f: FunctionWriter;
  readonly #fractionBits: number;
  /** The number that has been added to the exponents in `top`. */
  readonly #bias: number;
  readonly #bits: number;
  readonly #magnitude: number;
  readonly #exact: number;
  readonly #magic: number;
  readonly #kept: number;
  readonly #shift: number;

  constructor(f: FunctionWriter, { fractionBits, bias }: { readonly fractionBits: number; readonly bias: number }) {
    this.#f = f;
    this.#fractionBits = fractionBits;
    this.#bias = bias;
    this.#bits = f.local("v128");
    this.#magnitude = f.local("v128");
    this.#exact = f.local("v128");
    this.#magic = f.local("v128");
    this.#kept = f.local("v128");
    // Splats outside of loops, unlike constants, are not repeated where they are used.
    f.code.i64(-(1n << 29n)).simd("i64x2Splat").set(this.#kept);
    this.#shift = f.local("v128");
    f.code.i32(127 - fractionBits - bias).simd("i32x4Splat").set(this.#shift);
  }

  /** Writes code that converts the four f16 on the stack, in the low bits of its lanes, to f32. */
  widenHalf(): void {
    const { code } = this.#f;
    const bits = this.#bits, magnitude = this.#magnitude;
    code.set(bits).get(bits);
    this.#push(0x7fff);
    code.simd("v128And").set(magnitude);
    code.get(magnitude).simd("f32x4ConvertI32x4S").f32(2 ** -24).simd("f32x4Splat", "f32x4Mul");
    code.get(magnitude).i32(13).simd("i32x4Shl");
    this.#push(112 << 23);
    code.simd("i32x4Add").get(magnitude);
    this.#push(0x400);
    code.simd("i32x4LtS", "v128Bitselect").get(bits).get(magnitude).simd("v128Xor").i32(16).simd("i32x4Shl", "v128Or");
  }

  /**
   * Writes code that pushes four sums, rounded toward zero to f32. The numbers are neither subnormal nor so large that
   * the scale is.
   */
  pushNormal(sums: FourSums): void {
    const { code } = this.#f;
    for (const isUpper of [false, true]) {
      this.#pushTotals(sums, isUpper);
      code.get(this.#kept).simd("v128And", "f32x4DemoteF64x2Zero");
    }
    code.i8x16Shuffle(lowerHalves);
    code.get(sums.top).get(this.#shift).simd("i32x4Add").i32(23).simd("i32x4Shl", "f32x4Mul");
  }

  /** Writes code that pushes four sums, rounded toward zero to f32. */
  pushSingle(sums: FourSums): void {
    this.#pushHalves(sums, () => this.#roundTowardZero());
  }

  /** Writes code that pushes four sums, rounded to nearest even to f16, in 32 bits each. */
  pushHalf(sums: FourSums): void {
    this.#pushHalves(sums, () => this.#roundToHalf());
    this.#narrowToHalf();
  }

  /** Writes code that pushes the sums of products and elements of C in two lanes as f64. */
  #pushTotals({ sum, addend }: FourSums, isUpper: boolean): void {
    const { code } = this.#f;
    for (const local of [sum, addend]) {
      code.get(local);
      if (isUpper) code.get(local).i8x16Shuffle(upperHalf);
      code.simd("f64x2ConvertLowI32x4S");
    }
    code.simd("f64x2Add");
  }

  #pushHalves(sums: FourSums, round: () => void): void {
    const { code } = this.#f;
    for (const isUpper of [false, true]) {
      this.#pushTotals(sums, isUpper);
      code.get(sums.top);
      if (isUpper) code.get(sums.top).i8x16Shuffle(upperHalf);
      code.simd("i64x2ExtendLowI32x4S");
      code.i64(BigInt(1023 - this.#fractionBits - this.#bias)).simd("i64x2Splat", "i64x2Add");
      code.i32(52).simd("i64x2Shl", "f64x2Mul").set(this.#exact);
      round();
      code.simd("f32x4DemoteF64x2Zero");
    }
    code.i8x16Shuffle(lowerHalves);
  }

  /** Writes code that pushes two numbers, rounded toward zero to an f32. */
  #roundTowardZero(): void {
    const { code } = this.#f;
    const exact = this.#exact;
    code.get(exact).f64(2 ** 149).simd("f64x2Splat", "f64x2Mul", "f64x2Trunc");
    code.f64(2 ** -149).simd("f64x2Splat", "f64x2Mul");
    code.get(exact).get(this.#kept).simd("v128And");
    code.get(exact).simd("f64x2Abs").f64(2 ** -126).simd("f64x2Splat", "f64x2Lt", "v128Bitselect");
    // A subnormal result of -0 is +0.
    code.f64(0).simd("f64x2Splat", "f64x2Add");
  }

  /**
   * Writes code that pushes two numbers, rounded to nearest even to an f16. Adding a number of which the last bit is the
   * last bit of the result rounds.
   */
  #roundToHalf(): void {
    const { code } = this.#f;
    const exact = this.#exact, magic = this.#magic;
    code.get(exact).i64(0x7ff0_0000_0000_0000n).simd("i64x2Splat", "v128And").f64(2 ** -14).simd(
      "f64x2Splat",
      "f64x2Max",
    );
    code.f64(1.5 * 2 ** 42).simd("f64x2Splat", "f64x2Mul").tee(magic);
    code.get(exact).simd("f64x2Add").get(magic).simd("f64x2Sub");
  }

  /** Writes code that converts four f32, each of which is an f16 or too large for one, to f16 in 32 bits each. */
  #narrowToHalf(): void {
    const { code } = this.#f;
    const value = this.#bits, magnitude = this.#magnitude;
    code.set(value).get(value).simd("f32x4Abs").set(magnitude);
    // Subnormal, normal, or infinite.
    code.get(magnitude).f32(2 ** 24).simd("f32x4Splat", "f32x4Mul", "i32x4TruncSatF32x4S");
    code.get(magnitude).i32(13).simd("i32x4ShrU");
    this.#push(112 << 10);
    code.simd("i32x4Sub");
    this.#push(0x7c00);
    code.simd("i32x4MinS").get(magnitude).f32(2 ** -14).simd("f32x4Splat", "f32x4Lt", "v128Bitselect");
    code.get(value).i32(31).simd("i32x4ShrU").i32(15).simd("i32x4Shl");
    code.get(magnitude).f32(0).simd("f32x4Splat", "f32x4Gt", "v128And", "v128Or");
  }

  #push(number: number): void {
    this.#f.code.i32x4([number, number, number, number]);
  }
}

const upperHalf = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
const lowerHalves = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
