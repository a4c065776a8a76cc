import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes } from "./contents.ts";

const threads = 48;

export const program: CorpusProgram = {
  covers: "a compare-and-swap lock that the threads of a block acquire in turn, in shared and global memory",
  buffers: () => ({
    numbers: new Int32Array(randomBytes(4 * threads, 121)),
    list: new Int32Array(threads),
    count: new Int32Array(1),
    mutex: new Int32Array(1),
    total: BigUint64Array.of(2n ** 33n),
    turns: new Int32Array(1),
  }),
  launches: [
    { kernel: "shared_lock", grid: 1, block: threads, arguments: ["numbers", "list", "count"] },
    { kernel: "global_lock", grid: 1, block: threads, arguments: ["mutex", "total", "turns"] },
  ],
  expected: ({ numbers }) => ({
    list: (numbers as Int32Array).toSorted(),
    count: Int32Array.of(threads),
    mutex: Int32Array.of(0),
    total: BigUint64Array.of(2n ** 33n + BigInt(threads * (threads + 1) / 2)),
    turns: Int32Array.of(threads),
  }),
};
