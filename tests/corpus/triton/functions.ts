import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [grid, block, length] = [3, 256, 200];
const mixed = (value: number, factor: number) => value * factor + (value >> 3);

export const program: CorpusProgram = {
  covers: "calls of functions, one with shared memory and a structure as result, and assertions that hold",
  buffers: () => ({
    // Small enough that the checks of sums and products for overflow hold.
    x: Int32Array.from(randomWords(grid * block, 161), (word) => word % 100000),
    out: new Int32Array(grid * block),
    sums: new Int32Array(grid * 2),
  }),
  launches: [{ kernel: "functions", grid, arguments: ["x", "out", "sums", length, ...scratch] }],
  expected({ x }) {
    const values = Array.from(x as Int32Array);
    return {
      out: Int32Array.from(upTo(grid * block, (at) => {
        const program = Math.floor(at / block);
        return mixed(mixed(values[program]!, 7), program + 1) + at % block;
      })),
      sums: Int32Array.from(
        upTo(grid, (program) => {
          const part = values.slice(program * block, program * block + length);
          return [part.reduce((a, b) => a + b, 0), Math.max(...part)];
        }).flat(),
      ),
    };
  },
};
