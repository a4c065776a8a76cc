import type { Buffers, CorpusProgram } from "../corpus_program.ts";
import { randomWords } from "./contents.ts";

const threads = 40;
const blocks = 2;
const most = 2 ** 31 - 1;

/** Returns the initial buffers for `count` blocks, each of which adds the same numbers to its own words. */
function start(count: number): Buffers {
  const repeated = (values: readonly number[]) => new Array<readonly number[]>(count).fill(values).flat();
  return {
    words: Uint32Array.from(repeated([0, 0, 2 ** 32 - 1, 0, 0, 0, 0, 0])),
    signedWords: Int32Array.from(repeated([most, -most - 1])),
    longs: new BigUint64Array(count),
    floats: new Float32Array(count),
    doubles: new Float64Array(count),
  };
}

interface Results {
  readonly words: readonly number[];
  readonly signedWords: readonly number[];
  readonly longs: readonly number[];
  readonly floats: readonly number[];
  readonly doubles: readonly number[];
}

function results(numbers: readonly number[], times: number): Results {
  const signed = numbers.map((number) => number | 0);
  const sum = numbers.reduce((total, number) => total + number, 0);
  const fold = (operation: (a: number, b: number) => number, from: number) => numbers.reduce(operation, from) >>> 0;
  const words = [
    sum % 2 ** 32,
    (2 ** 32 - sum % 2 ** 32) % 2 ** 32,
    fold((a, b) => a & (b | 0xff), -1),
    fold((a, b) => a | b & 0xf0f0f0f0, 0),
    fold((a, b) => a ^ b, 0),
    // inc counts through eleven numbers, from 0 to the limit; dec wraps from 0 to the limit.
    threads % 11,
    (11 - threads % 11) % 11,
    1234,
  ];
  const repeated = (values: number[]) => new Array<number[]>(times).fill(values).flat();
  return {
    words: repeated(words),
    signedWords: repeated([Math.min(...signed), Math.max(...signed)]),
    longs: repeated([sum]),
    floats: repeated([numbers.reduce((total, number) => total + number % 8, 0)]),
    doubles: repeated([sum]),
  };
}

const kinds = ["words", "signedWords", "longs", "floats", "doubles"];
const withPrefix = (prefix: string, buffers: Buffers) =>
  Object.fromEntries(Object.entries(buffers).map(([name, contents]) => [`${prefix}_${name}`, contents]));

export const program: CorpusProgram = {
  covers: "atomic operations with block and system scope",
  buffers: () => ({
    numbers: randomWords(threads, 111),
    ...withPrefix("block", start(blocks)),
    ...withPrefix("system", start(1)),
  }),
  launches: ["block", "system"].map((scope) => ({
    kernel: `${scope}_scope`,
    grid: scope === "block" ? blocks : 1,
    block: threads,
    arguments: ["numbers", ...kinds.map((kind) => `${scope}_${kind}`)],
  })),
  expected({ numbers }) {
    const typed = (times: number): Buffers => {
      const { words, signedWords, longs, floats, doubles } = results([...numbers as Uint32Array], times);
      return {
        words: Uint32Array.from(words),
        signedWords: Int32Array.from(signedWords),
        longs: BigUint64Array.from(longs, (sum) => BigInt(sum) << 20n),
        floats: Float32Array.from(floats),
        doubles: Float64Array.from(doubles),
      };
    };
    return { ...withPrefix("block", typed(blocks)), ...withPrefix("system", typed(1)) };
  },
};
