import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 32;
type Vector = readonly number[];
const elements = [0, 1, 2, 3] as const;

const bytesOf = (vector: Vector) => new Int8Array(Int32Array.from(vector).buffer);
const halvesOf = (vector: Vector) => new Int16Array(Int32Array.from(vector).buffer);
const wordsIn = (narrow: Int8Array | Int16Array) => [...new Int32Array(narrow.buffer)];

function integersOf(v: Vector, w: Vector, i: number): number[] {
  const mixed = elements.map((at) => at === i % 4 ? i : v[(at + 1) % 4]! + (w[at]! << 16 >> 16));
  const doubled = wordsIn(bytesOf(v).map((byte) => byte + byte * i));
  const squares = wordsIn(halvesOf(w).map((half, at, halves) => half * halves[7 - at]!));
  return [
    ...mixed,
    ...elements.map((at) => Math.min(v[at]!, w[at]!) + (v[at]! & 7) * 3),
    ...elements.map((at) => v[at]! >> 2 ^ (v[at] === w[at] ? -1 : 0)),
    ...elements.map((at) => doubled[at]! ^ squares[at]!),
  ];
}

const lowBytes = (vector: Vector) => vector.map((word) => word & 255) as [number, number, number, number];

function floatsOf(v: Vector, w: Vector): number[] {
  const f = lowBytes(v);
  const g = lowBytes(w).map((byte) => byte - 128) as typeof f;
  const [[x, y, z], [, gx, gy, gz]] = [f, g];
  return [
    ...elements.map((at) => f[at] * g[at] + f[3 - at]!),
    ...[y * gz - z * gy, z * gx - x * gz, x * gy - y * gx],
    f[0] < g[1] ? f[2] : g[3],
  ];
}

function keptOf(v: Vector): number[] {
  const wide = BigInt64Array.of(BigInt(v[0]!) * 3n, BigInt(v[1]!) * 3n);
  return [...new Int32Array(wide.buffer)].map((word) => word + 1);
}

/** Clang's vector types. */
export const program: CorpusProgram = {
  covers: "ld and st with .v2 and .v4, also volatile, vectors of 3, 8 and 16 elements, vectors as arguments",
  buffers: () => ({
    input: Int32Array.from(randomWords(threads * 4), (word) => (word | 0) >> 3),
    out: new Int32Array(threads * 16),
    floats: new Float32Array(threads * 8),
    doubles: new Float64Array(threads * 2),
    bytes: new Uint8Array(threads * 8),
    kept: new Int32Array(threads * 4),
  }),
  launches: [{
    kernel: "vectors",
    grid: 2,
    block: threads / 2,
    arguments: ["input", "out", "floats", "doubles", "bytes", "kept"],
  }],
  expected({ input }) {
    const all = Array.from({ length: threads }, (_, i) => [...(input as Int32Array).subarray(i * 4, i * 4 + 4)]);
    return {
      out: Int32Array.from(all.flatMap((v, i) => integersOf(v, all[i ^ 1]!, i))),
      floats: Float32Array.from(all.flatMap((v, i) => floatsOf(v, all[i ^ 1]!))),
      doubles: Float64Array.from(all.flatMap((v) => [0, 1].map((at) => (v[at]! & 255) / 4 + v[at + 2]!))),
      bytes: Uint8Array.from(all.flatMap((v, i) => [...v, v[3]!, v[0]!, v[1]!, v[2]!].map((word) => word + i))),
      kept: Int32Array.from(all.flatMap(keptOf)),
    };
  },
};
