import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const block = 16;
const threads = 2 * block;
const constants = [3, -1, 4, -1, 5, -9, 2, -6];
const globals = [2, 7, 1, 8, 2, 8, 1, 8];

function sumOf(input: Int32Array, i: number): number {
  const own = constants.map((_, item) => input[(i + item) % 16]! - item | 0);
  const chosen = [own, Array.from(input.subarray(0, 8), (word) => word ^ 0x55), globals, constants, [...input]][i % 5]!;
  return chosen.slice(i % 3, i % 3 + 5).reduce((total, number) => Math.imul(total, 3) + number | 0, 0);
}

function writeEntry(entries: DataView, input: Int32Array, i: number): void {
  const at = i * 16;
  const bytes = [1, 2, 3, 4, i, 6, 7, 8];
  const pair = [input[i]!, 77];
  let number = input[i]!;
  for (const by of [i, -5]) {
    number = number + by | 0;
    bytes.forEach((byte, index) => bytes[index] = byte * 7 + by & 0xff);
    pair[by & 1] = pair[1]! - number << 16 >> 16;
  }
  entries.setInt32(at, number, true);
  bytes.forEach((byte, index) => entries.setUint8(at + 4 + index, byte));
  pair.forEach((item, index) => entries.setInt16(at + 12 + 2 * index, item, true));
}

/** Clang's loads and stores through generic addresses. */
export const program: CorpusProgram = {
  covers: "ld and st without a state space, on addresses of local, shared, constant and global memory",
  buffers: () => ({
    input: new Int32Array(randomWords(threads)),
    sums: new Int32Array(threads),
    entries: new Uint8Array(threads * 16),
  }),
  launches: [{ kernel: "generic_memory", grid: 2, block, arguments: ["input", "sums", "entries"] }],
  expected({ input, sums, entries }) {
    const words = input as Int32Array;
    for (let i = 0; i < threads; i++) {
      sums![i] = sumOf(words, i);
      writeEntry(new DataView(entries!.buffer), words, i);
    }
    return { sums: sums!, entries: entries! };
  },
};
