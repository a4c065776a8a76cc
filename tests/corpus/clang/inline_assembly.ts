import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { double, doubleBits, FloatArithmetic, numberOf } from "../float_reference.ts";

const threads = 64;

function collatz(first: number): number {
  let steps = 0;
  for (let value = first; value > 1; steps++) value = value % 2 === 0 ? value / 2 : value * 3 + 1;
  return steps;
}

function rowOf(value: number, i: number): bigint[] {
  const word = BigInt(value);
  const dividend = word << 20n | BigInt(i);
  const divisor = word % 1000n + 1n;
  const stored = 0xabcdefn << 32n | 1234n;
  return [
    BigInt.asUintN(32, ((~word & 0xffff_ffffn) << 32n | word) << BigInt(i % 32) >> 32n),
    BigInt(collatz(value % 100) + collatz(i)),
    dividend / divisor,
    dividend % divisor,
    word * BigInt(i),
    BigInt.asUintN(32, (word >> 16n | (word & 0xffffn) << 16n) + 1n),
    stored,
    stored,
  ];
}

/** Clang's inline assembly. */
export const program: CorpusProgram = {
  covers: "handwritten PTX within clang's: blocks with local registers and labels, operands of 16 to 64 bits, comments",
  buffers: () => ({
    input: randomWords(threads),
    out: new BigUint64Array(threads * 8),
    floats: new Float32Array(threads),
    doubles: new Float64Array(threads),
  }),
  launches: [{
    kernel: "inline_assembly",
    grid: 2,
    block: threads / 2,
    arguments: ["input", "out", "floats", "doubles"],
  }],
  expected({ input }) {
    const towardZero = new FloatArithmetic(double, "rz");
    const indices = Array.from({ length: threads }, (_, i) => i);
    return {
      out: BigUint64Array.from([...input as Uint32Array].flatMap(rowOf)),
      floats: Float32Array.from(indices, (i) => i * 2.5 + 0.125),
      doubles: Float64Array.from(indices, (i) => numberOf(double, towardZero.reciprocal(doubleBits(i + 3)))),
    };
  },
};
