import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes, randomWords } from "./contents.ts";

const threads = 64;
const length = 1000;

export const program: CorpusProgram = {
  covers: "atomic operations without results, in shared and global memory, and every kind of red",
  buffers: () => ({
    bytes: new Uint8Array(randomBytes(length, 131)),
    bins: Uint32Array.from({ length: 64 }, (_, bin) => bin),
    numbers: randomWords(threads, 132),
    words: Uint32Array.of(1, 0, 2 ** 31 - 1, 0x55555555, 0, 0, 0),
    longs: BigUint64Array.of(0n, 2n ** 64n - 1n),
  }),
  launches: [
    { kernel: "histogram", grid: 3, block: 40, arguments: ["bytes", length, "bins"] },
    { kernel: "reductions", grid: 1, block: threads, arguments: ["numbers", "words", "longs"] },
  ],
  expected({ bytes, bins, numbers }) {
    const counted = (bins as Uint32Array).slice();
    for (const byte of bytes as Uint8Array) counted[byte >>> 2]!++;
    const all = [...numbers as Uint32Array];
    const or = all.reduce((a, b) => a | b, 0);
    return {
      bins: counted,
      words: Uint32Array.of(
        all.reduce((sum, number) => (sum + number) % 2 ** 32, 1),
        Math.max(...all),
        Math.min(...all.map((number) => number | 0)),
        all.reduce((a, b) => a ^ b, 0x55555555),
        threads % 7,
        all.reduce((sum, number) => sum + number % 256, 0),
        or,
      ),
      longs: BigUint64Array.of(
        all.reduce((sum, number) => sum + BigInt(number) ** 2n, 0n),
        all.reduce((a, b) => a & ~BigInt(b), 2n ** 64n - 1n),
      ),
    };
  },
};
