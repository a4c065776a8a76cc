import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 16;
const items = 8;

/** The closed form of Ackermann's function if the first argument is less than 3. */
const ackermann = (m: number, n: number) => [n + 1, n + 2, 2 * n + 3][m]!;

function rowOf(i: number): bigint[] {
  const number = BigInt(i);
  return [
    BigInt(ackermann(i % 3, Math.floor(i % 4 / 2))),
    i % 2 === 0 ? BigInt(10 + i % 5 % 2) : BigInt(21 - i % 5 % 2),
    BigInt.asUintN(64, (number + 3n) ** number + BigInt.asUintN(32, (number + 5n) ** number)),
  ];
}

/** Clang's recursive functions. */
export const program: CorpusProgram = {
  covers: "recursive and mutually recursive calls, weak functions, addresses of a caller's local memory",
  buffers: () => ({
    input: new Int32Array(randomWords(threads * items)),
    numbers: new BigUint64Array(threads * 3),
    sorted: new Int32Array(threads * items),
  }),
  launches: [{ kernel: "recursion", grid: 2, block: threads / 2, arguments: ["input", "numbers", "sorted"] }],
  expected({ input }) {
    const words = input as Int32Array;
    const indices = Array.from({ length: threads }, (_, i) => i);
    return {
      numbers: BigUint64Array.from(indices.flatMap(rowOf)),
      sorted: Int32Array.from(indices.flatMap((i) => [...words.slice(i * items, (i + 1) * items).sort()])),
    };
  },
};
