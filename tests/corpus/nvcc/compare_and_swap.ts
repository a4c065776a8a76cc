import type { CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "./contents.ts";

const grid = 2;
const block = 40;

export const program: CorpusProgram = {
  covers: "atomic compare-and-swap of 16, 32 and 64 bits, in loops and outside",
  buffers: () => ({
    numbers: randomWords(grid * block, 101),
    products: Uint32Array.of(1, ...new Array<number>(grid).fill(0)),
    maxima: Float64Array.of(-Infinity),
    sums: new Uint16Array(2 + 2 * grid),
    words: Uint32Array.of(7, 0, 0),
    longs: BigUint64Array.of(2n ** 40n + 1n, 0n, 0n),
    halves: Uint16Array.of(0xabcd, 0x1234, 0, 0),
  }),
  launches: [
    { kernel: "combine", grid, block, arguments: ["numbers", "products", "maxima", "sums"] },
    { kernel: "try_swaps", grid: 1, block: 1, arguments: ["words", "longs", "halves"] },
  ],
  expected({ numbers }) {
    const all = [...numbers as Uint32Array];
    const blocks = [all, all.slice(0, block), all.slice(block)];
    return {
      products: Uint32Array.from(
        blocks,
        (values) => values.reduce((product, value) => Math.imul(product, value | 1), 1),
      ),
      maxima: Float64Array.of(Math.max(...all) / 2 - 1e9),
      sums: Uint16Array.from(
        blocks.flatMap((values) =>
          [0, 1].map((odd) =>
            values.filter((_, index) => index % 2 === odd).reduce((sum, value) => (sum + value) % 65536, 0)
          )
        ),
      ),
      words: Uint32Array.of(200, 7, 7),
      longs: BigUint64Array.of(2n ** 64n - 1n, 2n ** 40n + 1n, 2n ** 40n + 1n),
      halves: Uint16Array.of(0xabcd, 0xfffe, 0x1234, 0x1234),
    };
  },
};
