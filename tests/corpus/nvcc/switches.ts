import type { CorpusProgram } from "../corpus_program.ts";

const size = 128;
const sparse = [-1000000, -3, 0, 5, 1000, 123456789, 2147483647];
const input: Int32Array = Int32Array.from({ length: size * 2 }, (_, i) => sparse[i] ?? Math.imul(i + 1, 0x9e3779b1));

function bitCount(word: number): number {
  return (word >>> 0).toString(2).replaceAll("0", "").length;
}

function reversed(word: number): number {
  return parseInt([...(word >>> 0).toString(2).padStart(32, "0")].reverse().join(""), 2) | 0;
}

const cases: Record<number, (result: number, value: number, round: number) => number> = {
  0: (result, value) => result + value,
  1: (result) => result ^ 0x1234,
  2: (result, _, round) => Math.imul(result, 3) + round,
  3: (result, value) => result - (value >> 3) + 77,
  4: (result) => result + 77,
  5: (result) => -result,
  6: (result) => Math.trunc(result / 3),
  8: (result, _, round) => result | round,
  9: (result) => (result << 2) + bitCount(result << 2),
  10: (result) => result + bitCount(result),
  11: reversed,
};

function resultOf(value: number): number {
  let result = 0;
  for (let round = 0; round < 5; round++) {
    const selected = value >> round & 15;
    if (selected === 7) continue;
    if (selected === 13) break;
    const step = cases[selected];
    result = step === undefined ? result ^ Math.imul(value, 5) : step(result, value, round) | 0;
    result = result + round * 1000 | 0;
  }
  const place = sparse.indexOf(value);
  return place < 0 ? result : result ^ 1 << place;
}

/** Switches. */
export const program: CorpusProgram = {
  covers: "setp and bra of dense and sparse switches",
  buffers: () => ({ input, out: new Int32Array(input.length) }),
  launches: [{ kernel: "switches", grid: 2, block: size, arguments: ["input", "out"] }],
  expected: () => ({ out: input.map(resultOf) }),
};
