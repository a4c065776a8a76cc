import type { CorpusProgram } from "../corpus_program.ts";

const threads = 64;

export const program: CorpusProgram = {
  covers:
    "ld.acquire, st.release, relaxed accesses and fences of every scope, between threads that wait for each other",
  buffers: () => ({
    flag: new Int32Array(1),
    message: BigUint64Array.of(5n),
    handed: new BigUint64Array(threads),
    words: Uint32Array.of(10, 0, 77),
    longs: BigUint64Array.of(2n ** 40n + 1n, 0n),
    out: new Uint32Array(6),
  }),
  launches: [
    { kernel: "hand_over", grid: 1, block: threads, arguments: ["flag", "message", "handed"] },
    { kernel: "scopes", grid: 1, block: 1, arguments: ["words", "longs", "out"] },
  ],
  expected() {
    const handed = new BigUint64Array(threads);
    let message = 5n;
    for (let thread = 0; thread < threads; thread++) {
      message = BigInt.asUintN(64, message * 3n + BigInt(thread));
      handed[thread] = message;
    }
    return {
      flag: Int32Array.of(threads),
      message: BigUint64Array.of(message),
      handed,
      words: Uint32Array.of(10, 11, 22),
      longs: BigUint64Array.of(2n ** 40n + 1n, 9n),
      out: Uint32Array.of(22, 11, 22, 77, 27, 23),
    };
  },
};
