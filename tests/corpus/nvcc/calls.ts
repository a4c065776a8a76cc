import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const f = Math.fround;

function integersOf(i: number): bigint[] {
  const sum = BigInt.asIntN(8, BigInt(i * 5 - 100)) + BigInt.asUintN(16, BigInt(i * 1000));
  let small = BigInt(i);
  let large = BigInt(i) * 0x123456789abcdn;
  for (let round = 0; round < 3; round++) [small, large] = [large & 0xffn, (large >> 8n) + small];
  const nine = Array.from({ length: 9 }, (_, item) => i * item + 1);
  const rotated = (item: number) => nine[(item + 4 + i) % 9]!;
  return [
    BigInt.asIntN(8, i % 2 ? -sum : sum),
    BigInt.asIntN(64, large * 256n + small),
    BigInt(rotated(0) * 1000 + rotated(8)),
    BigInt(i + (i % 3 ? 10 * i : 0) + 7),
  ];
}

function doubleOf(i: number): number {
  return i * 0.5 * (i + 0.25) + (i * 2 ** 33 - i * 3);
}

function floatsOf(i: number): number[] {
  const a = { x: i * 1.5, y: 2 - i, z: 3, w: f(i * f(0.1)) };
  const b = { x: f(0.1), y: f(i + f(0.7)), z: 0.25, w: 4 };
  return [a.y * b.z, a.z * b.x, a.x * b.y, a.w + b.w].map(f);
}

const threads = Array.from({ length: size }, (_, i) => i);

/** Calls with values and structs by value. */
export const program: CorpusProgram = {
  covers: "call with .param of 8 to 64 bits, structs as arguments and results, an empty struct, local addresses",
  buffers: () => ({
    integers: new BigInt64Array(size * 4),
    doubles: new Float64Array(size),
    floats: new Float32Array(size * 4),
  }),
  launches: [{ kernel: "calls", grid: 2, block: size / 2, arguments: ["integers", "doubles", "floats"] }],
  expected: () => ({
    integers: BigInt64Array.from(threads.flatMap(integersOf)),
    doubles: Float64Array.from(threads, doubleOf),
    floats: Float32Array.from(threads.flatMap(floatsOf)),
  }),
};
