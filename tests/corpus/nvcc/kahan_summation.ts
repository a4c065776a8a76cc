import { RandomBits } from "../arithmetic_operands.ts";
import type { Buffers, CorpusProgram } from "../corpus_program.ts";

const sums = 40;
const length = 300;

function numbers(): Float32Array {
  const random = new RandomBits(51);
  return Float32Array.from({ length: sums * length }, () => (random.fraction() - 0.25) * 2 ** (random.below(30) - 10));
}

/**
 * A double holds the sum of two singles, rounded to more than twice the precision of a single, so rounding it again is
 * correct.
 */
const round = Math.fround;

function expectedSums({ values }: Buffers): { single: Float32Array; double: Float64Array } {
  const single: number[] = [];
  const double: number[] = [];
  for (let first = 0; first < sums * length; first += length) {
    let [plain, sum, lost] = [0, 0, 0];
    let [wideSum, wideLost] = [0, 0];
    for (const value of (values as Float32Array).subarray(first, first + length)) {
      plain = round(plain + value);
      const corrected = round(value - lost);
      const next = round(sum + corrected);
      lost = round(round(next - sum) - corrected);
      sum = next;
      const wideCorrected = value * 0.1 - wideLost;
      const wideNext = wideSum + wideCorrected;
      wideLost = (wideNext - wideSum) - wideCorrected;
      wideSum = wideNext;
    }
    single.push(plain, sum, lost);
    double.push(wideSum, wideLost);
  }
  return { single: Float32Array.from(single), double: Float64Array.from(double) };
}

export const program: CorpusProgram = {
  covers: "chains of add.rn, sub.rn and mul.rn in loops, which no compiler may reorder or fuse",
  buffers: () => ({
    values: numbers(),
    single: new Float32Array(3 * sums),
    double: new Float64Array(2 * sums),
  }),
  launches: [
    { kernel: "sum_single", grid: 2, block: 32, arguments: ["values", "single", sums, length] },
    { kernel: "sum_double", grid: 2, block: 32, arguments: ["values", "double", sums, length] },
  ],
  expected: (initial) => expectedSums(initial),
};
