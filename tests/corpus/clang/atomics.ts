import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const block = 32;
const threads = 2 * block;
const counterBytes = 80;
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** Writes the initial counters: all 0 except the minima and the mask. */
function writeInitial(counters: DataView): void {
  counters.setInt32(8, 0x7fff_ffff, true);
  counters.setBigUint64(48, 2n ** 64n - 1n, true);
}

/** Writes the counters after `values` were counted by the threads from `begin` on. */
function writeCounted(counters: DataView, values: readonly number[], begin: number): void {
  const words = [
    sum(values),
    Math.max(...values),
    Math.min(...values),
    values.reduce((bits, value) => bits ^ value, 0),
    values.length % 41,
    (51 - values.length % 51) % 51,
    sum(values) - 3 * values.length,
    begin === 0 ? values[5]! : 0,
  ];
  const longs = [
    BigInt(sum(values)) << 20n,
    BigInt(Math.max(...values)) << 11n,
    values.reduce((bits, _, index) => bits & ~(1n << BigInt((begin + index) % 64)), 2n ** 64n - 1n),
    values.reduce((bits, value) => bits | 1n << BigInt(value % 64), 0n),
  ];
  words.forEach((word, index) => counters.setUint32(index * 4, word, true));
  longs.forEach((long, index) => counters.setBigUint64(32 + index * 8, long, true));
  counters.setFloat32(64, sum(values.map((value) => value & 0xff)), true);
  counters.setFloat32(68, sum(values.map((value) => value & 15)), true);
  counters.setFloat64(72, sum(values) / 2, true);
}

function counters(write: (view: DataView, index: number) => void): Uint8Array {
  const bytes = new Uint8Array(4 * counterBytes);
  for (let index = 0; index < 4; index++) write(new DataView(bytes.buffer, index * counterBytes, counterBytes), index);
  return bytes;
}

/** Clang's atomic operations. */
export const program: CorpusProgram = {
  covers: "atom on generic addresses of global and shared memory, .cas loops, scopes, membar",
  buffers: () => ({
    input: Int32Array.from(randomWords(threads), (word) => word >>> 8),
    counters: counters(writeInitial),
    slots: new Int32Array(threads),
    seen: new Int32Array(6),
  }),
  launches: [{ kernel: "atomics", grid: 2, block, arguments: ["input", "counters", "slots", "seen"] }],
  expected({ input }) {
    const values = [...input as Int32Array];
    const counted = [[0, threads], [0, block], [block, threads], [0, threads]] as const;
    return {
      counters: counters((view, index) => {
        const [begin, end] = counted[index]!;
        writeCounted(view, values.slice(begin, end), begin);
      }),
      slots: new Int32Array(threads).fill(1),
      seen: Int32Array.of(3 * block, -1, 3 * block, -1, threads, threads),
    };
  },
};
