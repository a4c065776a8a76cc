import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { array, upTo } from "./array_arguments.ts";

const length = 50;
/** Small whole numbers, of which every product is exact. */
const numbers = (count: number, seed: number) => Array.from(randomWords(count, seed), (word) => word % 200 - 100);
/** The fields of a point: x at 0, y at 8, and three of z from 16 on. */
const pointBytes = 24;
const weights = [1, 2, 4, 8];

export const program: CorpusProgram = {
  covers: "complex numbers, records, constant arrays, and functions with tuples",
  buffers: () => ({
    singles: Float32Array.from(numbers(2 * length, 9)),
    doubles: Float64Array.from(numbers(2 * length, 10)),
    points: new Uint8Array(
      Uint16Array.from(randomWords(length * pointBytes / 2, 11), (word, at) => {
        // The upper half of y is that of a double from 1 to 2.
        return at % 12 === 7 ? 0x3ff0 | word % 16 : word;
      }).buffer,
    ),
  }),
  launches: [{
    kernel: "complex_numbers",
    grid: 2,
    block: 32,
    arguments: [
      ...array("singles", 8, length),
      ...array("doubles", 16, length),
      ...array("points", pointBytes, length),
    ],
  }],
  expected({ singles, doubles, points }) {
    const z = upTo(length, (i) => [Number(singles![2 * i]), Number(singles![2 * i + 1])] as const);
    const after = (points as Uint8Array).slice();
    const view = new DataView(after.buffer);
    for (let i = 0; i < length; i++) {
      const at = i * pointBytes;
      view.setInt32(at, i * 3 - view.getInt32(at, true), true);
      view.setFloat64(at + 8, view.getFloat64(at + 8, true) * weights[i % 4]!, true);
      for (let k = 0; k < 3; k++) {
        view.setInt16(at + 16 + 2 * k, view.getInt16(at + 16 + 2 * k, true) + k * weights[k]!, true);
      }
    }
    return {
      // z squared, and twice the conjugate times the imaginary unit.
      singles: Float32Array.from(z.flatMap(([a, b]) => [a * a - b * b + 2 * b, 2 * a * b + 2 * a])),
      doubles: Float64Array.from(
        z.flatMap(([a, b], i) => [-a - Number(doubles![2 * i]), b - Number(doubles![2 * i + 1])]),
      ),
      points: after,
    };
  },
  bounds: {
    singles: { derivation: "every number is exact; only the sign of a zero is open", absolute: () => 0 },
    doubles: { derivation: "every number is exact; only the sign of a zero is open", absolute: () => 0 },
  },
};
