import type { CorpusProgram } from "../corpus_program.ts";

const size = 100;
const blocks = 4;
const input: Int32Array = Int32Array.from({ length: size * blocks }, (_, i) => {
  const block = Math.floor(i / size);
  if (i === 3 * size + 57) return 777;
  return i === 2 * size + 30 ? 99 : block * 100 + i * 37 % 101;
});

function blockOf(values: Int32Array): number[] {
  const count = (holds: (value: number) => boolean) => values.filter(holds).length;
  const all = values.every((value) => value >= 100) ? 1 : 0;
  let result = count((value) => value % 3 === 0) << 8 | all << 4 | (values.includes(777) ? 2 : 0);
  for (const limit of [0, 100, 200]) result = result * 3 + count((value) => value > limit);
  const staying = values.filter((_, thread) => thread % 2 === 0);
  const last = Math.imul(result, 128) + staying.length + (staying.every((value) => value >= 100) ? 1 << 30 : 0);
  return Array.from(values, (_, thread) => thread % 2 ? 0 : last | 0);
}

/** Votes of a whole block. */
export const program: CorpusProgram = {
  covers: "bar.red.popc, bar.red.and, bar.red.or, also after some threads have exited",
  buffers: () => ({ input, out: new Int32Array(size * blocks) }),
  launches: [{ kernel: "barrier_votes", grid: blocks, block: size, arguments: ["input", "out"] }],
  expected: () => ({
    out: Int32Array.from(
      Array.from({ length: blocks }, (_, block) => blockOf(input.slice(block * size, (block + 1) * size))).flat(),
    ),
  }),
};
