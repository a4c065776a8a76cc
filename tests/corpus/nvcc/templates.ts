import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const input: Int32Array = Int32Array.from({ length: size }, (_, i) => Math.imul(i + 1, 0x9e3779b1));
const pushes = Array.from({ length: 9 }, (_, k) => k);

function rowOf(value: number, i: number): number[] {
  const times = i % 5 + 1;
  const applied = pushes.slice(0, times).reduce((result, k) => Math.imul(result, 3) + (value >> k) | 0, 0);
  // Converts each value to the ring's element type before the next step.
  const shorts = pushes.slice(-5).map((k) => value >> k << 16 >> 16);
  const longs = pushes.slice(-3).map((k) => BigInt(value) * BigInt(k));
  const foldedLongs = longs.reduce((folded, item) => BigInt.asIntN(64, folded << 1n ^ item >> BigInt(i % 8)), 7n);
  const power = Array(5).fill(value).reduce(Math.imul, 1);
  return [
    applied,
    times * (times - 1) / 2 + (i % 2 ? 0 : value),
    shorts.reduce((folded, item) => folded * 2 + item << 16 >> 16, 1),
    Number(BigInt.asIntN(32, foldedLongs >> 3n)),
    power + value + i + (value & 255) + 99,
  ];
}

/** The compiler's code for templates and lambdas. */
export const program: CorpusProgram = {
  covers: "templates, lambdas with captures by value and by reference, local objects",
  buffers: () => ({ input, out: new Int32Array(size * 5) }),
  launches: [{ kernel: "templates", grid: 2, block: size / 2, arguments: ["input", "out"] }],
  expected: () => ({ out: Int32Array.from([...input].flatMap(rowOf)) }),
};
