import { randomBytes, randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const length = 512;

function reversed(word: number): number {
  return upTo(32, (bit) => (word >>> bit & 1) << 31 - bit).reduce((a, b) => a | b, 0);
}

export const program: CorpusProgram = {
  covers: "inline assembly with two results, with blocks of its own, and on four bytes at a time",
  buffers: () => ({
    x: Int32Array.from(randomWords(length, 151), (word, at) => word >>> at % 33 % 32),
    bytes: new Uint8Array(randomBytes(length, 152)),
    out: new Int32Array(2 * length),
    shifted: new Uint8Array(length),
  }),
  launches: [{ kernel: "inline_assembly", grid: 1, arguments: ["x", "bytes", "out", "shifted", ...scratch] }],
  expected({ x, bytes }) {
    const values = Array.from(x as Int32Array);
    return {
      out: Int32Array.from([
        ...values.map((value, at) => reversed(value) ^ at ^ 0xff00ff00),
        ...values.map((value) => 31 - Math.clz32(value)),
      ]),
      // The difference from the half.
      shifted: (bytes as Uint8Array).map((byte) => byte - (byte >> 1)),
    };
  },
};
