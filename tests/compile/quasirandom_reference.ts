/**
 * Niederreiter's quasirandom sequence in base 2, in 63 bits.
 *
 * @see https://doi.org/10.1145/146382.146385 Algorithm 738 of the ACM, which computes its numbers so
 * @module
 */

/** Bits of a number. */
const bits = 63;

/** For each dimension the numbers that the bits of an index select: the sequence's value is their exclusive or. */
export function directionNumbers(dimensions: number): bigint[][] {
  return irreduciblePolynomials(dimensions).map((polynomial) => {
    const degree = degreeOf(polynomial);
    const numbers = new Array<bigint>(bits).fill(0n);
    let power = 1n;
    let sequence: number[] = [];
    for (let digit = 0; digit < bits; digit++) {
      const offset = digit % degree;
      if (offset === 0) {
        sequence = recurrence(power, power = multiply(power, polynomial));
      }
      for (let bit = 0; bit < bits; bit++) {
        if (sequence[bit + offset] === 1) numbers[bit]! |= 1n << BigInt(bits - 1 - digit);
      }
    }
    return numbers;
  });
}

/** The value of the sequence with these direction numbers at an index, from 0 to 1. */
export function quasirandomValue(numbers: readonly bigint[], index: bigint): number {
  let result = 0n;
  for (let bit = 0; bit < bits; bit++) if (index >> BigInt(bit) & 1n) result ^= numbers[bit]!;
  return Number(result + 1n) / (2 ** bits + 1);
}

/** The bits that the recurrence of a power's coefficients makes, from those of the power before it. */
function recurrence(before: bigint, power: bigint): number[] {
  const [start, degree] = [degreeOf(before), degreeOf(power)];
  const sequence: number[] = Array.from({ length: degree }, (_, index) => index < start ? 0 : 1);
  while (sequence.length < bits + degree) {
    let next = 0;
    for (let k = 0; k < degree; k++) {
      if (power >> BigInt(k) & 1n) next ^= sequence[sequence.length - degree + k]!;
    }
    sequence.push(next);
  }
  return sequence;
}

/** The first irreducible polynomials over the field of two elements, as the bits of their coefficients. */
function irreduciblePolynomials(count: number): bigint[] {
  const found: bigint[] = [];
  for (let candidate = 2n; found.length < count; candidate++) {
    if (found.every((each) => remainder(candidate, each) !== 0n)) found.push(candidate);
  }
  return found;
}

function degreeOf(polynomial: bigint): number {
  return polynomial.toString(2).length - 1;
}

function multiply(a: bigint, b: bigint): bigint {
  let product = 0n;
  for (let bit = 0; bit <= degreeOf(b); bit++) if (b >> BigInt(bit) & 1n) product ^= a << BigInt(bit);
  return product;
}

function remainder(a: bigint, b: bigint): bigint {
  while (a !== 0n && degreeOf(a) >= degreeOf(b)) a ^= b << BigInt(degreeOf(a) - degreeOf(b));
  return a;
}
