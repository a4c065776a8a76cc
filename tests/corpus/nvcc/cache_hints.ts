import type { BufferContents, CorpusProgram } from "../corpus_program.ts";
import { randomBytes, randomWords, zerosLike } from "./contents.ts";

const threads = 64;
const copies = 6;
const copied = ["words", "bytes", "halves", "doubles", "fours", "fourBytes", "pairs"];

function repeated(contents: BufferContents): BufferContents {
  const result = zerosLike(contents, copies);
  for (let copy = 0; copy < copies; copy++) result.set(contents as never, copy * contents.length);
  return result;
}

export const program: CorpusProgram = {
  covers: "cache hints on loads and stores, loads of read-only memory, prefetches",
  buffers() {
    const sources = {
      words: randomWords(threads, 41),
      bytes: new Uint8Array(randomBytes(threads, 42)),
      halves: new Int16Array(randomBytes(2 * threads, 43)),
      doubles: Float64Array.from({ length: threads }, (_, index) => index / 7),
      fours: Float32Array.from({ length: 4 * threads }, (_, index) => index / 7),
      fourBytes: new Uint8Array(randomBytes(4 * threads, 44)),
      pairs: new BigInt64Array(randomBytes(16 * threads, 45)),
    };
    const copiesOf = Object.entries(sources).map(([name, contents]) =>
      [`${name}Out`, zerosLike(contents, copies)] as const
    );
    return {
      ...sources,
      ...Object.fromEntries(copiesOf),
      differences: new Int32Array(threads),
      negated: new Float32Array(threads),
      firsts: new Uint32Array(threads),
    };
  },
  launches: [
    {
      kernel: "copy_words",
      grid: 1,
      block: threads,
      arguments: copied.slice(0, 4).flatMap((name) => [name, `${name}Out`]),
    },
    {
      kernel: "copy_vectors",
      grid: 1,
      block: threads,
      arguments: copied.slice(4).flatMap((name) => [name, `${name}Out`]),
    },
    { kernel: "read_only", grid: 1, block: threads, arguments: ["words", "differences"] },
    { kernel: "prefetched", grid: 1, block: threads, arguments: ["fours", "negated", "firsts"] },
  ],
  expected(initial) {
    const words = initial.words as Uint32Array;
    const fours = initial.fours as Float32Array;
    return {
      ...Object.fromEntries(copied.map((name) => [`${name}Out`, repeated(initial[name]!)])),
      differences: Int32Array.from(words, (word, index) => word - words[threads - 1 - index]!),
      negated: fours.slice(0, threads).map((value) => value - 2 * value),
      firsts: Uint32Array.from({ length: threads }, (_, index) => new Uint32Array(fours.buffer)[0]! + index),
    };
  },
};
