import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes } from "./contents.ts";

const threads = 96;
const [noWord, noLong] = [2 ** 32 - 1, 2n ** 64n - 1n];

/** Counts how often each number occurs if threads count up from `from` in steps of `step`. */
function tickets(from: number, { step, count }: { step: number; count: number }, into: Uint32Array): void {
  for (let ticket = 0; ticket < count; ticket++) into[from + ticket * step]!++;
}

export const program: CorpusProgram = {
  covers: "atomic add, min, max, and, or, xor, inc, dec and exch of 32 and 64 bits, with and without results",
  buffers: () => ({
    numbers: new Int32Array(randomBytes(4 * threads, 81)),
    signedWords: Int32Array.of(7, 7, 2 ** 31 - 1, -(2 ** 31)),
    words: Uint32Array.of(7, 7, noWord, 0, noWord, 0, 0x12345678, 0, 50),
    longs: BigUint64Array.of(7n, noLong, 0n, noLong, 0n, 0x123456789abcdefn),
    signedLongs: BigInt64Array.of(2n ** 63n - 1n, -(2n ** 63n)),
    next: Uint32Array.of(0, 0, 100),
    taken: new Uint32Array(512),
    wrapped: new Uint32Array(8 + 128),
    slot: Uint32Array.of(1000, 0x40a00000),
    wideSlot: BigUint64Array.of(5n),
    sums: new BigUint64Array(3),
  }),
  launches: [
    {
      kernel: "accumulate",
      grid: 3,
      block: threads / 3,
      arguments: ["numbers", "signedWords", "words", "longs", "signedLongs"],
    },
    { kernel: "take_tickets", grid: 1, block: 64, arguments: ["next", "taken", "wrapped"] },
    { kernel: "pass_values", grid: 1, block: 64, arguments: ["slot", "wideSlot", "sums"] },
    { kernel: "collect", grid: 1, block: 1, arguments: ["slot", "wideSlot", "sums"] },
  ],
  expected({ numbers }) {
    const values = [...numbers as Int32Array].map(BigInt);
    const words = values.map((value) => BigInt.asUintN(32, value));
    const wides = values.map((value) => value * 1000003n);
    const longs = wides.map((wide) => BigInt.asUintN(64, wide));
    const fold = (all: readonly bigint[], operation: (a: bigint, b: bigint) => bigint, start: bigint) =>
      all.reduce(operation, start);
    const [least, most] = [(a: bigint, b: bigint) => a < b ? a : b, (a: bigint, b: bigint) => a > b ? a : b];
    const sum = (all: readonly bigint[], start: bigint) => fold(all, (a, b) => a + b, start);
    const taken = new Uint32Array(512);
    tickets(0, { step: 1, count: 64 }, taken);
    tickets(64 + 5, { step: 2, count: 64 }, taken);
    tickets(256, { step: 3, count: 64 }, taken);
    const wrapped = new Uint32Array(8 + 128);
    for (let ticket = 0; ticket < 64; ticket++) wrapped[ticket % 7]!++;
    // A value above the limit wraps to the limit first. Then each thread counts down to 0, which wraps to the limit
    // again.
    wrapped[8 + 100]!++;
    for (let ticket = 1; ticket < 64; ticket++) wrapped[8 + 6 - (ticket - 1) % 7]!++;
    const passed = 64n * 65n / 2n;
    const wordResults = [
      sum(words, 7n),
      7n - sum(words, 0n),
      fold(words, least, BigInt(noWord)),
      fold(words, most, 0n),
      fold(words, (a, b) => a & (b | 0xffff0000n), BigInt(noWord)),
      fold(words, (a, b) => a | b & 0x0f0f0f0fn, 0n),
      fold(words, (a, b) => a ^ b, 0x12345678n),
      96n,
      // From 50, 50 steps down to 0, one to 99, and 45 more down.
      54n,
    ];
    const longResults = [
      sum(longs, 7n),
      fold(longs, least, noLong),
      fold(longs, most, 0n),
      fold(longs, (a, b) => a & (b | 0xffffffff00000000n), noLong),
      fold(longs, (a, b) => a | b & 0x00ff00ff00ff00ffn, 0n),
      fold(longs, (a, b) => a ^ b, 0x123456789abcdefn),
    ];
    return {
      signedWords: Int32Array.of(
        Number(BigInt.asIntN(32, sum(values, 7n))),
        Number(BigInt.asIntN(32, 7n - sum(values, 0n))),
        Number(fold(values, least, 2n ** 31n - 1n)),
        Number(fold(values, most, -(2n ** 31n))),
      ),
      words: Uint32Array.from(wordResults, (word) => Number(BigInt.asUintN(32, word))),
      longs: BigUint64Array.from(longResults),
      signedLongs: BigInt64Array.of(fold(wides, least, 2n ** 63n - 1n), fold(wides, most, -(2n ** 63n))),
      next: Uint32Array.of(64, 64 % 7, 6 - 63 % 7),
      taken,
      wrapped,
      sums: BigUint64Array.of(1000n + passed, 5n + (passed << 33n), 5n * 2n + 63n * 5n),
    };
  },
};
