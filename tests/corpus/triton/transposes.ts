import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [rows, columns] = [32, 64];
const size = rows * columns;

export const program: CorpusProgram = {
  covers: "transposed tensors of 8, 16 and 32 bits through shared memory: stmatrix with and without .trans",
  buffers: () => ({
    x: Int32Array.from(randomWords(size, 91)),
    out: new Int32Array(4 * size),
    narrow: new Int8Array(size),
    // Normal numbers of 16 bits that are small enough to be doubled by adding to the exponent.
    halves: Uint16Array.from(randomWords(size, 92), (word) => word & 0xa3ff | 0x2400),
    swapped: new Uint16Array(size),
  }),
  launches: [{ kernel: "transposes", grid: 1, arguments: ["x", "out", "narrow", "halves", "swapped", ...scratch] }],
  expected({ x, halves }) {
    const values = x as Int32Array;
    /** The index in rows of the element that is at an index in columns. */
    const turned = (at: number) => at % rows * columns + Math.floor(at / rows);
    return {
      out: Int32Array.from([
        ...upTo(size, (at) => values[turned(at)]!),
        ...upTo(size, (at) => values[turned(at)]! + at),
        // Of 8 x 16 x 16 elements, the last axis becomes the first.
        ...upTo(size, (at) => values[at % 128 * 16 + Math.floor(at / 128)]!),
        ...upTo(size, (at) => values[at ^ 1]!),
      ]),
      narrow: Int8Array.from(upTo(size, (at) => values[turned(at)]!)),
      swapped: Uint16Array.from(upTo(size, (at) => Number(halves![turned(at)]) + 0x400)),
    };
  },
};
