import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const input: Uint32Array = Uint32Array.from({ length: size }, (_, i) => Math.imul(i + 5, 0x9e3779b1));

function warpOf(values: Uint32Array): number[] {
  const signed = Array.from(values, (value) => value | 0);
  const add = (terms: Uint32Array) => terms.reduce((sum, term) => sum + term >>> 0, 0);
  const xor = (terms: Uint32Array) => terms.reduce((bits, term) => bits ^ term, 0);
  const row = [
    add(values),
    add(values),
    Math.min(...values),
    Math.max(...values),
    Math.min(...signed),
    Math.max(...signed),
    values.reduce((bits, value) => bits & (value | 0x1010), -1),
    values.reduce((bits, value) => bits | value & 0xff0ff0ff, 0),
    xor(values),
  ];
  const every8th = values.filter((_, lane) => lane % 8 === 3);
  const others = values.filter((_, lane) => lane % 8 !== 3 && lane < 16);
  const largest = Math.max(...Array.from(others, (value) => value | 0));
  return Array.from(values).flatMap((_, lane) => {
    if (lane % 8 === 3) return [...row, add(every8th)];
    return [...row, lane < 16 ? xor(others) ^ largest : 0];
  });
}

/** Reductions among the lanes of warps. */
export const program: CorpusProgram = {
  covers: "redux.sync add, min, max of .u32 and .s32; and, or, xor",
  buffers: () => ({ input, out: new Uint32Array(size * 10) }),
  launches: [{ kernel: "warp_reduce", grid: 1, block: size, arguments: ["input", "out"] }],
  expected: () => ({ out: Uint32Array.from([...warpOf(input.slice(0, 32)), ...warpOf(input.slice(32))]) }),
};
