import { RandomBits } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const count = 200;
const columns = 4;

function numbers(seed: number): Float32Array {
  const random = new RandomBits(seed);
  return Float32Array.from({ length: 2 * count }, () => (random.fraction() * 2 - 1) * 2 ** (random.below(12) - 6) || 1);
}

const [a, b, c] = [numbers(161), numbers(162), numbers(163)] as const;

/** A result before rounding, and the sum of the magnitudes of its terms. */
interface Part {
  readonly value: number;
  readonly terms: number;
}

const sum = (...terms: number[]): Part => ({
  value: terms.reduce((total, term) => total + term, 0),
  terms: terms.reduce((total, term) => total + Math.abs(term), 0),
});

/**
 * Returns the results of a kernel for one element, real and imaginary. Doubles represent products of singles exactly.
 */
function partsOf(element: number): Part[] {
  const [ar, ai] = [a[2 * element]!, a[2 * element + 1]!];
  const [br, bi] = [b[2 * element]!, b[2 * element + 1]!];
  const [cr, ci] = [c[2 * element]!, c[2 * element + 1]!];
  const square = br * br + bi * bi;
  const divided = ({ value, terms }: Part): Part => ({ value: value / square, terms: terms / square });
  return [
    sum(ar, br),
    sum(ai, bi),
    sum(ar * br, -ai * bi),
    sum(ar * bi, ai * br),
    divided(sum(ar * br, ai * bi)),
    divided(sum(ai * br, -ar * bi)),
    sum(ar * br, -ai * bi, cr),
    sum(ar * bi, ai * br, ci),
  ];
}

export const program: CorpusProgram = {
  covers: "float add, sub and mul without a rounding modifier, fused or not",
  buffers: () => ({ a: a.slice(), b: b.slice(), c: c.slice(), results: new Float32Array(2 * columns * count) }),
  launches: [{ kernel: "compute", grid: 4, block: 64, arguments: ["a", "b", "c", "results", count] }],
  expected: () => ({
    results: Float32Array.from(
      Array.from({ length: count }, (_, element) => partsOf(element)).flat(),
      ({ value }) => value,
    ),
  }),
  bounds: {
    results: {
      derivation:
        "at most seven roundings, each with half an ulp, or 2^-24, of a partial sum; a partial sum exceeds the sum " +
        "of the magnitudes of the terms by no more than its own roundings",
      absolute: (_, index) => {
        const parts = partsOf(Math.floor(index / (2 * columns)));
        return 7 * 2 ** -24 * (1 + 2 ** -20) * parts[index % (2 * columns)]!.terms;
      },
    },
  },
};
