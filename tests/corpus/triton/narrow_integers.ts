import { randomBytes } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch } from "./scratch.ts";

const length = 512;
const block = 256;

export const program: CorpusProgram = {
  covers: "integers of 8 and 16 bits, packed in registers; divisions and remainders of every sign",
  buffers: () => ({
    x: new Int8Array(randomBytes(length, 121)),
    y: new Uint8Array(randomBytes(length, 122)),
    z: new Int16Array(randomBytes(length * 2, 123)),
    bytes: new Int8Array(3 * length),
    unsigned: new Uint8Array(3 * length),
    shorts: new Int16Array(3 * length),
    words: new Int32Array(3 * length),
    flags: new Uint8Array(length),
    long: new BigInt64Array(2 * length),
  }),
  launches: [{
    kernel: "narrow_integers",
    grid: length / block,
    arguments: ["x", "y", "z", "bytes", "unsigned", "shorts", "words", "flags", "long", ...scratch],
  }],
  expected({ x, y, z }) {
    const all = Array.from(x as Int8Array, (a, at) => [a, Number(y![at]), Number(z![at])] as const);
    const columns = (make: ((a: number, b: number, c: number) => number)[]) =>
      make.flatMap((column) => all.map((row) => column(...row)));
    const byte = (value: number) => value << 24 >> 24;
    return {
      bytes: Int8Array.from(columns([
        (a, _, c) => a * 3 + byte(c),
        (a) => a >> 2,
        (a, _, c) => Math.max(a, byte(c)),
      ])),
      unsigned: Uint8Array.from(columns([
        (_, b) => b * 5 - 7,
        (_, b) => b >> 3 | b << 5,
        (_, b) => b || 1,
      ])),
      shorts: Int16Array.from(columns([
        (_, __, c) => Math.trunc(c / 7),
        (_, __, c) => c % 7,
        (a, b) => a * b,
      ])),
      words: Int32Array.from(columns([
        (a, b) => Math.trunc(a / (b + 1)),
        (_, __, c) => Number(BigInt(c >>> 0) * 2654435769n >> 32n) | 0,
        (a, b, c) => Number(a > 0 && b > 100 || c < 0),
      ])),
      flags: Uint8Array.from(columns([(a, _, c) => Number(a < c)])),
      long: BigInt64Array.from([
        ...all.map(([, , c]) => BigInt.asIntN(64, BigInt(c) ** 4n) % 1000003n),
        ...all.map(([, b, c]) => BigInt.asIntN(64, BigInt(c) << 40n) >> 37n ^ BigInt(b)),
      ]),
    };
  },
};
