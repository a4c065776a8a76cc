import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { array, upTo } from "./array_arguments.ts";

const [grid, block] = [2, 48];
const length = grid * block;

export const program: CorpusProgram = {
  covers: "atomics of Numba: some are loops of compare and swap, of doubles too",
  buffers: () => ({
    x: Int32Array.from(randomWords(length, 8), (word) => (word | 0) >> 12),
    // The first two and the last are summed up and compared, two of the next eight swapped, the rest exchanged.
    words: Int32Array.from(
      upTo(17 + length, (at) => at < 16 ? (at === 0 || at === 4 || at === 7 ? 0 : at === 1 ? 0 : -1) : at),
    ),
    floats: new Float32Array(4),
    doubles: new Float64Array(3),
    wide: new BigUint64Array(1),
    order: new BigInt64Array(length + 1),
    table: new Uint32Array(6),
  }),
  launches: [{
    kernel: "atomic_updates",
    grid,
    block,
    arguments: [
      ...array("x", 4, length),
      ...array("words", 4, 17 + length),
      ...array("floats", 4, 4),
      ...array("doubles", 8, 3),
      ...array("wide", 8, 1),
      ...array("order", 8, length + 1),
      ...array("table", 4, 2, 3),
    ],
  }],
  expected({ x, words }) {
    const values = Array.from(x as Int32Array);
    const sum = values.reduce((a, b) => a + b);
    const after = (words as Int32Array).slice();
    values.forEach((value, i) => after[16 + i] = value);
    for (let i = 0; i < 8; i++) if (after[2 + i] === 0) after[2 + i] = i + 1;
    after[0] = sum;
    after[1] = Math.max(0, ...values);
    after[16 + length] = Math.min(16 + length, ...values);
    return {
      floats: Float32Array.from(upTo(4, (k) => {
        return values.filter((_, i) => i % 4 === k).reduce((total, value) => total + (value & 15), 0);
      })),
      doubles: Float64Array.of(Math.max(0, ...values) / 2, Math.min(0, ...values) / 2, sum / 4),
      wide: BigUint64Array.of(values.reduce((all, value) => all ^ BigInt(value & 0xffff) << 20n, 0n)),
      order: BigInt64Array.from([...upTo(length, (i) => BigInt(16 + i)), BigInt(sum)]),
      // 32 decrements and increments, modulo 6.
      table: Uint32Array.of(4, 4, 4, 2, 2, 2),
      words: after,
    };
  },
};
