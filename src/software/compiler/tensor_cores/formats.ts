/**
 * The number formats of floating-point operands of matrix products, and how their bits are converted.
 *
 * An element is represented by its value as an f32, which is exact, and by its exponent. As in tensor cores, the
 * exponent of a subnormal number is that of the smallest normal one.
 *
 * @module
 */
import type { FunctionWriter } from "./warp_functions.ts";

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
/** The range of exponents for which no product, and no product that is scaled, overflows or underflows an f32. */
export const narrowExponents = { least: -40, most: 60 } as const;

/** Whether elements of a format may have exponents outside of `narrowExponents`. */
export function hasWideExponents(format: FloatFormat): boolean {
  return format === "bf16" || format === "tf32";
}

/** Writes the conversion of four elements at once. */
export class ElementReader {
  readonly #f: FunctionWriter;
  readonly #format: FloatFormat;
  readonly #normalizes: boolean;
  readonly #magnitude: number;
  readonly #condition: number;
  readonly #special: number;
  readonly #wide: number;

  /** @param normalizes whether subnormal numbers of e4m3 have exponents of their own, as if they were normal */
  constructor(f: FunctionWriter, format: FloatFormat, { normalizes = true }: { readonly normalizes?: boolean } = {}) {
    this.#f = f;
    this.#normalizes = normalizes;
    this.#format = format;
    this.#magnitude = f.local("v128");
    this.#condition = f.local("v128");
    this.#special = f.local("v128");
    this.#wide = f.local("v128");
  }

  /** Writes code that pushes the flags of all elements that have been converted. */
  pushFlags(): void {
    const { code } = this.#f;
    code.get(this.#special).simd("v128AnyTrue");
    if (!hasWideExponents(this.#format)) return;
    code.get(this.#wide).simd("v128AnyTrue").i32(operandFlags.wide).ops("i32Mul", "i32Or");
  }

  /** Pushes a vector of four equal numbers. */
  #push(number: number): void {
    this.#f.code.i32x4([number, number, number, number]);
  }

  /**
   * Writes code that converts the elements in the low bits of the four lanes of the local `bits`, whose other bits are
   * 0, and sets the locals `values` and `exponents`.
   */
  read(bits: number, { values, exponents }: { values: number; exponents: number }): void {
    const { code } = this.#f;
    switch (this.#format) {
      case "f16":
        this.#readHalf(bits, { values, exponents });
        break;
      case "e5m2":
        code.get(bits).i32(8).simd("i32x4Shl").set(bits);
        this.#readHalf(bits, { values, exponents });
        break;
      case "e4m3":
        this.#readE4M3(bits, { values, exponents });
        break;
      case "bf16":
        code.get(bits).i32(16).simd("i32x4Shl").set(values);
        this.#readSingle({ values, exponents });
        break;
      case "tf32":
        code.get(bits);
        this.#push(~0x1fff);
        code.simd("v128And").set(values);
        this.#readSingle({ values, exponents });
        break;
    }
  }

  #readHalf(bits: number, { values, exponents }: { values: number; exponents: number }): void {
    const { code } = this.#f;
    const magnitude = this.#magnitude, special = this.#condition;
    code.get(bits);
    this.#push(0x7fff);
    code.simd("v128And").set(magnitude);
    // Subnormal numbers are multiples of 2^-24.
    code.get(magnitude).simd("f32x4ConvertI32x4S");
    this.#pushFloat(2 ** -24);
    code.simd("f32x4Mul");
    code.get(magnitude).i32(13).simd("i32x4Shl");
    this.#push(112 << 23);
    code.simd("i32x4Add").get(magnitude);
    this.#push(0x400);
    code.simd("i32x4LtS", "v128Bitselect").set(values);
    code.get(magnitude);
    this.#push(0x7bff);
    code.simd("i32x4GtS").set(special);
    code.get(values).get(special);
    this.#push(0x7f80_0000);
    code.simd("v128And", "v128Or").get(bits);
    this.#push(0x8000);
    code.simd("v128And").i32(16).simd("i32x4Shl", "v128Or").set(values);
    this.#setExponents(() => code.get(magnitude).i32(10).simd("i32x4ShrU"), { bias: 15, exponents });
    code.get(this.#special).get(special).simd("v128Or").set(this.#special);
  }

  #readE4M3(bits: number, { values, exponents }: { values: number; exponents: number }): void {
    const { code } = this.#f;
    const magnitude = this.#magnitude, special = this.#condition;
    code.get(bits);
    this.#push(0x7f);
    code.simd("v128And").set(magnitude);
    code.get(magnitude).simd("f32x4ConvertI32x4S");
    this.#pushFloat(2 ** -9);
    code.simd("f32x4Mul");
    code.get(magnitude).i32(20).simd("i32x4Shl");
    this.#push(120 << 23);
    code.simd("i32x4Add").get(magnitude);
    this.#push(8);
    code.simd("i32x4LtS", "v128Bitselect").set(values);
    code.get(magnitude);
    this.#push(0x7f);
    code.simd("i32x4Eq").set(special);
    if (this.#normalizes) {
      // Subnormal numbers of this format are normal numbers of f16, with exponents of their own.
      this.#setExponents(() => code.get(values).i32(23).simd("i32x4ShrU"), { bias: 127, exponents });
    } else {
      this.#setExponents(() => code.get(magnitude).i32(3).simd("i32x4ShrU"), { bias: 7, exponents });
    }
    code.get(values).get(special);
    this.#push(0x7f80_0000);
    code.simd("v128And", "v128Or").get(bits);
    this.#push(0x80);
    code.simd("v128And").i32(24).simd("i32x4Shl", "v128Or").set(values);
    code.get(this.#special).get(special).simd("v128Or").set(this.#special);
  }

  #readSingle({ values, exponents }: { values: number; exponents: number }): void {
    const { code } = this.#f;
    const magnitude = this.#magnitude, special = this.#condition;
    code.get(values);
    this.#push(0x7fff_ffff);
    code.simd("v128And").set(magnitude);
    code.get(magnitude);
    this.#push(0x7f7f_ffff);
    code.simd("i32x4GtS").set(special);
    this.#setExponents(() => code.get(magnitude).i32(23).simd("i32x4ShrU"), { bias: 127, exponents });
    code.get(this.#special).get(special).simd("v128Or").set(this.#special);
    const { least, most } = narrowExponents;
    code.get(exponents);
    this.#push(least);
    code.simd("i32x4Sub");
    this.#push(most - least);
    code.simd("i32x4GtU").get(exponents);
    this.#push(zeroExponent);
    code.simd("i32x4Ne", "v128And").get(special).simd("v128AndNot").get(this.#wide).simd("v128Or").set(this.#wide);
  }

  /** Sets the exponents of elements whose magnitude is in a local. `pushField` pushes the biased exponents. */
  #setExponents(pushField: () => void, { bias, exponents }: { bias: number; exponents: number }): void {
    const { code } = this.#f;
    this.#push(zeroExponent);
    pushField();
    this.#push(1);
    code.simd("i32x4MaxS");
    this.#push(bias);
    code.simd("i32x4Sub").get(this.#magnitude).i32(0).simd("i32x4Splat", "i32x4Eq", "v128Bitselect").set(exponents);
  }

  #pushFloat(number: number): void {
    this.#f.code.f32(number).simd("f32x4Splat");
  }
}
