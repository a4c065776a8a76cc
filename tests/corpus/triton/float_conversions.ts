import type { CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "../nvcc/contents.ts";
import { bitsOf, type Format, rounded } from "../small_float_formats.ts";
import { scratch } from "./scratch.ts";

const length = 512;
const edges = [
  0,
  -0,
  1,
  -1,
  2 ** -24,
  2 ** -25,
  2 ** -14,
  65504,
  65520,
  70000,
  -448,
  449,
  480,
  57344,
  61440,
  2 ** -9,
  2 ** -17,
];

const half: Format = { exponentBits: 5, fractionBits: 10, largest: 65504 };
const brain: Format = { exponentBits: 8, fractionBits: 7, largest: (2 - 2 ** -7) * 2 ** 127 };
const e5m2: Format = { exponentBits: 5, fractionBits: 2, largest: 57344 };
const e4m3: Format = { exponentBits: 4, fractionBits: 3, largest: 448 };

/** What is too large becomes infinite, or, for the formats of 8 bits, the largest number. */
function converted(value: number, format: Format): number {
  const result = rounded(value, format);
  if (Math.abs(result) <= format.largest) return result;
  return Math.sign(result) * (format === half || format === brain ? Infinity : format.largest);
}

export const program: CorpusProgram = {
  covers: "conversions among floats of 8, 16, 32 and 64 bits and integers, in pairs",
  buffers: () => ({
    x: Float32Array.from([
      ...edges,
      ...Array.from(randomWords(length - edges.length, 111), (word) => {
        return ((word | 0) / 2 ** 31) * 2 ** (word % 37 - 18);
      }),
    ]),
    half: new Uint16Array(length),
    brain: new Uint16Array(length),
    e5m2: new Uint8Array(length),
    e4m3: new Uint8Array(length),
    back: new Float32Array(5 * length),
    integers: new Int32Array(2 * length),
    doubles: new Float64Array(length),
    wide: new BigInt64Array(length),
  }),
  launches: [{
    kernel: "float_conversions",
    grid: 1,
    arguments: ["x", "half", "brain", "e5m2", "e4m3", "back", "integers", "doubles", "wide", ...scratch],
  }],
  expected({ x }) {
    const values = Array.from(x as Float32Array);
    const bits = (format: Format) => values.map((value) => bitsOf(converted(value, format), format));
    const limited = values.map((value) => Math.max(-1000000, Math.min(1000000, value)));
    return {
      half: Uint16Array.from(bits(half)),
      brain: Uint16Array.from(bits(brain)),
      e5m2: Uint8Array.from(bits(e5m2)),
      e4m3: Uint8Array.from(bits(e4m3)),
      back: Float32Array.from([
        ...[e5m2, e4m3, half, brain].flatMap((format) => values.map((value) => converted(value, format))),
        // Toward zero, what is too large becomes the largest number.
        ...values.map((value) => {
          return Math.max(-half.largest, Math.min(half.largest, rounded(value, half, true)));
        }),
      ]),
      integers: Int32Array.from([
        ...limited.map(Math.trunc),
        ...limited.map((value) => Math.trunc(Math.max(-100, Math.min(100, value)))),
      ]),
      doubles: Float64Array.from(values, (value) => value * value),
      wide: BigInt64Array.from(limited, (value) => BigInt(Math.trunc(value * 1048576))),
    };
  },
};
