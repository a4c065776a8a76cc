import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 64;

function runs(value: number): number {
  let [last, parity, count] = [false, true, 0];
  for (let bit = 0; bit < 32; bit++) {
    const now = (value >>> bit & 1) === 1;
    if (now !== last) count++;
    parity = parity !== now;
    last = parity ? now : !now && bit > 3;
  }
  return count * 2 + Number(parity);
}

interface Outcome {
  readonly row: readonly number[];
  readonly flags: readonly boolean[];
}

function outcomeOf(input: Int32Array, i: number): Outcome {
  const [a, b] = [input[i * 2]!, input[i * 2 + 1]!];
  const [less, even, high] = [a < b, a % 2 === 0, b >>> 0 > 0x8000_0000];
  const seen: number[] = [];
  while (seen.length < 10 && (seen.at(-1) ?? 0) > -1_500_000_000) seen.push(input[(i + seen.length) % 64]!);
  const all = seen.at(-1)! > -1_500_000_000;
  const any = seen.some((value) => value % 16 === 3);
  const flags = [(a & 1) !== 0, (a & 2) !== 0, (a & 4) !== 0, any];
  const weights = [less, even, high, less !== even, less !== high, !less || even];
  const isMajority = [less, even, high].filter(Boolean).length >= 2;
  const row = [
    weights.reduce((sum, holds, index) => holds ? sum + 2 ** index : sum, 0),
    runs(isMajority ? a : b),
    (less && a > 0) || (even && !high) ? a : b,
    Math.max(a, b) > 5 ? 11 : less === even ? 12 : 13,
    Number(all) + Number(any) * 2 + seen.length * 4,
    flags[i & 3] ? (flags[0] ? 3 : 2) : Number(!high),
  ];
  return { row, flags };
}

/** Clang's code for booleans. */
export const program: CorpusProgram = {
  covers: "and, or, xor, not of .pred, selp, set and setp with combinations, .pred kept in registers and bytes",
  buffers: () => ({
    input: new Int32Array(randomWords(threads * 2)),
    out: new Uint32Array(threads * 6),
    flags: new Uint8Array(threads * 4),
  }),
  launches: [{ kernel: "predicates", grid: 2, block: threads / 2, arguments: ["input", "out", "flags"] }],
  expected({ input }) {
    const outcomes = Array.from({ length: threads }, (_, i) => outcomeOf(input as Int32Array, i));
    return {
      out: Uint32Array.from(outcomes.flatMap(({ row }) => row)),
      flags: Uint8Array.from(outcomes.flatMap(({ flags }) => flags), Number),
    };
  },
};
