import type { CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "./contents.ts";

const threads = 64;
const powers = Array.from({ length: 10 }, (_, index) => 10 ** index);
const weights = [[0.5, -1.25, 3], [1e-30, -0, 65504]];
const entries = [["a", -1, 0.1], ["b", 2, -0.2], ["c", 0x7fffffff, 1e300], ["d", 0, 0]] as const;
const text = new TextEncoder().encode("the quick brown fox\0");
const wide = 0x123456789abcdef0n;

export const program: CorpusProgram = {
  covers: "initialized constants of a module, indexed at run time and through generic pointers",
  buffers: () => ({
    indices: randomWords(threads),
    out: new Int32Array(4 * threads),
    floats: new Float32Array(threads),
    doubles: new Float64Array(threads),
    global: Int32Array.from({ length: 10 }, (_, index) => index * index - 30),
    sums: new Int32Array(threads),
  }),
  launches: [
    { kernel: "read_tables", grid: 1, block: threads, arguments: ["indices", "out", "floats", "doubles"] },
    { kernel: "sum_tables", grid: 1, block: threads, arguments: ["global", "sums"] },
  ],
  expected({ indices, global }) {
    const numbers = [...indices as Uint32Array];
    return {
      out: Int32Array.from(numbers.flatMap((index) => {
        const [tag, value] = entries[index % 4]!;
        return [
          powers[index % 10]!,
          value + tag.charCodeAt(0) | 0,
          text[index % text.length]!,
          Number(BigInt.asIntN(32, wide >> BigInt(index % 33))),
        ];
      })),
      floats: Float32Array.from(numbers, (index) => weights[index % 2]![index % 3]!),
      doubles: Float64Array.from(numbers, (index) => entries[index % 4]![2]),
      sums: Int32Array.from({ length: threads }, (_, thread) => {
        const table = thread % 2 === 0 ? powers : [...global as Int32Array];
        return table.slice(0, thread % 10).reduce((sum, value) => sum + value, 0);
      }),
    };
  },
};
