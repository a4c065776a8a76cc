import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const modulus = 1000000007;

function fibonacci(n: number): number {
  let [number, next] = [0, 1];
  for (let i = 0; i < n; i++) [number, next] = [next, (number + next) % modulus];
  return number;
}

function logOf(i: number): number {
  const marks: number[] = [];
  for (let round = 0; round < 3; round++) {
    const inner = (i >> round & 1) === 0;
    marks.push(...(inner ? [1, 2, 7, 6] : [1, 6]));
    if (inner && i % 5 === 3) break;
  }
  return marks.reduce((log, mark) => Math.imul(log, 10) + mark | 0, 0);
}

function rowOf(i: number): number[] {
  const number = fibonacci(i * i);
  const negated = (modulus - number) % modulus;
  return [number, negated * 2 + (number < i * 1000000 ? 1 : 0), logOf(i)];
}

/** Objects of classes. */
export const program: CorpusProgram = {
  covers: "operator overloading, constructors, destructors, structs by reference and as results",
  buffers: () => ({ out: new Uint32Array(size * 3) }),
  launches: [{ kernel: "objects", grid: 2, block: size / 2, arguments: ["out"] }],
  expected: () => ({ out: Uint32Array.from(Array.from({ length: size }, (_, i) => rowOf(i)).flat()) }),
};
