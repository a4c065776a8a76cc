import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 32;

const operations = [
  (a: number, b: number) => a + b | 0,
  (a: number, b: number) => a - b | 0,
  Math.imul,
  (a: number, b: number) => a + 2 * b | 0,
];
const int16 = (value: number) => value << 16 >> 16;

function integersOf(value: number, i: number): number[] {
  const first = operations[i % 4]!(value, i);
  const second = operations[(value & 1) + 2]!(first, value >> 3);
  const [pair, by] = [[value, int16(i * 3000)] as const, i - 8];
  const swapped = [pair[1] + by, int16(pair[0])] as const;
  const grown = [Math.imul(pair[0], by), int16(pair[1] + by)] as const;
  const chosen = i & 4 ? grown : swapped;
  const square = i * i * 2 * (i & 1 ? 4 : 1);
  const box = (i + 1) * (i + 1) + value + 3 + (i & 1 ? 0 : 4) | 0;
  return [first, second, chosen[0] + (i & 4 ? 9 : 5), chosen[1], square, i & 1 ? square : box];
}

/** Clang's indirect calls. */
export const program: CorpusProgram = {
  covers:
    "indirect calls with .callprototype, tables of functions in initializers, structs by value, virtual functions",
  buffers: () => ({
    input: new Int32Array(randomWords(threads)),
    integers: new Int32Array(threads * 6),
    doubles: new Float64Array(threads),
  }),
  launches: [{ kernel: "indirect_calls", grid: 2, block: threads / 2, arguments: ["input", "integers", "doubles"] }],
  expected({ input }) {
    const words = input as Int32Array;
    return {
      integers: Int32Array.from([...words].flatMap(integersOf)),
      doubles: Float64Array.from(words, (value, i) => i & 4 ? (value * 0.125) ** 2 : value * -0.125),
    };
  },
};
