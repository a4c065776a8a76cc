import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const input: Int32Array = Int32Array.from({ length: size }, (_, i) => Math.imul(i + 1, 0x9e3779b1));

type Operation = (a: number, b: number) => number;

const add: Operation = (a, b) => a + b | 0;
const subtract: Operation = (a, b) => a - b | 0;
const power: Operation = (a, b) => Array(b & 7).fill(a).reduce(Math.imul, 1);

function rowOf(a: number, i: number, operations: readonly Operation[]): number[] {
  const chosen = i % 3 === 0 ? subtract : Math.imul;
  const operand = 0x1234567800000000n + BigInt(a);
  const stepped = i % 2 ? i + Number(BigInt.asIntN(32, operand >> 32n)) : i ^ Number(BigInt.asIntN(32, operand));
  return [
    operations[i % 4]!(a, i),
    (a & 1 ? add : power)(i, a),
    chosen(chosen(a, i), i),
    stepped ^ Math.imul(a, 3),
    i % 3 === 0 ? 1 : 0,
  ];
}

const rows = (operations: readonly Operation[]): Int32Array =>
  Int32Array.from([...input].flatMap((a, i) => rowOf(a, i, operations)));

/** Indirect calls of functions. */
export const program: CorpusProgram = {
  covers: "indirect call with .callprototype, addresses of functions in .global and .const initializers",
  buffers: () => ({ input, before: new Int32Array(size * 5), after: new Int32Array(size * 5) }),
  launches: [
    { kernel: "function_pointers", grid: 2, block: size / 2, arguments: ["input", "before"] },
    { kernel: "replace_operation", grid: 1, block: 1, arguments: [] },
    { kernel: "function_pointers", grid: 2, block: size / 2, arguments: ["input", "after"] },
  ],
  expected: () => ({
    before: rows([add, subtract, Math.imul, power]),
    after: rows([Math.imul, subtract, Math.imul, power]),
  }),
};
