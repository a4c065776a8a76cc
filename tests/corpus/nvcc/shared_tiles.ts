import type { CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "./contents.ts";

const [width, height] = [20, 13];

export const program: CorpusProgram = {
  covers: "static shared memory, two-dimensional and of several types, with barriers",
  buffers: () => ({
    matrix: Float32Array.from({ length: width * height }, (_, index) => index / 3),
    transposed: new Float32Array(width * height),
    words: randomWords(32),
    sums: new BigUint64Array(32),
  }),
  launches: [
    { kernel: "transpose", grid: [3, 2, 1], block: [8, 8, 1], arguments: ["matrix", "transposed", width, height] },
    { kernel: "mixed_arrays", grid: 1, block: 32, arguments: ["words", "sums"] },
  ],
  expected({ matrix, words }) {
    const numbers = words as Uint32Array;
    const total = numbers.reduce((sum, word) => sum + word % 256, 0);
    return {
      transposed: (matrix as Float32Array).map((_, index) =>
        Number(matrix![index % height * width + Math.floor(index / height)])
      ),
      sums: BigUint64Array.from(numbers, (_, thread) => {
        const half = numbers[31 - thread]! >>> 8 & 0xffff;
        const byte = numbers[(thread + 1) % 32]! & 0xff;
        return BigInt(numbers[thread ^ 5]!) * 65536n + BigInt(half + byte + total);
      }),
    };
  },
};
