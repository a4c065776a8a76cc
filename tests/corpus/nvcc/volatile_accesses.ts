import type { CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "./contents.ts";

const threads = 32;
const waiting = 40;

export const program: CorpusProgram = {
  covers: "volatile loads and stores, and threads that spin until another thread of their block has stored",
  buffers: () => ({
    words: randomWords(threads, 31),
    global: new Uint32Array(threads),
    sums: new Uint32Array(threads),
    flags: new Int32Array(waiting),
    values: new Float64Array(waiting),
    seen: new Float64Array(waiting),
    longs: BigInt64Array.of(-1n, 2n ** 40n, 3n, -(2n ** 50n)),
    floats: Float32Array.of(1, 2.5, -300, 4),
    sum: new BigInt64Array(1),
  }),
  launches: [
    { kernel: "exchange", grid: 1, block: threads, arguments: ["global", "words", "sums"] },
    { kernel: "wait_for_neighbour", grid: 1, block: waiting, arguments: ["flags", "values", "seen"] },
    { kernel: "wide_volatile", grid: 1, block: 1, arguments: ["longs", "floats", "sum"] },
  ],
  expected({ words, longs, floats }) {
    const source = words as Uint32Array;
    // 2 ** (n + 1) - 1 fits in 53 bits: exact, whether fused or not.
    const values = Float64Array.from({ length: waiting }, (_, thread) => 2 ** (thread + 1) - 1);
    const sums = source.map((word, thread) => {
      // local[(i + thread) % 8] holds the bits from i on.
      const local = (at: number) => word >>> (at - thread % 8 + 8) % 8 & 0xff;
      return 2 * source[threads - 1 - thread]! + (source[thread ^ 3]! & 0xffff) + local(thread % 8) +
        local((thread + 5) % 8);
    });
    const [wides, singles] = [longs as BigInt64Array, floats as Float32Array];
    const [longsAfter, floatsAfter] = [wides.map((long, index) => long + BigInt(index)), singles.map((x) => 2 * x)];
    return {
      global: source,
      sums,
      flags: new Int32Array(waiting).fill(1),
      values,
      seen: values,
      longs: longsAfter,
      floats: floatsAfter,
      sum: BigInt64Array.of([...longsAfter].reduce((sum, long, index) => sum + long + BigInt(floatsAfter[index]!), 0n)),
    };
  },
};
