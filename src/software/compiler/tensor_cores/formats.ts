/**
 * The number formats of floating-point operands of matrix products, and how their bits are converted.
 *
 * An element is represented by its value as an f32, which is exact, and by its exponent. As in tensor cores, the
 * exponent of a subnormal number is that of the smallest normal one.
 *
 * @module
 */
import type { FunctionWriter } from "../webassembly/kernel_functions.ts";

/** A format of floating-point elements. */
export type FloatFormat = "f16" | "bf16" | "tf32" | "e4m3" | "e5m2";

/** The size of an element in bits. A tf32 occupies 32 bits, of which the low 13 are ignored. */
export const bitsOfFormat: Readonly<Record<FloatFormat, number>> = { f16: 16, bf16: 16, tf32: 32, e4m3: 8, e5m2: 8 };

/** The exponent of 0. The sum of two such exponents is less than that of any other product. */
export const zeroExponent = -8192;
/** An exponent below that of any product that is not 0. */
export const noExponent = -4096;

/** Flags of an operand: an element is an infinity or a NaN; an exponent is outside of `narrowExponents`. */
export const operandFlags = { special: 1, wide: 2 } as const;
/**
 * The range of exponents for which no product, and no product that is scaled, overflows or underflows an f32, and the
 * exponents of products fit in 8 bits: they are greater than the sum of any exponent and -128, which stands for 0.
 */
export const narrowExponents = { least: -43, most: 40 } as const;

/** How the bits of an element become an f32, once they are the upper bits of a word. */
interface Encoding {
  /** By how much the bits are shifted to the right, so that the mantissa is where it is in an f32. */
  readonly shift: number;
  /** The bits that are then kept. */
  readonly mask: number;
  /** The number by which the result is multiplied. Also normalizes subnormal numbers. */
  readonly scale?: number;
  /** The biased exponent of an f32 that subnormal numbers have. */
  readonly least: number;
  /** Twice the bits, without the sign, of the result of the smallest magnitude that is an infinity or a NaN. */
  readonly special: number;
}

const encodings: Readonly<Record<FloatFormat, Encoding>> = {
  f16: { shift: 3, mask: 0x8fff_e000, scale: 2 ** 112, least: 127 - 14, special: 143 * 2 ** 24 },
  bf16: { shift: 0, mask: 0xffff_0000, least: 1, special: 255 * 2 ** 24 },
  tf32: { shift: 0, mask: 0xffff_e000, least: 1, special: 255 * 2 ** 24 },
  e4m3: { shift: 4, mask: 0x87f0_0000, scale: 2 ** 120, least: 127 - 6, special: 2 * 0x43f0_0000 },
  e5m2: { shift: 3, mask: 0x8fe0_0000, scale: 2 ** 112, least: 127 - 14, special: 143 * 2 ** 24 },
};

/** Writes the conversion of four elements at once. */
export class ElementReader {
  readonly #f: FunctionWriter;
  readonly #bits: number;
  readonly #encoding: Encoding;
  readonly #shifted: number;
  readonly #isZero: number;
  /** The largest and the smallest magnitudes so far other than 0, doubled. */
  readonly #largest: number;
  readonly #smallest: number | undefined;

  /** @param normalizes whether subnormal numbers of e4m3 have exponents of their own, as if they were normal */
  constructor(f: FunctionWriter, format: FloatFormat, { normalizes = true }: { readonly normalizes?: boolean } = {}) {
    this.#f = f;
    this.#bits = bitsOfFormat[format];
    this.#encoding = format === "e4m3" && normalizes ? { ...encodings.e4m3, least: 1 } : encodings[format];
    this.#shifted = f.local("v128");
    this.#isZero = f.local("v128");
    this.#largest = f.local("v128");
    this.#smallest = this.#encoding.scale === undefined ? f.constant(-1) : undefined;
  }

  /** Writes code that pushes whether any element that has been converted is an infinity or a NaN. */
  pushIsSpecial(): void {
    const { code } = this.#f;
    code.get(this.#largest);
    this.#push(this.#encoding.special);
    code.simd("i32x4GeU", "v128AnyTrue");
  }

  /** Writes code that pushes whether any element has an exponent outside of `narrowExponents`. */
  pushIsWide(): void {
    const { code } = this.#f;
    if (this.#smallest === undefined) {
      code.i32(0);
      return;
    }
    const { least, most } = narrowExponents;
    code.get(this.#largest);
    this.#push((127 + most + 1) * 2 ** 24);
    code.simd("i32x4GeU").get(this.#smallest);
    this.#push((127 + least) * 2 ** 24);
    code.simd("i32x4LtU", "v128Or", "v128AnyTrue");
  }

  /** Writes code that replaces the values on the stack: those that stand for infinities and NaNs by these. */
  restoreSpecial(): void {
    const { code } = this.#f;
    const value = this.#shifted;
    code.set(value).get(value).get(value).i32(1).simd("i32x4Shl");
    this.#push(this.#encoding.special);
    code.simd("i32x4GeU");
    this.#push(0x7f80_0000);
    code.simd("v128And", "v128Or");
  }

  /** Writes code that replaces the four words on the stack by the values of the elements in their upper bits. */
  convertUpper(): void {
    const { code } = this.#f;
    const { shift, mask, scale } = this.#encoding;
    if (shift > 0) code.i32(shift).simd("i32x4ShrS");
    this.#push(mask);
    code.simd("v128And");
    if (scale !== undefined) code.f32(scale).simd("f32x4Splat", "f32x4Mul");
  }

  /**
   * Writes code that converts an element of each of the four words in the local `words`, and sets the locals `values`
   * and `exponents`. The values of infinities and NaNs are large numbers.
   */
  read(
    words: number,
    { element, values, exponents }: { element: number; values: number; exponents: number },
  ): void {
    const { code } = this.#f;
    const { least } = this.#encoding;
    const left = 32 - this.#bits * (element + 1);
    code.get(words);
    if (left > 0) code.i32(left).simd("i32x4Shl");
    this.convertUpper();
    code.set(values);
    code.get(values).i32(1).simd("i32x4Shl").set(this.#shifted);
    code.get(this.#shifted).get(this.#largest).simd("i32x4MaxU").set(this.#largest);
    code.get(this.#shifted).i32(0).simd("i32x4Splat", "i32x4Eq").set(this.#isZero);
    if (this.#smallest !== undefined) {
      code.get(this.#shifted).get(this.#isZero).simd("v128Or").get(this.#smallest).simd("i32x4MinU");
      code.set(this.#smallest);
    }
    this.#push(zeroExponent);
    code.get(this.#shifted).i32(24).simd("i32x4ShrU");
    this.#push(least);
    code.simd("i32x4MaxS");
    this.#push(127);
    code.simd("i32x4Sub").get(this.#isZero).simd("v128Bitselect").set(exponents);
  }

  /** Pushes a vector of four equal numbers. */
  #push(number: number): void {
    this.#f.code.i32x4([number, number, number, number]);
  }
}
