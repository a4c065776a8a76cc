import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [rows, columns] = [8, 32];
const sum = (values: readonly number[]) => values.reduce((a, b) => a + b | 0, 0);
const xor = (values: readonly number[]) => values.reduce((a, b) => a ^ b, 0);
const indexOfFirst = (values: readonly number[], value: number) => values.indexOf(value);
const low = (values: readonly number[]) => values.map((value) => value % 16);
/** Associative and commutative: with 3 c + 1 = x, the product of all x. */
const combined = (values: readonly number[]) => {
  return values.map((value) => value & 3).reduce((a, b) => a + b + Math.imul(a * 3 | 0, b) | 0);
};

export const program: CorpusProgram = {
  covers: "reductions along each axis and of all elements, by functions of one and two values, with indices",
  buffers: () => ({
    x: Int32Array.from(randomWords(rows * columns, 41), (word) => (word | 0) >> 8),
    floats: Float32Array.from(randomWords(rows * columns, 42), (word) => (word | 0) / 7),
    rows: new Int32Array(7 * rows),
    columns: new Int32Array(4 * columns),
    whole: new Int32Array(4),
    extremes: new Float32Array(2 + rows),
    wide: new BigInt64Array(rows),
  }),
  launches: [{
    kernel: "reductions",
    grid: 1,
    arguments: ["x", "floats", "rows", "columns", "whole", "extremes", "wide", ...scratch],
  }],
  expected({ x, floats }) {
    const all = Array.from(x as Int32Array);
    const real = Array.from(floats as Float32Array);
    const byRow = upTo(rows, (row) => all.slice(row * columns, (row + 1) * columns));
    const byColumn = upTo(columns, (column) => byRow.map((values) => values[column]!));
    const realByRow = upTo(rows, (row) => real.slice(row * columns, (row + 1) * columns));
    const magnitudes = all.map(Math.abs);
    const smallest = indexOfFirst(magnitudes, Math.min(...magnitudes));
    return {
      rows: Int32Array.from([
        byRow.map(sum),
        byRow.map((values) => Math.max(...values)),
        byRow.map((values) => Math.min(...values)),
        byRow.map(xor),
        byRow.map(low).map((values) => indexOfFirst(values, Math.max(...values))),
        byRow.map(low).map((values) => indexOfFirst(values, Math.min(...values))),
        realByRow.map((values) => indexOfFirst(values, Math.max(...values))),
      ].flat()),
      columns: Int32Array.from([
        byColumn.map(sum),
        byColumn.map((values) => Math.max(...values)),
        byColumn.map(low).map((values) => indexOfFirst(values, Math.max(...values))),
        byColumn.map(combined),
      ].flat()),
      whole: Int32Array.of(sum(all), all.reduce((a, b) => a | b & 255, 0), all[smallest]!, smallest),
      extremes: Float32Array.of(Math.max(...real), Math.min(...real), ...realByRow.map((of) => Math.max(...of))),
      wide: BigInt64Array.from(byRow, (values) => values.reduce((total, value) => total + BigInt(value) ** 2n, 0n)),
    };
  },
};
