import { RandomBits } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { double, doubleBits, FloatArithmetic, half, numberOf } from "../float_reference.ts";

const threads = 64;
const arithmetic: FloatArithmetic = new FloatArithmetic(half);
const fromNumber = (value: number) => arithmetic.convertFrom(double, doubleBits(value));

/** Finite, nonzero numbers of at most 512, some of them subnormal. No sum and no product is infinite. */
function operands(): bigint[] {
  const random = new RandomBits(16);
  return Array.from({ length: threads * 2 }, (_, index) => {
    const magnitude = index < 8 ? BigInt(index * 37 + 1) : fromNumber(0.001 + random.fraction() * 200);
    return index % 3 === 1 ? magnitude | 0x8000n : magnitude;
  });
}

function numbersOf([a, b]: readonly [bigint, bigint]): readonly [number, number] {
  return [numberOf(half, a), numberOf(half, b)];
}

function rowOf([a, b]: readonly [bigint, bigint], i: number): bigint[] {
  const [left, right] = numbersOf([a, b]);
  return [
    arithmetic.add(a, b),
    arithmetic.subtract(a, b),
    arithmetic.multiply(a, b),
    arithmetic.divide(a, b),
    arithmetic.add(arithmetic.multiply(a, b), fromNumber(0.5)),
    a ^ 0x8000n,
    left < right ? a : b,
    fromNumber(i * 3 - 7),
  ];
}

function pairsOf([a, b]: readonly [bigint, bigint]): bigint[] {
  const [sum, product] = [arithmetic.add(a, b), arithmetic.multiply(a, b)];
  return [sum, sum, arithmetic.subtract(product, a), arithmetic.subtract(product, b)];
}

function integerOf(left: number, right: number): number {
  return Math.trunc(left) + (left > right ? 1 << 20 : 0) + (left === right ? 1 << 21 : 0);
}

/** Clang's 16-bit arithmetic. */
export const program: CorpusProgram = {
  covers: "add, sub, mul of .f16, other operations through .f32, conversions, 16-bit registers and pairs of them",
  buffers: () => ({
    input: Uint16Array.from(operands(), Number),
    out: new Uint16Array(threads * 8),
    pairs: new Uint16Array(threads * 4),
    floats: new Float32Array(threads * 2),
    integers: new Int32Array(threads),
  }),
  launches: [{
    kernel: "half_floats",
    grid: 2,
    block: threads / 2,
    arguments: ["input", "out", "pairs", "floats", "integers"],
  }],
  expected() {
    const bits = operands();
    const all = Array.from({ length: threads }, (_, i) => [bits[i * 2]!, bits[i * 2 + 1]!] as const);
    return {
      out: Uint16Array.from(all.flatMap(rowOf), Number),
      pairs: Uint16Array.from(all.flatMap(pairsOf), Number),
      floats: Float32Array.from(all.map(numbersOf).flatMap(([left, right]) => [left, right * 3])),
      integers: Int32Array.from(all.map(numbersOf), ([left, right]) => integerOf(left, right)),
    };
  },
};
