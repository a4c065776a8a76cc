import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes } from "./contents.ts";

const threads = 16;
// Sizes of structs. None has padding: every byte is copied.
const sizes = { bytes: 7, halves: 10, words: 36, pairs: 24, quads: 48, nested: 64 };
const nestedPlaces = { end: 7, halves: 8, words: 28 };

export const program: CorpusProgram = {
  covers: "copies of whole structs of every alignment between global, shared and local memory, passed and returned",
  buffers: () => ({
    ...Object.fromEntries(
      Object.entries(sizes).flatMap(([name, size], index) => [
        [name, new Uint8Array(randomBytes(size * threads, 151 + index))],
        [`${name}Out`, new Uint8Array(size * threads)],
      ]),
    ),
    exchanged: new Uint8Array(sizes.nested * threads),
  }),
  launches: [
    {
      kernel: "reverse_all",
      grid: 1,
      block: threads,
      arguments: Object.keys(sizes).flatMap((name) => [name, `${name}Out`]),
    },
    { kernel: "exchange", grid: 1, block: threads, arguments: ["nested", "exchanged"] },
  ],
  expected(initial) {
    const reversed = (name: string, size: number) => {
      const source = initial[name] as Uint8Array;
      return source.map((_, index) => source[(threads - 1 - Math.floor(index / size)) * size + index % size]!);
    };
    const exchanged = reversed("nested", sizes.nested);
    const nested = initial.nested as Uint8Array;
    for (let thread = 0; thread < threads; thread++) {
      const own = nested.subarray(sizes.nested * thread);
      const result = exchanged.subarray(sizes.nested * thread);
      const which = thread % 2;
      const copy = (to: number, from: number, size: number) => result.set(own.subarray(from, from + size), to);
      copy(nestedPlaces.halves + 10 * which, nestedPlaces.halves + 10 * (1 - which), 10);
      copy(nestedPlaces.words + 4 * which, nestedPlaces.words + 4 * (8 - which), 4);
      result[nestedPlaces.end]!++;
    }
    return {
      ...Object.fromEntries(Object.entries(sizes).map(([name, size]) => [`${name}Out`, reversed(name, size)])),
      exchanged,
    };
  },
};
