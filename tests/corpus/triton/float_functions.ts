import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { errorFunction } from "../function_reference.ts";
import { double, FloatArithmetic, numberOf } from "../float_reference.ts";
import { exactly } from "../bounded_tables.ts";
import { scratch } from "./scratch.ts";

const length = 64;
const arithmetic = new FloatArithmetic(double);
const erf = (v: number) => v === 0 ? v : numberOf(double, arithmetic.round(errorFunction(exactly(v))));
const rint = (v: number) => {
  const low = Math.floor(v);
  const nearest = v - low < 0.5 || (v - low === 0.5 && low % 2 === 0) ? low : low + 1;
  return nearest === 0 && v < 0 ? -0 : nearest;
};
const popc = (word: number) => word.toString(2).replaceAll("0", "").length;
/** fma(v, v, 0.1) in one rounding: the product is exact in a double, and the sum is rounded to odd before. */
function fused(v: number): number {
  const [product, term] = [v * v, Math.fround(0.1)];
  const sum = product + term;
  const error = Math.abs(product) > term ? term - (sum - product) : product - (sum - term);
  const isInexactAndEven = error !== 0 && (new BigUint64Array(Float64Array.of(sum).buffer)[0]! & 1n) === 0n;
  if (!isInexactAndEven) return Math.fround(sum);
  const bits = new BigUint64Array(Float64Array.of(sum).buffer);
  bits[0]! += error > 0 === sum > 0 ? 1n : -1n;
  return Math.fround(new Float64Array(bits.buffer)[0]!);
}

const exact: readonly ((v: number) => number)[] = [
  (v) => Math.fround(Math.sqrt(Math.abs(v))),
  (v) => Math.fround(v / Math.fround(Math.abs(v) + 3)),
  fused,
  (v) => Math.floor(v) + Math.ceil(v),
  (v) => Math.max(v, 0.5),
  (v) => Math.max(-1, Math.min(2, v)),
  rint,
  (v) => -v,
];
const near: readonly ((v: number) => number)[] = [
  (v) => 2 ** v,
  (v) => Math.log2(Math.fround(Math.abs(v) + 1)),
  Math.sin,
  Math.cos,
  erf,
  (v) => 1 / (1 + Math.exp(-v)),
  Math.tanh,
  (v) => Math.fround(Math.abs(v) + 0.5) ** 1.5,
  (v) => Math.atan2(v, 2),
  (v) => 1 / Math.sqrt(Math.fround(Math.abs(v) + 0.25)),
];
const doubles: readonly ((v: number) => number)[] = [
  Math.exp,
  (v) => Math.log1p(Math.abs(v)),
  Math.cbrt,
  (v) => Math.sqrt(Math.abs(v)),
];

export const program: CorpusProgram = {
  covers: "Triton's functions and libdevice's: exact, approximate, of doubles, of integers",
  buffers: () => ({
    // None is a multiple of 0.0005, where a rounded product could be a tie.
    x: Float32Array.from(randomWords(length, 181), (word, at) => at === 0 ? 0 : (word | 0) / 2 ** 28.3),
    exact: new Float32Array(exact.length * length),
    near: new Float32Array(near.length * length),
    doubles: new Float64Array(doubles.length * length),
    integers: new Int32Array(4 * length),
  }),
  launches: [{
    kernel: "float_functions",
    grid: 1,
    arguments: ["x", "exact", "near", "doubles", "integers", ...scratch],
  }],
  expected({ x }) {
    const values = Array.from(x as Float32Array);
    const indices = values.map((_, at) => at);
    return {
      exact: Float32Array.from(exact.flatMap((column) => values.map(column))),
      near: Float32Array.from(near.flatMap((column) => values.map(column))),
      doubles: Float64Array.from(doubles.flatMap((column) => values.map(column))),
      integers: Int32Array.from([
        ...values.map((v) => rint(Math.fround(v * 1000))),
        ...indices.map((at) => popc(at * 77777)),
        ...indices.map((at) => Math.clz32(at * at)),
        ...new Int32Array(Float32Array.from(values).buffer),
      ]),
    };
  },
  bounds: {
    near: {
      derivation: "the manual's absolute errors of sin.approx and cos.approx beyond [-pi, pi] are not bounded: up to " +
        "6.5, about 2^-20.5; CUDA's tables have 4 ulp for the functions of libdevice; sigmoid adds three roundings",
      absolute: (expected) => 2 ** -18 * Math.max(1, Math.abs(expected)),
    },
    doubles: {
      derivation: "CUDA's tables: exp and cbrt 1 ulp, log1p 1 ulp, and the reference's own 1 ulp",
      absolute: (expected) => 2 ** -50 * Math.abs(expected),
    },
  },
};
