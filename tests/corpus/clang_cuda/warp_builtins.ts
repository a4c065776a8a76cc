import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const [grid, block] = [2, 64];
const length = grid * block;
const bitsOf = (word: bigint, width: number) =>
  Array.from({ length: width }, (_, bit) => Number(word >> BigInt(bit) & 1n));
const towardZero = (value: number) => {
  const rounded = Math.fround(value);
  if (Math.abs(rounded) <= Math.abs(value)) return rounded;
  const bits = new Uint32Array(Float32Array.of(rounded).buffer);
  bits[0]!--;
  return new Float32Array(bits.buffer)[0]!;
};
const ties = (value: number) => {
  const low = Math.floor(value);
  return value - low < 0.5 || (value - low === 0.5 && low % 2 === 0) ? low : low + 1;
};

function rowOf(all: readonly number[], i: number): number[] {
  const value = all[i]!;
  const [first, lane] = [i - i % 32, i % 32];
  const warp = all.slice(first, first + 32);
  const inBlock = all.slice(i - i % block, i - i % block + block);
  const byte = (word: number, at: number) => word >>> 8 * at & 255;
  const permuted = byte(value, 0) | byte(i, 0) << 8 | byte(value, 1) << 16 | byte(i, 1) << 24;
  const square = BigInt.asUintN(64, BigInt(value) * BigInt(value));
  const reversed = bitsOf(BigInt.asUintN(32, BigInt(value)), 32).reduce((word, bit, at) => word | bit << 31 - at, 0);
  const funnel = Number(BigInt.asIntN(32, (BigInt(i) << 32n | BigInt(value >>> 0)) << BigInt(value & 31) >> 32n));
  const high = (a: number, b: number) => Number(BigInt.asIntN(32, BigInt(a) * BigInt(b) >> 32n));
  const dot = [0, 1, 2, 3].reduce(
    (sum, at) => sum + (value << 24 - 8 * at >> 24) * (i * 0x01020304 << 24 - 8 * at >> 24),
    7,
  );
  const half = new DataView(Float64Array.of(value * 0.25).buffer).getInt32(4, true);
  return [
    all[i ^ 7]! ^ all[lane % 16 < 3 ? i : i - 3]!,
    warp.reduce((mask, each, at) => each > 0 ? mask | 1 << at : mask, 0),
    warp.reduce((sum, each) => sum + (each & 1023), 0),
    bitsOf(square, 64).reduce((a, b) => a + b) + Math.clz32(value) * 100 +
    (value === 0 ? 0 : 32 - Math.clz32(value & -value)) * 10000,
    permuted + reversed,
    funnel ^ high(value, i * 100003),
    Number(BigInt.asIntN(32, BigInt(value & 0xffffff) * BigInt(i & 0xffffff))) + Math.abs(value - i) + 5,
    Number(inBlock.some((each) => each === 3)) + inBlock.filter((each) => each & 1).length,
    dot,
    Number(warp.some((each) => each === all[0])) + Number(warp.every((each) => each !== all[0])) * 2,
    ties((value >> 9) * 0.5) + half,
    Math.trunc((value & 63) / 2),
  ];
}

export const program: CorpusProgram = {
  covers: "clang's wrappers of warp intrinsics, of the math functions with a rounding, and of vector types",
  buffers: () => ({
    x: Int32Array.from(randomWords(length, 4), (word, at) => at === 70 ? 3 : word),
    out: new Int32Array(length * 12),
    numbers: new Float64Array(length * 2),
    vectors: new Float32Array(length * 4),
  }),
  launches: [{ kernel: "warp_builtins", grid, block, arguments: ["x", "out", "numbers", "vectors"] }],
  expected({ x }) {
    const all = Array.from(x as Int32Array);
    return {
      out: Int32Array.from(all.flatMap((_, i) => rowOf(all, i))),
      numbers: Float64Array.from(all.flatMap((value, i) => {
        const wide = BigInt(all[i % 32 === 31 ? i : i + 1]!) << 24n;
        const bits = BigUint64Array.of(0x3ff0_0000_0000_0000n | (wide & 0xffff_ffffn) << 20n);
        return [new Float64Array(bits.buffer)[0]!, 1 / (value | 1) + Math.sqrt(value & 0x7fff_ffff)];
      })),
      vectors: Float32Array.from(all.flatMap((value) => {
        const f = value & 255;
        const sign = value < 0 ? -2 : 2;
        return [
          (f + 1) * sign,
          Math.max(f, 100),
          towardZero(f + Math.fround(0.1)),
          Math.trunc(Math.fround(f * Math.fround(0.3))),
        ];
      })),
    };
  },
};
