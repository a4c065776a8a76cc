import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [rows, columns, parts] = [70, 64, 4];
/** 1, 1.25, 1.5 and 1.75 as 16-bit floats: every sum of products is exact. */
const halves = (length: number, seed: number) =>
  Uint16Array.from(randomWords(length, seed), (word) => 0x3c00 | word % 4 << 8);
const numberOf = (bits: number | bigint) => 1 + (Number(bits) & 0x3ff) / 1024;

export const program: CorpusProgram = {
  covers: "cp.async with several groups under way, persistent programs, flattened loops",
  buffers: () => ({
    x: halves(parts * rows * columns, 171),
    table: halves(parts * columns, 172),
    out: new Float32Array(rows),
  }),
  launches: [{ kernel: "pipelined_rows", grid: 2, arguments: ["x", "table", "out", rows, ...scratch] }],
  expected: ({ x, table }) => ({
    out: Float32Array.from(upTo(rows, (row) => {
      return upTo(parts * columns, (at) => {
        const [part, column] = [Math.floor(at / columns), at % columns];
        return numberOf(x![(part * rows + row) * columns + column]!) * numberOf(table![at]!);
      }).reduce((a, b) => a + b, 0);
    })),
  }),
};
