import type { CorpusProgram } from "../corpus_program.ts";

const size = 24;
const threads = Array.from({ length: size }, (_, i) => i);

function factorial(n: number): bigint {
  return threads.slice(1, n + 1).reduce((product, factor) => product * BigInt(factor), 1n);
}

function fibonacci(n: number): number {
  const [result] = threads.slice(0, n).reduce(([a, b]) => [b, a + b] as [number, number], [0, 1] as [number, number]);
  return result;
}

/** Returns Ackermann's function in closed form, for m below 3. */
function ackermann(m: number, n: number): number {
  return [n + 1, n + 2, 2 * n + 3][m]!;
}

function hofstadter(): { female: number[]; male: number[] } {
  const female = [1];
  const male = [0];
  for (let n = 1; n < 16; n++) {
    male.push(n - female[male[n - 1]!]!);
    female.push(n - male[female[n - 1]!]!);
  }
  return { female, male };
}

/** Recursive functions. */
export const program: CorpusProgram = {
  covers: "call: recursive and mutually recursive functions, to depths that differ between threads",
  buffers: () => ({ factorials: new BigUint64Array(size), out: new Uint32Array(size * 5) }),
  launches: [{ kernel: "recursion", grid: 1, block: size, arguments: ["factorials", "out"] }],
  expected() {
    const { female, male } = hofstadter();
    return {
      factorials: BigUint64Array.from(threads, factorial),
      out: Uint32Array.from(threads.flatMap((i) => [
        fibonacci(i % 13),
        ackermann(i % 3, i % 5),
        i % 2 === 0 ? 2 : 1,
        female[i % 16]!,
        male[i % 16]!,
      ])),
    };
  },
};
