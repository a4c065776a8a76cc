import type { CorpusProgram } from "../corpus_program.ts";

const count = 150;
const table: Uint32Array = Uint32Array.from({ length: 64 }, (_, i) => i * 37 % 101);

function firstFactor(n: number): number {
  if (n < 2) return -1;
  for (let factor = 2; factor < n; factor++) if (n % factor === 0) return factor;
  return 0;
}

function resultOf(i: number): number {
  const found = table.indexOf(i);
  const left = Array.from({ length: 64 }, (_, place) => Math.floor(place / 8) * (place % 8)).findIndex((product) =>
    product > i
  );
  if (found >= 0 && (left < 0 || found <= left)) {
    return firstFactor(i) + Math.floor(found / 8) * 1000 + found % 8 * 100;
  }
  return left < 0 ? firstFactor(i) - 5 : firstFactor(i);
}

/** Threads that return at different times. */
export const program: CorpusProgram = {
  covers: "ret out of nested loops",
  buffers: () => ({ table, out: new Int32Array(count) }),
  launches: [{ kernel: "early_returns", grid: 3, block: 64, arguments: ["table", count, "out"] }],
  expected: () => ({ out: Int32Array.from({ length: count }, (_, i) => resultOf(i)) }),
};
