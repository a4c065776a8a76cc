import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [height, width] = [19, 45];
const neighbors = [[-1, 0], [0, -1], [0, 0], [0, 1], [1, 0]] as const;

export const program: CorpusProgram = {
  covers: "a grid of two dimensions, unrolled loops, block pointers with 64-bit offsets",
  buffers: () => ({
    // Small whole numbers, of which every sum is exact.
    x: Float32Array.from(randomWords(height * width, 131), (word) => word % 2001 - 1000),
    out: new Float32Array(height * width),
    copied: new Float32Array(height * width),
  }),
  launches: [{
    kernel: "stencil",
    grid: [Math.ceil(width / 32), Math.ceil(height / 8), 1],
    arguments: ["x", "out", "copied", height, width, ...scratch],
  }],
  expected: ({ x }) => ({
    out: Float32Array.from(upTo(height * width, (at) => {
      const [row, column] = [Math.floor(at / width), at % width];
      return neighbors.reduce((sum, [down, right]) => {
        const isInside = row + down >= 0 && row + down < height && column + right >= 0 && column + right < width;
        const value = isInside ? Number(x![at + down * width + right]) : -1;
        return sum + value * (down === 0 && right === 0 ? 4 : 0.5);
      }, 0);
    })),
    copied: (x as Float32Array).map((value) => value * 2),
  }),
};
