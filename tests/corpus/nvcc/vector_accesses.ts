import type { BufferContents, CorpusProgram } from "../corpus_program.ts";
import { randomBytes, randomWords, zerosLike } from "./contents.ts";

const threads = 32;
const floatsOf = (length: number) => Float32Array.from({ length }, (_, index) => index / 3 - 20);

/** Permutes the elements of each vector. `from` has the source of each element. */
function permuted<T extends BufferContents>(source: T, from: readonly number[]): T {
  const result = source.slice() as T;
  for (let index = 0; index < source.length; index++) {
    const lane = index % from.length;
    result[index] = source[index - lane + from[lane]!]!;
  }
  return result;
}

const inputs = {
  bytes4: () => new Uint8Array(randomBytes(4 * threads, 1)),
  halves4: () => new Int16Array(randomBytes(8 * threads, 2)),
  floats4: () => floatsOf(4 * threads),
  words4: () => randomWords(4 * threads, 3),
  bytes2: () => new Int8Array(randomBytes(2 * threads, 4)),
  halves2: () => new Int16Array(randomBytes(4 * threads, 5)),
  words2: () => new Int32Array(randomBytes(8 * threads, 6)),
  floats2: () => floatsOf(2 * threads),
  doubles2: () => Float64Array.from({ length: 2 * threads }, (_, index) => index / 3 - 20),
  longs2: () => new BigInt64Array(randomBytes(16 * threads, 7)),
  floats3: () => floatsOf(3 * threads),
} satisfies Record<string, () => BufferContents>;

const names = Object.keys(inputs);
const named = (lanes: number, suffix = "") =>
  names.filter((name) => name.endsWith(`${lanes}`)).map((name) => name + suffix);

export const program: CorpusProgram = {
  covers: "vector loads and stores of two and four elements of every width, global and shared",
  buffers() {
    const sources = Object.entries(inputs).map(([name, make]) => [name, make()] as const);
    const results = sources.map(([name, contents]) => [`${name}Out`, zerosLike(contents)] as const);
    return Object.fromEntries([...sources, ...results, ["shared", new Uint32Array(4 * threads)]]);
  },
  launches: [
    { kernel: "fours", grid: 1, block: threads, arguments: [...named(4), ...named(4, "Out")] },
    { kernel: "pairs", grid: 1, block: threads, arguments: [...named(2), ...named(2, "Out")] },
    { kernel: "threes", grid: 1, block: threads, arguments: ["floats3", "floats3Out"] },
    { kernel: "shared_vectors", grid: 1, block: threads, arguments: ["words4", "shared"] },
  ],
  expected(initial) {
    const orders: Record<string, readonly number[]> = { "4": [3, 0, 1, 2], "2": [1, 0], "3": [2, 0, 1] };
    const results = names.map((name) => [`${name}Out`, permuted(initial[name]!, orders[name.at(-1)!]!)]);
    const words = initial.words4 as Uint32Array;
    const shared = new Uint32Array(4 * threads);
    for (let thread = 0; thread < threads; thread++) {
      const [x, y, z, w] = words.subarray(4 * (threads - 1 - thread));
      shared.set([x! + words[2 * thread]!, y!, z! + words[2 * thread + 1]!, w!], 4 * thread);
    }
    return Object.fromEntries([...results, ["shared", shared]]);
  },
};
