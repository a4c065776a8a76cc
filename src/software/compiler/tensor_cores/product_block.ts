/**
 * Blocks of products: matrices whose elements are exact sums that are rounded once.
 *
 * @module
 */

/** A block of products. */
export interface ProductBlock {
  readonly m: number;
  readonly n: number;
  /** The number of products in each sum. */
  readonly k: number;
  /** The number of elements of a row of A in the workspace. */
  readonly depth: number;
  /** The number of rows of B in the workspace. */
  readonly rows: number;
  readonly c: "f16" | "f32";
  readonly d: "f16" | "f32";
  /** Whether each element of A is multiplied by an element of a row of B that the workspace names. */
  readonly isSparse: boolean;
  /** Whether exponents may be outside of `narrowExponents`. */
  readonly isWide: boolean;
  /** Whether sums have fewer bits: see `fewFractionBits`. */
  readonly isShort?: true;
}

/** The number of bits after the binary point of the largest summand's exponent. */
const usualFractionBits = 25;
/** The number of bits in a warpgroup's products of 8-bit elements. Their results in f32 lack the low 10 bits. */
const fewFractionBits = 13;
/** The bits of such a result that are kept. */
export const shortMask = -0x400;

/** The number of bits after the binary point of the largest exponent in a block's sums. */
export function fractionBitsOf({ isShort }: ProductBlock): number {
  return isShort ? fewFractionBits : usualFractionBits;
}
