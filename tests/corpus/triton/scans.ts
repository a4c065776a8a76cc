import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { scratch, upTo } from "./scratch.ts";

const [rows, columns] = [4, 64];
const size = rows * columns;
const running = (values: readonly number[], combine: (a: number, b: number) => number) => {
  const results = [values[0]!];
  for (const value of values.slice(1)) results.push(combine(results.at(-1)!, value));
  return results;
};
const add = (a: number, b: number) => a + b | 0;

export const program: CorpusProgram = {
  covers: "scans along each axis, backwards, and of pairs, by shuffles and shared memory",
  buffers: () => ({
    x: Int32Array.from(randomWords(size, 51), (word) => word | 0),
    y: Int32Array.from(randomWords(size, 52), (word) => word | 1),
    out: new Int32Array(6 * size),
    floats: new Float32Array(size),
  }),
  launches: [{ kernel: "scans", grid: 1, arguments: ["x", "y", "out", "floats", ...scratch] }],
  expected({ x, y }) {
    const [values, factors] = [Array.from(x as Int32Array), Array.from(y as Int32Array)];
    const rowsOf = (all: readonly number[]) => upTo(rows, (row) => all.slice(row * columns, (row + 1) * columns));
    const down = upTo(columns, (column) => running(rowsOf(values).map((row) => row[column]!), add));
    const composed = rowsOf(values).map((row, at) => {
      const factorsOfRow = rowsOf(factors)[at]!;
      return running(upTo(columns, (c) => c), (a) => a).map((_, end) =>
        row.slice(0, end + 1).reduce(
          (term, value, c) => c === 0 ? value : Math.imul(term, factorsOfRow[c]!) + value | 0,
          0,
        )
      );
    });
    return {
      out: Int32Array.from([
        rowsOf(values).flatMap((row) => running(row, add)),
        upTo(size, (at) => down[at % columns]![Math.floor(at / columns)]!),
        rowsOf(factors).flatMap((row) => running(row, Math.imul)),
        rowsOf(values).flatMap((row) => running(row.toReversed(), add).toReversed()),
        rowsOf(factors).flatMap((row) => running(row, Math.imul)),
        composed.flat(),
      ].flat()),
      floats: Float32Array.from(
        rowsOf(values).flatMap((row) => running(row.map((v) => (v & 1023) / 2), (a, b) => a + b)),
      ),
    };
  },
};
