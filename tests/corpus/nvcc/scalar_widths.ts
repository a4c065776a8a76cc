import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes, randomWords } from "./contents.ts";

const count = 100;
const grid = 2;
const block = 64;

export const program: CorpusProgram = {
  covers: "loads, stores and kernel parameters of every scalar width, signed and unsigned",
  buffers: () => ({
    s8: new Int8Array(randomBytes(count, 1)),
    u8: new Uint8Array(randomBytes(count, 2)),
    s16: new Int16Array(randomBytes(2 * count, 3)),
    u16: new Uint16Array(randomBytes(2 * count, 4)),
    s32: new Int32Array(randomBytes(4 * count, 5)),
    u32: randomWords(count, 6),
    s64: new BigInt64Array(randomBytes(8 * count, 7)),
    u64: new BigUint64Array(randomBytes(8 * count, 8)),
    f32: Float32Array.from({ length: count }, (_, index) => (index - 50) / 7),
    f64: Float64Array.from({ length: count }, (_, index) => (index - 50) / 7),
    integers: new BigInt64Array(8 * count),
    floats: new Float64Array(2 * count),
    storedS8: new Int8Array(count),
    storedU16: new Uint16Array(count),
    storedS32: new Int32Array(count),
    storedU64: new BigUint64Array(count),
    storedF32: new Float32Array(count),
    odd: new Uint8Array(count),
    parameterIntegers: new BigInt64Array(9),
    parameterFloats: new Float64Array(2),
  }),
  launches: [
    {
      kernel: "load_widths",
      grid,
      block,
      arguments: [
        "s8",
        "u8",
        "s16",
        "u16",
        "s32",
        "u32",
        "s64",
        "u64",
        "f32",
        "f64",
        "integers",
        "floats",
        count,
      ],
    },
    {
      kernel: "store_widths",
      grid,
      block,
      arguments: ["s64", "storedS8", "storedU16", "storedS32", "storedU64", "storedF32", "odd", count],
    },
    {
      kernel: "scalar_parameters",
      grid: 1,
      block: 1,
      arguments: [
        1,
        -100,
        200,
        -30000,
        60000,
        -2000000000,
        4000000000,
        -(2n ** 62n) - 1n,
        2n ** 64n - 2n,
        0.1,
        0.1,
        "parameterIntegers",
        "parameterFloats",
      ],
    },
  ],
  expected({ s8, u8, s16, u16, s32, u32, s64, u64, f32, f64 }) {
    const sources = [s8, u8, s16, u16, s32, u32, s64, u64];
    const words = s64 as BigInt64Array;
    return {
      integers: BigInt64Array.from(
        { length: 8 * count },
        (_, index) => BigInt(sources[index % 8]![Math.floor(index / 8)]!),
      ),
      floats: Float64Array.from(
        { length: 2 * count },
        (_, index) => Number([f32, f64][index % 2]![Math.floor(index / 2)]),
      ),
      storedS8: Int8Array.from(words, (word) => Number(BigInt.asIntN(8, word))),
      storedU16: Uint16Array.from(words, (word) => Number(BigInt.asUintN(16, word))),
      storedS32: Int32Array.from(words, (word) => Number(BigInt.asIntN(32, word))),
      storedU64: BigUint64Array.from(words, (word) => BigInt.asUintN(64, word)),
      storedF32: Float32Array.from(words, (word) => Number(BigInt.asIntN(16, word))),
      odd: Uint8Array.from(words, (word) => Number(word & 1n)),
      parameterIntegers: BigInt64Array.from(
        [1n, -100n, 200n, -30000n, 60000n, -2000000000n, 4000000000n, -(2n ** 62n) - 1n, -2n],
      ),
      parameterFloats: Float64Array.of(Math.fround(0.1), 0.1),
    };
  },
};
