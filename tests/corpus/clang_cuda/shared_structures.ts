import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const [grid, block] = [2, 64];
/** Few enough for the stack that a GPU gives a thread unless told otherwise, 1 KiB. */
const inserted = 24;
const steps = [3, 1, 4, 1];
const upTo = <T>(length: number, make: (index: number) => T) => Array.from({ length }, (_, index) => make(index));

/** The rows of a block, whose first thread inserts keys in a tree. */
function rowsOf(keys: readonly number[]): number[][] {
  const children = upTo(block, () => [-1, -1]);
  for (let at = 1; at < inserted; at++) {
    let node = 0;
    for (;;) {
      const side = keys[at]! < keys[node]! ? 0 : 1;
      const next = children[node]![side]!;
      if (next < 0) {
        children[node]![side] = at;
        break;
      }
      node = next;
    }
  }
  const depthOf = (node: number, path: number[], depth: number): number => {
    if (node < 0) return depth;
    path[depth & 15] = keys[node]!;
    const left = depthOf(children[node]![0]!, path, depth + 1);
    const right = depthOf(children[node]![1]!, path, depth + 1);
    return Math.max(left, right);
  };
  const count = upTo(block, (i) => steps[i & 3]!).reduce((a, b) => a + b) + 5;
  // Seven times each number, modulo 64, is each bit once.
  const mask = (1n << 64n) - 1n;
  return upTo(block, (i) => {
    const path = upTo(16, (k) => k);
    const depth = depthOf(0, path, i & 3);
    const sum = path.reduce((all, key) => Math.imul(all, 31) + key | 0, 0);
    return [depth, sum, count, Number(BigInt.asIntN(32, mask >> BigInt(i & 31)))];
  });
}

export const program: CorpusProgram = {
  covers: "structures with arrays in shared memory, recursion with an array of the caller, references, constants",
  buffers: () => ({
    x: Int32Array.from(randomWords(grid * block, 3)),
    out: new Int32Array(grid * block * 4),
    weights: new Float32Array(grid * block),
  }),
  launches: [{ kernel: "shared_structures", grid, block, arguments: ["x", "out", "weights"] }],
  expected({ x }) {
    const keys = Array.from(x as Int32Array);
    return {
      out: Int32Array.from(upTo(grid, (at) => rowsOf(keys.slice(at * block, (at + 1) * block))).flat(2)),
      // Each weight is raised by the number of its round.
      weights: Float32Array.from(upTo(grid * block, (i) => i % block * 3.5 + 3)),
    };
  },
};
