/**
 * Sums of products of floating-point elements, to the bit as tensor cores compute them.
 *
 * All products of a block and the element of C are one sum. Each summand has an exponent: the sum of the exponents of
 * its factors, without normalization. Each summand that is not 0 is truncated toward zero to a multiple of
 * 2^(largest exponent - 25). These multiples are added exactly. The sum is rounded once: toward zero to f32, or to
 * nearest even to f16.
 *
 * Products of all formats are exact in f32. The multiples are integers of at most 27 bits and a sign, so that 16 of
 * them can be added in 32 bits.
 *
 * @module
 */
import { noExponent, operandFlags, zeroExponent } from "./formats.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import { hasRelaxedVectors } from "../webassembly/engine_features.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { fractionBitsOf, type ProductBlock, shortMask } from "./product_block.ts";
import { SumRounder } from "./rounded_sums.ts";
import { writeNarrowBlock } from "./narrow_products.ts";
import { workspace } from "./workspace.ts";

/** The exponent that a block without summands has. No sum of products that are not 0 has a lower one. */
const leastTop = { narrow: -100, wide: -300 } as const;

const nan = { f32: 0x7fff_ffff, f16: 0x7fff } as const;

/** The parameters of a block's functions. */
const space = 0, a = 1, b = 2, first = 3, c = 4, d = 5;

/**
 * Returns a function that computes a block. Its parameters are the workspace, the offsets of A and B, the index of the
 * block's first element in rows of A, the offsets of C and D, which must not overlap, and the flags of the operands.
 */
