import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { array, upTo } from "./array_arguments.ts";

const length = 64;
const bits = (word: number) => upTo(32, (bit) => word >>> bit & 1);

export const program: CorpusProgram = {
  covers: "shuffles of 32 and 64 bits, votes, matches, barriers that count, bits of words",
  buffers: () => ({
    x: Int32Array.from(randomWords(length, 5), (word) => word | 16),
    doubles: Float64Array.from(randomWords(length, 6), (word) => word / 7),
    wide: BigInt64Array.from(randomWords(length, 7), (word) => BigInt(word) * 0x1_0000_0003n - (1n << 60n)),
    out: new Int32Array(length * 10),
  }),
  launches: [{
    kernel: "warp_exchange",
    grid: 1,
    block: length,
    arguments: [
      ...array("x", 4, length),
      ...array("doubles", 8, length),
      ...array("wide", 8, length),
      ...array("out", 4, length, 10),
    ],
  }],
  expected({ x, doubles, wide }) {
    const values = Array.from(x as Int32Array);
    const mask = (first: number, has: (value: number) => boolean) =>
      values.slice(first, first + 32).reduce((all, value, lane) => has(value) ? all | 1 << lane : all, 0);
    return {
      out: Int32Array.from(values.flatMap((value, i) => {
        const [lane, first] = [i % 32, i - i % 32];
        return [
          values[first + 3]!,
          values[lane < 2 ? i : i - 2]!,
          values[lane > 26 ? i : i + 5]!,
          values[i ^ 9]!,
          mask(first, (each) => each > 0),
          Number(mask(first, (each) => each > -2000000000) === -1) +
          2 * Number(mask(first, (each) => each > 2000000000) !== 0),
          mask(first, (each) => (each & 3) === (value & 3)),
          bits(value).reduce((a, b) => a + b) + 100 * Math.clz32(value) + 10000 * (1 + bits(value).indexOf(1)),
          bits(value).reduce((word, bit, at) => word | bit << 31 - at, 0) ^ lane,
          value > 0 ? values.filter((each) => each > 0).length : Number(values.some((each) => each & 2)),
        ];
      })),
      doubles: Float64Array.from(doubles as Float64Array, (value, i) => value + Number(doubles![i ^ 1])),
      wide: BigInt64Array.from(wide as BigInt64Array, (value, i) => i % 32 === 31 ? value : wide![i + 1] as bigint),
    };
  },
};
