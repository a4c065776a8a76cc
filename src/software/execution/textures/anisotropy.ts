/**
 * The level of detail of a read with gradients, and the samples that anisotropic filtering takes. The rules are those of
 * an H200, found by comparing recorded weights of texels.
 *
 * Levels and ratios are logarithms in 256ths.
 *
 * @module
 */
import { exponentOf, powerOfTwo } from "./texel_format.ts";

let powers: readonly number[] | undefined, logarithms: readonly number[] | undefined;

/** Returns 2 ** (8 - fraction / 256) as a whole number, for a fraction from 0 to 255. */
function powerFor(fraction: number): number {
  powers ??= Array.from({ length: 256 }, (_, each) => Math.round(2 ** (8 - each / 256)));
  return powers[fraction]!;
}

/** Returns the logarithm of 1 + step / 256, for a step from 0 to 255, as the texture unit has it. */
function logarithmFor(step: number): number {
  logarithms ??= Array.from({ length: 256 }, (_, each) => {
    return each === 0 ? 0 : Math.min(255, Math.round(256 * Math.log2(1 + (each + 15 / 32) / 256)));
  });
  return logarithms[step]!;
}

/** The level of a read whose gradients are infinite, and of one whose gradients are 0. */
const greatestLevel = 32 * 256, leastLevel = -32 * 256;

/** What the gradients of a read ask for. */
export interface Coverage {
  /** The level of detail. */
  readonly level: number;
  /** How much longer the pixel's longer axis is than its shorter one. Not above 0 for a single sample. */
  readonly ratio: number;
  /** The direction of the longer axis: a vector of length 64. */
  readonly right: number;
  readonly down: number;
}

/** Samples of one level along a vector. */
export interface Samples {
  /** The part of the vector by whose halves the samples are apart. */
  readonly part: number;
  /** The distances from the place, in halves of that part, and the weights. */
  readonly distances: readonly number[];
  readonly weights: readonly number[];
  /** The factor with which all weights have the sum `4 * weight`. */
  readonly scale: number;
}

/** What a read asks for whose gradients are infinite. */
export const greatestCoverage: Coverage = { level: greatestLevel, ratio: 0, right: 0, down: 0 };

/**
 * Returns what gradients ask for, whose parts are in texels.
 *
 * @param most the greatest number of samples: 1 without anisotropic filtering
 * @param areInPlane whether the gradients can be added: not those of a cubemap that lead to different faces
 */
export function coverageOf(
  dx: readonly number[],
  dy: readonly number[],
  most: number,
  areInPlane = true,
): Coverage {
  const [first, second] = [dx.map(shortened), dy.map(shortened)];
  const combined = (sign: number) => first.map((part, index) => scaledSum(part, sign * second[index]!));
  // The longer axis is one of the gradients, or a part of their sum or difference.
  let axis = first, longest = lengthOf(first);
  for (const other of areInPlane ? [second, combined(1), combined(-1)] : [second]) {
    const length = lengthOf(other);
    if (length > longest) [axis, longest] = [other, length];
  }
  if (!(longest < Infinity)) return greatestCoverage;
  if (longest === 0) return { ...greatestCoverage, level: leastLevel };
  const level = logarithm(longest);
  if (most === 1 || dx.length > 2 || !areInPlane) return { level, ratio: 0, right: 0, down: 0 };
  const [dx0 = 0, dx1 = 0] = first, [dy0 = 0, dy1 = 0] = second;
  const area = Math.abs(alignedSum(product(dx0, dy1), -product(dx1, dy0)));
  const shorter = area > 0 ? logarithm(area) - level : -Infinity;
  const sharpened = Math.min(level, Math.max(level - greatestRatio(most), shorter));
  const [right = 0, down = 0] = axis;
  return { level: sharpened, ratio: level - Math.max(sharpened, 0), ...directionOf(right, down) };
}

/** Returns the samples of a level for a ratio, with the weight of the level in 256ths. */
export function samplesFor(ratio: number, weight: number): Samples {
  if (ratio <= 0) return { part: 0, distances: [0], weights: [weight], scale: 4 };
  const octave = ratio >> 8, power = powerFor(ratio & 255);
  if (octave === 0) return { part: (256 - power) / 128, distances: [1, -1], weights: [weight, weight], scale: 2 };
  const inner = octave < 3 ? power : octave === 3 ? power >> 1 : 64;
  const side = octave === 1 ? 256 : 512;
  const count = Math.ceil(side / inner);
  // Sums of weights are rounded, up at one side and down at the other one. The outermost sample has what is left.
  const distances: number[] = [], weights: number[] = [];
  for (const sign of [1, -1]) {
    let before = 0;
    for (let index = 1; index <= count; index++) {
      const sum = index === count ? side / 256 * weight : inner * index * weight + (sign > 0 ? 128 : 127) >> 8;
      distances.push(sign * (2 * index - 1));
      weights.push(sum - before);
      before = sum;
    }
  }
  return { part: 1, distances, weights, scale: octave === 1 ? 2 : 1 };
}

