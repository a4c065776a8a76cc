import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [length, block] = [1000, 256];
const grid = 4;

export const program: CorpusProgram = {
  covers: "atomics of every operation, on integers and floats, in several scopes and orders, with masks",
  buffers: () => ({
    x: Int32Array.from(randomWords(length, 101), (word) => (word | 0) >> 12),
    sums: new Int32Array(96),
    floats: new Float32Array(16),
    unsigned: Uint32Array.from(upTo(32, (slot) => slot < 16 ? 0 : 0xffff_ffff)),
    wide: new BigInt64Array(32),
    old: Int32Array.from(upTo(grid * block * 4, (at) => at < block * 8 ? at % block % 3 : at % 1000)),
    halves: new Uint16Array(16),
    signs: new Float32Array(32),
  }),
  launches: [{
    kernel: "atomics",
    grid,
    arguments: ["x", "sums", "floats", "unsigned", "wide", "old", "halves", "signs", length, ...scratch],
  }],
  expected({ x, old }) {
    const values = x as Int32Array;
    const slots = upTo(16, (slot) => [...values.filter((_, at) => at % block % 16 === slot)]);
    const fold = (combine: (a: number, b: number) => number) => slots.map((of) => of.reduce(combine, 0));
    const inSlots = (make: (values: readonly number[]) => number) => slots.map(make);
    const words = (old as Int32Array).slice();
    // A thread outside of the mask stores nothing.
    values.forEach((value, at) => {
      const compared = block * 4 + at;
      words[at] = words[compared]!;
      if (words[compared] === (at & 1)) words[compared] = value;
      words[block * 8 + at] = words[block * 12 + at]!;
      words[block * 12 + at] = value;
    });
    // The compare and swap of a scalar has no mask: the threads past the end take part with a value of 0.
    for (let at = length; at < grid * block; at++) {
      const compared = block * 4 + at;
      if (words[compared] === (at & 1)) words[compared] = 0;
    }
    return {
      sums: Int32Array.from([
        ...fold((a, b) => a + b | 0),
        ...fold((a, b) => Math.max(a, b)),
        ...fold((a, b) => Math.min(a, b)),
        ...fold((a, b) => a & b),
        ...fold((a, b) => a | b),
        ...fold((a, b) => a ^ b),
      ]),
      floats: Float32Array.from(inSlots((of) => of.reduce((sum, value) => sum + (value & 255) / 4, 0))),
      unsigned: Uint32Array.from([
        ...inSlots((of) => Math.max(...of.map((value) => value >>> 0))),
        ...inSlots((of) => Math.min(...of.map((value) => value >>> 0))),
      ]),
      wide: BigInt64Array.from([
        ...slots.map((of) => of.reduce((sum, value) => sum + BigInt(value) * 65537n, 0n)),
        ...inSlots((of) => Math.max(0, ...of)).map((value) => BigInt(value) << 20n),
      ]),
      // Counts from 16 to 63, as 16-bit floats.
      halves: Uint16Array.from(inSlots((of) => {
        const count = of.filter((value) => value & 1).length;
        const exponent = Math.floor(Math.log2(count));
        return (exponent + 15 << 10) + (count * 2 ** (10 - exponent) & 1023);
      })),
      signs: Float32Array.from([...fold((a, b) => Math.max(a, b >> 8)), ...fold((a, b) => Math.min(a, b >> 8))]),
      old: words,
    };
  },
};
