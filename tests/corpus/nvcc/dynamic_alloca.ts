import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const input: Uint32Array = Uint32Array.from({ length: size }, (_, i) => Math.imul(i + 1, 0x9e3779b1));

function digitsSum(value: number, count: number): number {
  const digits = Array.from({ length: count }, (_, i) => value >>> 4 * i & 15);
  const start = count > 1 ? digitsSum(Math.imul(value, 3), count - 1) : 0;
  return digits.reduceRight((sum, digit) => Math.imul(sum, 5) + digit | 0, start);
}

function resultOf(value: number, i: number): number {
  let sum = 0;
  for (let k = 0; k < 4; k++) {
    for (let j = 0; j < 1 + (value + k >>> 0) % 6; j++) sum = Math.imul(sum, 7) + Math.imul(value, j + k + 1) | 0;
  }
  return sum ^ digitsSum(value, 1 + i % 5);
}

/** Local memory with sizes known only at run time. */
export const program: CorpusProgram = {
  covers: "alloca of sizes that differ between threads, in loops and in recursion",
  buffers: () => ({ input, out: new Uint32Array(size) }),
  launches: [{ kernel: "dynamic_alloca", grid: 2, block: size / 2, arguments: ["input", "out"] }],
  expected: () => ({ out: input.map(resultOf) }),
};
