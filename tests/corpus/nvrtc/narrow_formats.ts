import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { bitsOf, type Format, rounded } from "../small_float_formats.ts";

const [grid, block] = [4, 64];
const e4m3: Format = { exponentBits: 4, fractionBits: 3, largest: 448 };
const e5m2: Format = { exponentBits: 5, fractionBits: 2, largest: 57344 };
const e2m3: Format = { exponentBits: 2, fractionBits: 3, largest: 7.5 };
const e3m2: Format = { exponentBits: 3, fractionBits: 2, largest: 28 };
const e2m1: Format = { exponentBits: 2, fractionBits: 1, largest: 6 };
const half: Format = { exponentBits: 5, fractionBits: 10, largest: 65504 };
const brain: Format = { exponentBits: 8, fractionBits: 7, largest: (2 - 2 ** -7) * 2 ** 127 };

/** Converts a number; what is too large becomes the largest number. */
function saturated(value: number, format: Format): number {
  const result = rounded(value, format);
  return Math.abs(result) <= format.largest ? result : Math.sign(result) * format.largest;
}
const saturatedBits = (value: number, format: Format) => bitsOf(saturated(value, format), format);

/** The power of two that is not less than a number, as its exponent and the bias. */
function powerBits(value: number): number {
  return Math.max(0, Math.ceil(Math.log2(Math.abs(value))) + 127);
}

/** The number with the given bits. Only the largest exponent of e5m2 has infinities and NaNs; e4m3 has one NaN. */
function numberOf(bits: number, { exponentBits, fractionBits, largest }: Format): number {
  const sign = bits >> exponentBits + fractionBits & 1 ? -1 : 1;
  const exponent = bits >> fractionBits & (1 << exponentBits) - 1;
  const fraction = (bits & (1 << fractionBits) - 1) / 2 ** fractionBits;
  const bias = 2 ** (exponentBits - 1) - 1;
  const magnitude = exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias);
  if (magnitude <= largest) return sign * magnitude;
  return largest === e5m2.largest && fraction === 0 ? sign * Infinity : NaN;
}

function bytesOf(value: number): number[] {
  return [
    saturatedBits(value, e4m3),
    saturatedBits(value, e5m2),
    powerBits(value),
    ...[e2m3, e3m2, e2m1].map((format) => saturatedBits(value, format)),
    saturatedBits(value, e4m3),
    saturatedBits(value * 2, e4m3),
  ];
}

function halvesOf(value: number): number[] {
  const inHalf = rounded(value, half);
  const low = bitsOf(rounded(inHalf + 1, half), half);
  const high = bitsOf(rounded(2 - inHalf, half), half);
  return [
    bitsOf(rounded(value, half, true), half),
    bitsOf(rounded(inHalf * 2 + 1, half), half),
    bitsOf(Math.max(rounded(value, brain), 0.5), brain),
    low ^ high << 1,
  ];
}

export const program: CorpusProgram = {
  covers: "conversions of CUDA's headers for floats of 4, 6, 8 and 16 bits",
  buffers: () => ({
    x: Float32Array.from(randomWords(grid * block, 12), (word) => ((word | 1) | 0) / 2 ** 31 * 2 ** (word % 20 - 8)),
    bytes: new Uint8Array(grid * block * 8),
    back: new Float32Array(grid * block * 4),
    halves: new Uint16Array(grid * block * 4),
  }),
  launches: [{ kernel: "conversions", grid, block, arguments: ["x", "bytes", "back", "halves"] }],
  expected({ x }) {
    const values = Array.from(x as Float32Array);
    return {
      bytes: Uint8Array.from(values.flatMap(bytesOf)),
      back: Float32Array.from(values.flatMap((value, i) => [
        numberOf(i & 255, e4m3),
        numberOf(i & 255, e5m2),
        numberOf(i & 15, e2m1),
        rounded(value, brain),
      ])),
      halves: Uint16Array.from(values.flatMap(halvesOf)),
    };
  },
  bounds: { back: { derivation: "every number is exact; of a NaN, the bits are open", absolute: () => 0 } },
};
