import type { CorpusProgram } from "../corpus_program.ts";

const threads = 8;
const names = ["first", "second, longer", ""];
const numbers = [10, 20, 30, 40, 50, 60];
const oddBytes = [1, 2, 3];
const wide = 0x123456789abcdefn << 64n | 5n;
const singles = Float32Array.of(1.5, -0, 1e-40);
const floats = Float32Array.of(0.25, -3, 3.4028235e38, 0);

function rowOf(i: number): bigint[] {
  const name = names[i % 3]!;
  return [
    [1, 255, 7][i % 3]!,
    name.length,
    name === "" ? -1 : name.charCodeAt(i % name.length),
    [-1 + 2 * 2 - 3 * 4, 0, 32767][i % 3]!,
    BigInt.asIntN(64, 0xfedcba9876543210n >> BigInt(i)),
    (oddBytes[i] ?? 0) * 100,
    10 - 30 * 3 + 50 + numbers[i % 6]!,
    BigInt.asIntN(64, wide >> BigInt(i * 8)),
    [1, 0, 1, 1][i % 4]!,
    41,
    new Int32Array(singles.buffer)[i % 3]!,
    0,
  ].map(BigInt);
}

const indices = Array.from({ length: threads }, (_, i) => i);

/** Clang's variables with initializers. */
export const program: CorpusProgram = {
  covers: "initializers of .global and .const: bytes mixed with addresses, strings, zeros, floats, vectors, 128 bits",
  buffers: () => ({ integers: new BigInt64Array(threads * 12), doubles: new Float64Array(threads * 2) }),
  launches: [{ kernel: "initializers", grid: 1, block: threads, arguments: ["integers", "doubles"] }],
  expected: () => ({
    integers: BigInt64Array.from(indices.flatMap(rowOf)),
    doubles: Float64Array.from(
      indices.flatMap((i) => [[0.1, -1e300, Infinity][i % 3]!, floats[(i >> 1) % 2 * 2 + i % 2]! + (1 + i % 4)]),
    ),
  }),
};
