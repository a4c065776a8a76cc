import type { CorpusProgram } from "../corpus_program.ts";

const specialFloats = [0x80000000, 0x7f800000, 0xff800000, 1, 0x807fffff, 0x7fc00123, 0xffc54321, 0x00800000];
const specialDoubles = [1n << 63n, 0x7ffn << 52n, 1n, 0x7ff8000000000123n, 0xfff8abcd00000001n, 0x000fffffffffffffn];
const word = (i: number) => Math.imul(i + 1, 0x9e3779b1) >>> 0;
const longWord = (i: number) => BigInt(i + 1) * 0x9e3779b97f4a7c15n & 0xffffffffffffffffn;

/** Floats as bits, so that no operation changes a NaN. Only the first few are special values. */
const floats: Uint32Array = Uint32Array.from({ length: 32 }, (_, i) => specialFloats[i] ?? (word(i) & 0xbfffffff));
const doubles: BigUint64Array = BigUint64Array.from(
  { length: 32 },
  (_, i) => specialDoubles[i] ?? (longWord(i) & 0xbfffffffffffffffn),
);
const integers: BigInt64Array = BigInt64Array.from({ length: 32 }, (_, i) => BigInt.asIntN(64, longWord(i + 99)));

const sources = [
  (lane: number) => (lane * 5 + 3) % 32,
  (lane: number) => lane < 3 ? lane : lane - 3,
  (lane: number) => lane % 16 + 9 < 16 ? lane + 9 : lane,
  (lane: number) => lane ^ 21,
];
const origins: number[] = sources.flatMap((source) => Array.from({ length: 32 }, (_, lane) => source(lane)));

/** Shuffles of types other than int. */
export const program: CorpusProgram = {
  covers: "shfl.sync of float, double, long long; mov between .b64 and a vector of two .b32",
  buffers: () => ({
    floats,
    doubles,
    integers,
    floatsOut: new Uint32Array(128),
    doublesOut: new BigUint64Array(128),
    integersOut: new BigInt64Array(128),
  }),
  launches: [{
    kernel: "shuffle_types",
    grid: 1,
    block: 32,
    arguments: ["floats", "doubles", "integers", "floatsOut", "doublesOut", "integersOut"],
  }],
  expected: () => ({
    floatsOut: Uint32Array.from(origins, (lane) => floats[lane]!),
    doublesOut: BigUint64Array.from(origins, (lane) => doubles[lane]!),
    integersOut: BigInt64Array.from(origins, (lane) => integers[lane]!),
  }),
};
