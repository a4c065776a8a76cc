import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes, randomWords } from "./contents.ts";

const block = 64;
const threads = 2 * block;

/** Halves of every kind except NaNs, whose bits a conversion may change. */
const halves = new Uint16Array(randomBytes(2 * threads, 161)).map((bits) =>
  (bits & 0x7c00) === 0x7c00 ? bits & 0xfc00 : bits
);
halves.set([0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x3c00]);
const values = Float64Array.from(new Float16Array(halves.buffer));

const exponents = randomWords(threads, 162);
/** Exact halves, ties between two halves, and numbers beyond the range of halves. */
const floats = Float32Array.from(exponents, (word) => {
  const scaled = ((word >>> 8 & 0xfff) + 0.5) * 2 ** ((word >>> 24) % 44 - 30);
  return word & 1 ? -scaled : scaled;
});
floats.set([0, -0, 65504, 65519, 65520, -65520, 1e30, -1e30, 2 ** -24, 2 ** -25, -(2 ** -25), 3 * 2 ** -26, Infinity]);

const infinity = 0x7c00;

/**
 * Returns the half nearest to a number, or the next one in a direction. Halves of the same sign have the order of their
 * bits.
 */
function narrowed(value: number, towards: "nearest" | "zero" | "up" | "down"): number {
  const bits = new Uint16Array(Float16Array.of(value).buffer)[0]!;
  const [magnitude, sign] = [bits & 0x7fff, bits & 0x8000];
  const rounded = Float16Array.of(value)[0]!;
  if (towards === "nearest" || rounded === value) return bits;
  const away = towards === "zero" ? false : towards === "up" ? sign === 0 : sign !== 0;
  const isAway = Math.abs(rounded) > Math.abs(value);
  if (isAway === away) return bits;
  return sign | (away ? Math.min(magnitude + 1, infinity) : magnitude - 1);
}

function narrowedAll(numbers: Float32Array, towards: "nearest" | "zero" | "up" | "down"): Uint16Array {
  return Uint16Array.from(numbers, (value) => narrowed(value, towards));
}

export const program: CorpusProgram = {
  covers: "f16 in memory: widened, narrowed in every rounding mode, in pairs",
  buffers: () => ({
    halves: halves.slice(),
    widened: new Float32Array(threads),
    doubled: new Float64Array(threads),
    integers: new Int32Array(threads),
    negated: new Uint16Array(threads),
    floats: floats.slice(),
    nearest: new Uint16Array(threads),
    toZero: new Uint16Array(threads),
    up: new Uint16Array(threads),
    down: new Uint16Array(threads),
    swapped: new Uint16Array(64),
    pairs: new Float32Array(64),
    shared: new Uint16Array(32),
  }),
  launches: [
    { kernel: "widen", grid: 2, block, arguments: ["halves", "widened", "doubled", "integers", "negated"] },
    { kernel: "narrow", grid: 2, block, arguments: ["floats", "nearest", "toZero", "up", "down"] },
    { kernel: "pairs", grid: 1, block: 32, arguments: ["halves", "swapped", "pairs", "shared"] },
  ],
  expected: () => ({
    widened: Float32Array.from(values),
    doubled: values.map((value) => 2 * value),
    // An infinity becomes the maximum or the minimum.
    integers: Int32Array.from(values, (value) => Math.trunc(Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, value)))),
    negated: halves.map((bits) => bits ^ 0x8000),
    nearest: narrowedAll(floats, "nearest"),
    toZero: narrowedAll(floats, "zero"),
    up: narrowedAll(floats, "up"),
    down: narrowedAll(floats, "down"),
    swapped: halves.slice(0, 64).map((_, index) => halves[index ^ 1]!),
    pairs: Float32Array.from(values.slice(0, 64)),
    shared: halves.slice(0, 32).map((_, index) => halves[63 - index]!),
  }),
};
