import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 32;
const copied = 16;

function twoEntries(first: number, most: number): number {
  let [value, rounds, steps] = [first, most, 0];
  let isAtTop = (value & 1) === 0;
  while (true) {
    if (isAtTop) {
      value = Math.imul(value, 5) + 1 >>> 0;
      steps += 100;
      if (steps > 5000) break;
    }
    value = (value ^ value >>> 3) >>> 0;
    steps++;
    isAtTop = (value & 2) !== 0;
    if (isAtTop) {
      if (--rounds <= 0) break;
    } else {
      value = value + 7 >>> 0;
      if (rounds-- <= 0) break;
    }
  }
  return (value ^ steps) >>> 0;
}

/**
 * Returns the result of device_copy, which enters its unrolled loop in the middle: it adds a word if the number of words
 * left is even, and otherwise applies an exclusive or.
 */
function sumOf(copy: readonly number[]): number {
  return copy.reduce((sum, word, index) => (copy.length - index) % 2 === 0 ? sum + word >>> 0 : (sum ^ word) >>> 0, 0);
}

function machine(input: readonly number[]): number {
  let state = 0;
  let at = 0;
  let next: "start" | "odd" | "even" = "start";
  while (true) {
    if (next === "start") {
      if (at >= input.length) return state;
      const kind = input[at++]! & 3;
      if (kind === 0) continue;
      if (kind === 2) state = state + 3 >>> 0;
      if (kind === 3) state = (state ^ 0x77) >>> 0;
      next = kind === 2 ? "even" : "odd";
    } else if (next === "odd") {
      next = "start";
      for (let i = 0; i < 4; i++) {
        if ((state + i >>> 0) % 5 === 3) {
          next = "even";
          break;
        }
        state = state + i * at >>> 0;
      }
    } else {
      state = Math.imul(state, 3) + 1 >>> 0;
      if (state & 8) {
        next = "start";
      } else if (at < input.length && input[at]! < 0) {
        at++;
        next = "odd";
      } else {
        state = state + 1 >>> 0;
        if (state % 3 === 0) next = "start";
      }
    }
  }
}

function sieve(limit: number): number {
  let found = 0;
  for (let number = 2; number < limit; number++) {
    let isPrime = true;
    for (let divisor = 2; divisor < number; divisor++) isPrime &&= number % divisor !== 0;
    if (isPrime) found = Math.imul(found, 31) + number >>> 0;
  }
  return found;
}

/** Clang's code for control flow that is not structured. */
export const program: CorpusProgram = {
  covers: "loops with two entries, switches into loops, state machines with goto, loops that LLVM unrolls",
  buffers: () => ({
    input: new Int32Array(randomWords(threads + 20)),
    out: new Uint32Array(threads * 4),
    copies: new Int32Array(threads * copied),
  }),
  launches: [{ kernel: "exotic_loops", grid: 2, block: threads / 2, arguments: ["input", "out", "copies"] }],
  expected({ input }) {
    const words = [...input as Int32Array];
    const copies = Array.from({ length: threads }, (_, i) => words.slice(i, i + i % 15 + 1));
    return {
      out: Uint32Array.from(copies.flatMap((copy, i) => [
        twoEntries(words[i]! >>> 0, i),
        sumOf(copy),
        machine(words.slice(i, i + 20)),
        sieve(i * 2),
      ])),
      copies: Int32Array.from(copies.flatMap((copy) => [...copy, ...new Array<number>(copied - copy.length).fill(0)])),
    };
  },
};
