import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { exactly } from "../bounded_tables.ts";
import { errorFunction } from "../function_reference.ts";
import { double, FloatArithmetic, numberOf } from "../float_reference.ts";
import { array } from "./array_arguments.ts";

const length = 64;
const arithmetic = new FloatArithmetic(double);
const doubles: readonly ((v: number) => number)[] = [
  (v) => Math.sqrt(Math.abs(v)),
  (v) => Math.floor(v) + Math.ceil(v * 0.5),
  (v) => Math.floor(Math.abs(v) / 0.75),
  (v) => v < 0 ? -1.5 : 1.5,
  Math.round,
  Math.exp,
  Math.sin,
  (v) => Math.atan2(v, 0.5),
  (v) => Math.log1p(Math.abs(v)),
  (v) => Math.hypot(v, 2),
  (v) => numberOf(double, arithmetic.round(errorFunction(exactly(v)))),
  (v) => (Math.abs(v) + 1) ** 2.5,
];
const singles: readonly ((f: number) => number)[] = [
  (f) => Math.sqrt(Math.abs(f)),
  (f) => f / 3,
  Math.tanh,
  Math.cos,
  (f) => f * f + 1,
  (f) => Math.abs(f) ** 0.5,
];

export const program: CorpusProgram = {
  covers: "functions of doubles and singles from libdevice",
  buffers: () => ({
    x: Float64Array.from(randomWords(length, 15), (word) => (word | 1 | 0) / 2 ** 28.7),
    doubles: new Float64Array(length * doubles.length),
    singles: new Float32Array(length * singles.length),
  }),
  launches: [{
    kernel: "math_functions",
    grid: 2,
    block: length / 2,
    arguments: [
      ...array("x", 8, length),
      ...array("doubles", 8, length, doubles.length),
      ...array("singles", 4, length, singles.length),
    ],
  }],
  expected({ x }) {
    const values = Array.from(x as Float64Array);
    return {
      doubles: Float64Array.from(values.flatMap((v) => doubles.map((column) => column(v)))),
      singles: Float32Array.from(values.flatMap((v) => singles.map((column) => column(Math.fround(v))))),
    };
  },
  bounds: {
    doubles: {
      derivation: "CUDA's tables have at most 2 ulp, and the reference has 1; those of integers are exact",
      absolute: (expected, index) => index % 12 < 5 && index % 12 > 0 ? 0 : 2 ** -50 * Math.abs(expected),
    },
    singles: {
      derivation: "CUDA's tables have at most 4 ulp; a cosine near 0 is within 2^-23",
      absolute: (expected) => 2 ** -20 * Math.max(Math.abs(expected), 1 / 4),
    },
  },
};