/**
 * Returns how far samples are apart, in 64ths of a texel, of whose vector one coordinate is given.
 *
 * @param fraction by how much, in 256ths, the level of the samples is finer than the level of detail. The vector is longer
 * there
 */
export function stepOf(coordinate: number, { part }: Samples, fraction: number): number {
  const scale = fraction === 0 ? 64 : powerFor(256 - fraction) >> 1;
  return Math.floor(Math.floor(part * coordinate + 0.5) * scale / 64);
}

/** Returns the greatest ratio for a number of samples, which is rounded down to one that texture units have. */
function greatestRatio(most: number): number {
  const possible = most < 2 ? 1 : most < 16 ? Math.min(12, most - most % 2) : 16;
  return 8 * Math.floor(32 * Math.log2(possible));
}

/** Returns the direction of a vector, whose parts count with four bits. */
function directionOf(right: number, down: number): { right: number; down: number } {
  const [x, y] = [Math.abs(right), Math.abs(down)];
  const longer = Math.max(x, y), shorter = Math.min(x, y);
  const unit = powerOfTwo(exponentOf(longer) - 3);
  const a = Math.floor(longer / unit) + 0.5;
  const b = shorter < unit / 4 ? 0 : Math.floor(shorter / unit) + 0.5;
  const length = Math.hypot(a, b);
  const [most, least] = b === 0 ? [64, 0] : [Math.round(64 * a / length), Math.round(64 * b / length)] as const;
  const [across, along] = x >= y ? [most, least] : [least, most];
  return { right: right < 0 ? -across : across, down: down < 0 ? -along : along };
}

/** Returns the logarithm of a positive number, of which nine bits count. */
function logarithm(value: number): number {
  const exponent = exponentOf(value);
  const step = Math.floor((value / powerOfTwo(exponent) - 1) * 256);
  return 256 * exponent + logarithmFor(step);
}

/** Returns the unit that is `bits` bits below the leading one of a number. 0 if it has none. */
function unitOf(value: number, bits: number): number {
  const magnitude = Math.abs(value);
  return magnitude > 0 && magnitude < Infinity ? powerOfTwo(exponentOf(magnitude) - bits) : 0;
}

/** Cuts a number to a multiple of a unit. */
function cut(value: number, unit: number): number {
  return unit === 0 ? value : Math.trunc(value / unit) * unit;
}

/** Returns the ten leading bits of a number. */
function shortened(value: number): number {
  return cut(value, unitOf(value, 9));
}

/** Rounds a number that is not negative to a multiple of a unit. */
function rounded(value: number, unit: number): number {
  return unit === 0 ? value : Math.floor(value / unit + 0.5) * unit;
}

/** Returns a sum of numbers that are cut to eleven bits of the larger one. */
function alignedSum(a: number, b: number): number {
  const unit = unitOf(Math.max(Math.abs(a), Math.abs(b)), 10);
  return cut(a, unit) + cut(b, unit);
}

/** Returns the ten leading bits of a product of numbers that have ten bits, of whose own bits the lowest are dropped. */
function product(a: number, b: number): number {
  if (a === 0 || b === 0) return 0;
  const unitA = unitOf(a, 9), unitB = unitOf(b, 9);
  const bitsA = Math.abs(a) / unitA, bitsB = Math.abs(b) / unitB;
  // Half of what is dropped on average is added.
  let sum = 7;
  for (let bit = 0; bit < 10; bit++) if ((bitsB >> bit & 1) === 1) sum += bitsA << bit >> 6;
  return shortened(Math.sign(a) * Math.sign(b) * sum * 64 * unitA * unitB);
}

/** Returns 11/16 of a sum, in ten bits. */
function scaledSum(a: number, b: number): number {
  const sum = shortened(alignedSum(a, b));
  return Math.sign(sum) * shortened(rounded(11 / 16 * Math.abs(sum), unitOf(sum, 10)));
}

/** Returns the approximate length of a vector. */
function lengthOf(vector: readonly number[]): number {
  let most = 0, middle = 0, least = 0;
  for (const part of vector) {
    const magnitude = Math.abs(part);
    if (magnitude > most) [most, middle, least] = [magnitude, most, middle];
    else if (magnitude > middle) [middle, least] = [magnitude, middle];
    else least = Math.max(least, magnitude);
  }
  return most + rounded(11 / 32 * middle, unitOf(middle, 11)) + 1 / 4 * least;
}
