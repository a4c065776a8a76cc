import { randomBytes } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 64;
const edges = [0n, 1n, -1n, 2n ** 63n - 1n, -(2n ** 63n), 1000n, -7n, 2n ** 32n, -(2n ** 31n)];

const unsigned = (value: bigint, width = 64) => BigInt.asUintN(width, value);
const signed = (value: bigint, width = 64) => BigInt.asIntN(width, value);
const halves = (value: bigint) => [unsigned(value), unsigned(value >> 64n)];

function mix(a: bigint, b: bigint, by: bigint): bigint {
  const sum = unsigned(a + b, 128);
  const product = unsigned(a * b, 128);
  return (unsigned(product << by, 128) ^ sum >> 127n - by) - (a > b ? a : b);
}

function rowOf(a: bigint, b: bigint, i: number): bigint[] {
  const wide = a << 64n | unsigned(b);
  const flags = [wide < 0n, wide < a, unsigned(wide, 128) >= unsigned(b, 128), wide === b];
  const product = (a >> 20n) * (b >> 24n);
  const [left, right] = [unsigned(a, 32), unsigned(b, 32)];
  const divisor = b | 1n;
  return [
    ...halves(mix(unsigned(wide, 128), unsigned(-wide, 128), BigInt(i % 128))),
    ...halves(a * b),
    ...halves(wide >> BigInt(i * 4 % 128)),
    unsigned(a) * unsigned(b) >> 64n,
    BigInt(flags.reduce((bits, holds, index) => holds ? bits | 1 << index : bits, 0)),
    signed(a + b) === a + b ? 0n : 1n,
    a + b,
    signed(product) === product ? 0n : 1n,
    product,
    left < right ? 1n : 0n,
    unsigned(left - right, 32),
    a / 1000n + (a >> 1n) / divisor + (a >> 1n) % divisor,
    unsigned(a) / unsigned(divisor) + unsigned(a) % 1000003n,
    signed(a >> 1n, 32) / 7n + signed(a >> 34n, 32) % (signed(b, 32) | 1n),
    unsigned(unsigned(a, 16) / (unsigned(b, 8) | 1n) + signed(a, 8) % 10n + left % (right | 1n), 32),
  ].map((value) => unsigned(value));
}

/** Clang's wide and checked integer arithmetic. */
export const program: CorpusProgram = {
  covers: "integers of 128 bits, high halves of products, overflow, division of 8 to 64 bits",
  buffers() {
    const input = new BigInt64Array(randomBytes(threads * 16));
    edges.forEach((a, index) => {
      input.set([a, edges[(index * 5 + 3) % edges.length]!], index * 2);
      input.set([a, a], (index + edges.length) * 2);
    });
    return { input, out: new BigUint64Array(threads * 18) };
  },
  launches: [{ kernel: "wide_integers", grid: 2, block: threads / 2, arguments: ["input", "out"] }],
  expected({ input }) {
    const words = input as BigInt64Array;
    return {
      out: BigUint64Array.from(
        Array.from({ length: threads }, (_, i) => rowOf(words[i * 2]!, words[i * 2 + 1]!, i)).flat(),
      ),
    };
  },
};
