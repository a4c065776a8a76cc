import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes } from "./contents.ts";

const threads = 24;
const length = 80;
const rowCount = 30;
const stride = 3;
const huge = 2 ** 30;
const nodeCount = 32;

export const program: CorpusProgram = {
  covers: "pointers with negative, scaled and 64-bit offsets, their differences and order, and stored addresses",
  buffers: () => ({
    numbers: new Int32Array(randomBytes(4 * length, 141)),
    walked: new Int32Array(5 * threads),
    cells: new Int32Array(randomBytes(4 * 5 * rowCount, 142)),
    rowSums: new Int32Array(2 * threads),
    bytes: new Uint8Array(randomBytes(64, 143)),
    picked: new Uint8Array(2 * threads),
    nodes: new BigUint64Array(2 * nodeCount),
    followed: new Int32Array(nodeCount),
  }),
  launches: [
    { kernel: "walk", grid: 1, block: threads, arguments: ["numbers", length, "walked"] },
    { kernel: "rows", grid: 1, block: threads, arguments: ["cells", "rowSums", stride, rowCount] },
    { kernel: "wide_products", grid: 1, block: threads, arguments: ["bytes", "picked", 10, huge] },
    { kernel: "linked", grid: 1, block: nodeCount, arguments: ["nodes", "followed"] },
  ],
  expected({ numbers, cells, bytes }) {
    const middle = length / 2;
    const at = (index: number) => Number(numbers![index]);
    const rows = cells as Int32Array;
    const picked = bytes as Uint8Array;
    return {
      walked: Int32Array.from({ length: 5 * threads }, (_, index) => {
        const thread = Math.floor(index / 5);
        const values = [
          at(middle - thread),
          at(length - 1 - thread),
          at(thread),
          at(middle + thread - 8),
          at(40 - thread) + (middle - thread < 20 ? 1_000_000 : 0),
        ];
        return values[index % 5]!;
      }),
      rowSums: Int32Array.from({ length: 2 * threads }, (_, index) => {
        const thread = Math.floor(index / 2);
        if (index % 2 === 1) return (rowCount - 1 - thread) * 100 + 12;
        let sum = 0;
        for (let row = rowCount - 1 - thread; row >= 0; row -= stride) {
          sum = Math.imul(sum, 31) + rows[5 * row + thread % 5]! | 0;
        }
        return sum;
      }),
      // The 32-bit product is 0, and the high half of the 64-bit product is 1.
      picked: Uint8Array.from({ length: 2 * threads }, (_, index) => {
        const thread = Math.floor(index / 2);
        return picked[index % 2 === 0 ? 40 - thread : thread]!;
      }),
      followed: Int32Array.from({ length: nodeCount }, (_, thread) => {
        let [node, sum] = [thread, 0];
        for (let step = 0; step < 5; step++) {
          node = (node * 7 + 3) % nodeCount;
          sum = sum * 10 + node;
        }
        return sum;
      }),
    };
  },
};