export function blockFunction(functions: KernelFunctions, block: ProductBlock): number {
  return functions.indexOf(`block ${JSON.stringify(block)}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32", "i32", "i32"]);
    const { code } = f;
    const flags = 6;
    const special = functions.indexOf(`special ${JSON.stringify(block)}`, () => writeSpecial(block));
    const variant = (range: "narrow" | "wide") =>
      functions.indexOf(`${range} ${JSON.stringify(block)}`, () => new BlockWriter(block, range).write());
    const callWith = (index: number) => {
      for (const parameter of [space, a, b, first, c, d]) code.get(parameter);
      code.call(index).get(flags).ops("i32Or").set(flags);
    };
    // The fast function computes what the careful one would, or adds the flag `wide`.
    const fast = !block.isSparse
      ? functions.indexOf(`fast ${JSON.stringify(block)}`, () => writeNarrowBlock(block))
      : block.isWide
      ? variant("narrow")
      : undefined;
    const careful = variant(block.isWide ? "wide" : "narrow");
    if (fast !== undefined) {
      code.get(flags).i32(operandFlags.wide).ops("i32And", "i32Eqz").if();
      callWith(fast);
      code.end().get(flags).i32(operandFlags.wide).ops("i32And").ifUnlikely();
    }
    callWith(careful);
    if (fast !== undefined) code.end();
    code.get(flags).i32(operandFlags.special).ops("i32And").ifUnlikely();
    for (const parameter of [space, a, b, first, c, d]) code.get(parameter);
    code.call(special);
    code.get(space).get(d).call(functions.indexOf(`replace ${block.m * block.n}`, () => writeReplacement(block)));
    code.end();
    return f.finish();
  });
}

/**
 * Writes the sums of a block's products. The function returns the flag `special` if an element of C is an infinity or a
 * NaN.
 */
class BlockWriter {
  readonly #f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32", "i32"], ["i32"]);
  /** The largest exponent of an element of C so far. */
  readonly #largest: number;
  readonly #block: ProductBlock;
  readonly #isWide: boolean;
  readonly #fractionBits: number;
  readonly #rounder: SumRounder;
  readonly #truncate = hasRelaxedVectors() ? "i32x4RelaxedTruncF32x4S" : "i32x4TruncSatF32x4S";

  constructor(block: ProductBlock, range: "narrow" | "wide") {
    this.#block = block;
    this.#isWide = range === "wide";
    this.#largest = this.#f.local("v128");
    this.#fractionBits = fractionBitsOf(block);
    this.#rounder = new SumRounder(this.#f, { fractionBits: this.#fractionBits, bias: 0 });
  }

  write(): FunctionDefinition {
    const { m, n, depth } = this.#block;
    const f = this.#f;
    const { code } = f;
    const aValues = f.local(), aExponents = f.local(), bValues = f.local(), bExponents = f.local();
    const sources = f.local(), cAt = f.local(), dAt = f.local();
    code.get(a).get(first).i32(2).ops("i32Shl", "i32Add").set(aValues);
    code.get(a).get(first).i32(1).ops("i32Shl", "i32Add").set(aExponents);
    code.get(space).get(first).i32(1).ops("i32Shl", "i32Add").set(sources);
    code.get(c).set(cAt).get(d).set(dAt);
    f.loop(m, () => {
      code.get(b).set(bValues).get(b).set(bExponents);
      if (!this.#block.isSparse) {
        code.get(b).get(first).i32(4 * n).ops("i32Mul", "i32Add").set(bValues);
        code.get(b).get(first).i32(2 * n).ops("i32Mul", "i32Add").set(bExponents);
      }
      const columns = () => {
        this.#writeRow({ aValues, aExponents, bValues, bExponents, sources, cAt, dAt });
        const advance = (local: number, bytes: number) => code.get(local).i32(bytes).ops("i32Add").set(local);
        advance(bValues, 32);
        advance(bExponents, 16);
        advance(cAt, 32);
        advance(dAt, 32);
      };
      if (n === 8) columns();
      else f.loop(n / 8, columns);
      code.get(aValues).i32(4 * depth).ops("i32Add").set(aValues);
      code.get(aExponents).i32(2 * depth).ops("i32Add").set(aExponents);
      code.get(sources).i32(2 * depth).ops("i32Add").set(sources);
    });
    code.get(this.#largest);
    this.#push(this.#block.c === "f16" ? 16 : 128);
    code.simd("i32x4GeS", "v128AnyTrue");
    return f.finish();
  }

  /** Writes the sums of eight adjacent elements of a row of D. */
  #writeRow({ aValues, aExponents, bValues, bExponents, sources, cAt, dAt }: {
    readonly aValues: number;
    readonly aExponents: number;
    readonly bValues: number;
    readonly bExponents: number;
    readonly sources: number;
    readonly cAt: number;
    readonly dAt: number;
  }): void {
    const { k, m, n, depth, rows, isSparse } = this.#block;
    const exponentsAt = { a: 4 * m * depth, b: 4 * rows * n } as const;
    const f = this.#f;
    const { code } = f;
    const top = f.local("v128"), ofProducts = f.local("v128");
    const source = f.local();
    /** Pushes the base address of the row of B by which element `index` is multiplied, and returns the offset. */
    const pushRow = (base: number, index: number, bytes: number): number => {
      if (!isSparse) {
        code.get(base);
        return index * n * bytes;
      }
      code.get(sources).memory("i32Load16U", workspace.sources + 2 * index).tee(source);
      code.i32(bytes).ops("i32Mul").get(base).ops("i32Add");
      return 0;
    };
    const pushExponents = (index: number) => {
      code.get(aExponents).loadNumber("v128Load16Splat", exponentsAt.a + 2 * index);
      const offset = pushRow(bExponents, index, 2);
      code.v128Load(exponentsAt.b + offset).simd("i16x8Add");
    };
    for (let index = 0; index < k; index++) {
      pushExponents(index);
      if (index > 0) code.get(top).simd("i16x8MaxS");
      code.set(top);
    }
    code.get(top).set(ofProducts);
    const cs = [f.local("v128"), f.local("v128")] as const;
    const cExponents = [f.local("v128"), f.local("v128")] as const;
    cs.forEach((local, half) => {
      code.get(cAt).v128Load(16 * half);
      if (this.#block.c === "f16") this.#rounder.widenHalf();
      code.set(local);
      this.#setExponents(local, cExponents[half]!);
      code.get(cExponents[half]!).get(this.#largest).simd("i32x4MaxS").set(this.#largest);
    });
    code.get(cExponents[0]).get(cExponents[1]).simd("i16x8NarrowI32x4S").get(top).simd("i16x8MaxS");
    code.i32(leastTop[this.#isWide ? "wide" : "narrow"]).simd("i16x8Splat", "i16x8MaxS").set(top);
    const tops = [f.local("v128"), f.local("v128")] as const;
    code.get(top).simd("i32x4ExtendLowI16x8S").set(tops[0]);
    code.get(top).simd("i32x4ExtendHighI16x8S").set(tops[1]);
    const scales = [f.local("v128"), f.local("v128")] as const;
    const sums = [f.local("v128"), f.local("v128")] as const;
    if (!this.#isWide) {
      scales.forEach((scale, half) => {
        this.#push(127 + this.#fractionBits);
        code.get(tops[half]!).simd("i32x4Sub").i32(23).simd("i32x4Shl").set(scale);
      });
    }
    const element = f.local("v128"), exponents = f.local("v128");
    for (let index = 0; index < k; index++) {
      if (this.#isWide) {
        pushExponents(index);
        code.set(exponents);
      }
      code.get(aValues).loadNumber("v128Load32Splat", 4 * index);
      if (this.#isWide) this.#toSignificand();
      code.set(element);
      [0, 1].forEach((half) => {
        const offset = pushRow(bValues, index, 4);
        code.v128Load(offset + 16 * half);
        if (this.#isWide) {
          this.#toSignificand();
          code.get(element).simd("f32x4Mul");
          code.get(exponents).simd(half === 0 ? "i32x4ExtendLowI16x8S" : "i32x4ExtendHighI16x8S");
          this.#scaleBy(tops[half]!);
        } else {
          code.get(element).simd("f32x4Mul").get(scales[half]!).simd("f32x4Mul");
        }
        code.simd(this.#truncate);
        if (index > 0) code.get(sums[half]!).simd("i32x4Add");
        code.set(sums[half]!);
      });
    }
    // The truncated element of C.
    const addends = [f.local("v128"), f.local("v128")] as const;
    addends.forEach((addend, half) => {
      code.get(cs[half]!);
      if (this.#isWide) {
        this.#toSignificand();
        code.get(cExponents[half]!);
        this.#scaleBy(tops[half]!);
      } else {
        code.get(scales[half]!).simd("f32x4Mul");
      }
      code.simd(this.#truncate).set(addend);
    });
    addends.forEach((addend, half) => {
      this.#round({ sum: sums[half]!, addend, top: tops[half]!, cValue: cs[half]!, ofProducts, half, dAt });
    });
  }

  /** Writes code that replaces the elements on the stack by their significands, from 1 to 2 or, if subnormal, below. */
  #toSignificand(): void {
    const f = this.#f;
    const { code } = f;
    const value = this.#significandValue ??= f.local("v128");
    code.set(value);
    code.get(value);
    code.f32(2 ** 126).simd("f32x4Splat", "f32x4Mul");
    code.get(value);
    this.#push(0x807f_ffff);
    code.simd("v128And");
    this.#push(0x3f80_0000);
    code.simd("v128Or").get(value);
    this.#push(0x7f80_0000);
    code.simd("v128And").i32(0).simd("i32x4Splat", "i32x4Eq", "v128Bitselect");
  }
  #significandValue: number | undefined;

  /** Writes code that pops exponents, and multiplies the significands below by 2^(exponent - top + fraction bits). */
  #scaleBy(top: number): void {
    const { code } = this.#f;
    code.get(top).simd("i32x4Sub");
    this.#push(-100);
    code.simd("i32x4MaxS");
    this.#push(127 + this.#fractionBits);
    code.simd("i32x4Add").i32(23).simd("i32x4Shl", "f32x4Mul");
  }

  /** Writes code that sets the exponents of four elements of C. */
  #setExponents(value: number, exponents: number): void {
    const { code } = this.#f;
    this.#push(zeroExponent);
    code.get(value).i32(23).simd("i32x4ShrU");
    this.#push(0xff);
    code.simd("v128And");
    // A subnormal f16 has the exponent -14, unless GPUs convert it to an f32 first.
    this.#push(this.#block.c === "f16" && this.#block.d === "f16" ? 127 - 14 : 1);
    code.simd("i32x4MaxS");
    this.#push(127);
    code.simd("i32x4Sub").get(value).f32(0).simd("f32x4Splat", "f32x4Eq", "v128Bitselect").set(exponents);
  }

  /** Writes code that rounds four sums and stores them. */
  #round({ sum, addend, top, cValue, ofProducts, half, dAt }: {
    readonly sum: number;
    readonly addend: number;
    readonly top: number;
    readonly cValue: number;
    readonly ofProducts: number;
    readonly half: number;
    readonly dAt: number;
  }): void {
    const f = this.#f;
    const { code } = f;
    code.get(dAt);
    if (this.#block.d === "f16") {
      this.#rounder.pushHalf({ sum, addend, top });
    } else if (this.#isWide) {
      this.#rounder.pushSingle({ sum, addend, top });
    } else {
      this.#rounder.pushNormal({ sum, addend, top });
      code.set(this.#result ??= f.local("v128"));
      // Without products, D is C. C may be so small that the scale above does not fit it.
      code.get(cValue).f32(0).simd("f32x4Splat", "f32x4Add").get(this.#result);
      code.get(ofProducts).simd(half === 0 ? "i32x4ExtendLowI16x8S" : "i32x4ExtendHighI16x8S");
      this.#push(noExponent);
      code.simd("i32x4LtS", "v128Bitselect");
    }
    if (this.#block.isShort && this.#block.d === "f32") {
      this.#push(shortMask);
      // Masking a negative subnormal number leaves -0, to which adding 0 gives +0.
      code.simd("v128And").f32(0).simd("f32x4Splat", "f32x4Add");
    }
    code.v128Store(16 * half);
  }
  #result: number | undefined;

  #push(number: number): void {
    this.#f.code.i32x4([number, number, number, number]);
  }
}

/**
 * Writes a function that finds the elements of D that are infinities or NaNs, and stores them in `special`, where 0
 * stands for an element that is neither. To find them, each number that is not 0 is replaced by 1 or -1.
 */
function writeSpecial(
  { m, n, k, depth, c: cFormat, d: dFormat, isSparse }: ProductBlock,
): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32", "i32"]);
  const { code } = f;
  const sum = f.local("f32"), value = f.local("f32"), row = f.local(), column = f.local(), at = f.local();
  const aAt = f.local(), bAt = f.local(), source = f.local(), bits = f.local();
  /** Replaces the number on the stack. */
  const classify = () => {
    code.set(value).get(value).get(value).ops("f32Sub").f32(0).ops("f32Eq").if("f32");
    code.get(value).f32(0).ops("f32Eq").if("f32").f32(0).else().f32(1).get(value).ops("f32Copysign").end();
    code.else().get(value).end();
  };
  code.i32(0).set(row).loop();
  code.i32(0).set(column).loop();
  code.get(row).i32(n).ops("i32Mul").get(column).ops("i32Add").i32(2).ops("i32Shl").set(at);
  code.get(c).get(at).ops("i32Add").memory("i32Load").set(bits);
  if (cFormat === "f16") {
    // Only whether the element is 0, an infinity or a NaN matters.
    code.get(bits).i32(0x7c00).ops("i32And").i32(0x7c00).ops("i32Eq").if("f32");
    code.get(bits).i32(16).ops("i32Shl").i32(0x8000_0000 | 0).ops("i32And").i32(0x7f80_0000).ops("i32Or");
    code.get(bits).i32(0x3ff).ops("i32And", "i32Or", "f32ReinterpretI32").else().f32(0).end().set(sum);
  } else {
    code.get(bits).ops("f32ReinterpretI32");
    classify();
    code.set(sum);
  }
  code.get(a).get(row).i32(4 * depth).ops("i32Mul", "i32Add").get(first).i32(2).ops("i32Shl", "i32Add").set(aAt);
  code.get(b).get(column).i32(2).ops("i32Shl", "i32Add").set(bAt);
  if (!isSparse) code.get(bAt).get(first).i32(4 * n).ops("i32Mul", "i32Add").set(bAt);
  code.get(space).get(row).i32(2 * depth).ops("i32Mul", "i32Add").get(first).i32(1).ops("i32Shl", "i32Add").set(source);
  f.loop(k, () => {
    code.get(sum).get(aAt).memory("f32Load");
    classify();
    code.get(bAt);
    if (isSparse) code.get(source).memory("i32Load16U", workspace.sources).i32(2).ops("i32Shl", "i32Add");
    code.memory("f32Load");
    classify();
    code.ops("f32Mul", "f32Add").set(sum);
    code.get(aAt).i32(4).ops("i32Add").set(aAt);
    code.get(source).i32(2).ops("i32Add").set(source);
    if (!isSparse) code.get(bAt).i32(4 * n).ops("i32Add").set(bAt);
  });
  code.get(space).get(at).ops("i32Add");
  const infinity = dFormat === "f32" ? 0x7f80_0000 : 0x7c00;
  const sign = dFormat === "f32" ? 0x8000_0000 | 0 : 0x8000;
  code.get(sum).get(sum).ops("f32Ne").if("i32").i32(nan[dFormat]).else();
  code.get(sum).ops("f32Abs").f32(Infinity).ops("f32Eq").if("i32");
  code.i32(infinity).i32(infinity | sign).get(sum).f32(0).ops("f32Gt", "select").else().i32(0).end().end();
  code.memory("i32Store", workspace.special);
  code.get(column).i32(1).ops("i32Add").tee(column).i32(n).ops("i32LtU").brIf(0).end();
  code.get(row).i32(1).ops("i32Add").tee(row).i32(m).ops("i32LtU").brIf(0).end();
  return f.finish();
}

/** Writes a function that replaces the elements of D for which `writeSpecial` has stored another value. */
function writeReplacement({ m, n }: ProductBlock): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32"]);
  const { code } = f;
  const at = f.local(), other = f.local();
  f.loop(m * n, (index) => {
    code.get(index).i32(2).ops("i32Shl").set(at);
    code.get(0).get(at).ops("i32Add").memory("i32Load", workspace.special).tee(other).if();
    code.get(1).get(at).ops("i32Add").get(other).memory("i32Store").end();
  });
  return f.finish();
}
