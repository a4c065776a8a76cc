import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const [grid, block] = [2, 64];
const upTo = <T>(length: number, make: (index: number) => T) => Array.from({ length }, (_, index) => make(index));
const popcount = (word: number) => (word >>> 0).toString(2).replaceAll("0", "").length;
const trailing = (word: number) => word === 0 ? 32 : 31 - Math.clz32(word & -word);
const gcd = (a: number, b: number): number => b === 0 ? Math.abs(a) : gcd(b, a % b);

function valuesRow(value: number, i: number): number[] {
  const unsigned = value >>> 0;
  const turned = i % 32 === 0 ? value : value << i % 32 | value >>> 32 - i % 32;
  const quarter = unsigned >>> 2;
  const ceiling = quarter <= 1 ? 1 : 2 ** (32 - Math.clz32(quarter - 1));
  const step = 1 + (value & 3);
  const variants = [value ^ 1, (value >> 20) * 2];
  return [
    value % 2 === 0 ? value / 2 : -1,
    value < 0 ? value & 255 : value,
    variants[value & 3] ?? (value << 16 >> 16) + (value >> 16) * 3,
    (value & 0xffff) - (value >> 16) + Number(BigInt.asIntN(32, BigInt(value) * 3n >> 2n)),
    popcount(value) + 100 * Math.clz32(value) + 10000 * trailing(value),
    turned ^ ceiling,
    // Bits 0, step and so on up to 79, of which those below 77 stay.
    Math.ceil(77 / step),
    gcd(value >> 8, 36 << (i & 7)),
    Math.trunc(value / 60),
    // Rounded toward the first.
    value > i ? value - Math.floor((value - i) / 2) : value + Math.floor((i - value) / 2),
    Number(value < i) + 2 * Number(value >= -32768 && value <= 32767),
    i & 255 | 1 << 8 | 2 << 16 | 3 << 24,
  ];
}

function sequencesRow(x: readonly number[], i: number): number[] {
  const source = x.slice(i * 12, i * 12 + 12);
  const kept = source.slice(2, 11).filter((value) => value % 3 !== 0);
  while (kept.length < 5) kept.unshift(kept.length);
  kept.splice(1, 1);
  return [
    kept.reduce((a, b) => Math.imul(a, 31) + b | 0, 0),
    kept.toReversed().reduce((total, value, at) => total + Math.imul(value, source[at]!) | 0, kept.length),
    source[9]! - source[i % 4]! + 4,
    (x[i]! ^ i ^ 5) % 32767,
  ];
}

export const program: CorpusProgram = {
  covers: "classes of the standard library, atomics of every scope and order by cuda::atomic_ref",
  buffers: () => ({
    x: Int32Array.from(randomWords(32 * 12, 11), (word, at) => (word | 0) >> at % 24),
    values: new Int32Array(grid * block * 12),
    sequences: new Int32Array(32 * 4),
    roots: new Float32Array(64),
    counters: Int32Array.of(-5, 1, 0, 0),
    wide: new BigUint64Array(1),
    order: new Int32Array(9),
  }),
  launches: [
    { kernel: "values", grid, block, arguments: ["x", "values"] },
    { kernel: "sequences", grid: 1, block: 32, arguments: ["x", "sequences", "roots"] },
    { kernel: "atomics", grid: 1, block: 96, arguments: ["counters", "wide", "order"] },
  ],
  expected({ x }) {
    const all = Array.from(x as Int32Array);
    const order = [8];
    for (let turn = 0; turn < 8; turn++) order.push((turn === 0 ? 0 : order[turn]!) * 2 + 1);
    // The first turn doubles the turn itself, which is 0.
    return {
      values: Int32Array.from(upTo(grid * block, (i) => valuesRow(all[i]!, i)).flat()),
      sequences: Int32Array.from(upTo(32, (i) => sequencesRow(all, i)).flat()),
      roots: Float32Array.from(
        upTo(32, (i) => {
          const real = all[i]! % 64;
          const [a, b] = [real * real - i * i + 1, 2 * real * i - 2];
          // The conjugate, times the imaginary unit.
          return [b, a];
        }).flat(),
      ),
      counters: Int32Array.of(
        95 * 3,
        upTo(96, (i) => i).reduce((value) => Math.imul(value, 3) + 1 | 0, 1),
        95 * 48,
        96 * 3 & 255,
      ),
      wide: BigUint64Array.of(upTo(96, BigInt).reduce((value, i) => (value ^ 1n << i % 32n) + (1n << 40n), 0n)),
      order: Int32Array.from(order),
    };
  },
};
