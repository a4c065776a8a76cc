import { randomBytes } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 32;
const codeStep = 8;
const longest = 24;
const special = [-0x700000000n, -1n, 0n, 1n, 9n, 10n, 100n, 999n, 1000n, 0x123456789an, 2n ** 63n - 1n, -(2n ** 63n)];
const weights = [31, -28, 3100, 30, 7, -1, 99];

function classify(value: bigint): number {
  if (value >= 1n && value <= 9n) return 4;
  if (value >= 100n && value <= 999n) return 5;
  const cases = new Map([[special[0], 1], [-1n, 2], [0n, 3], [0x123456789an, 6], [2n ** 63n - 1n, 7]]);
  return cases.get(value) ?? (value < 0n ? -1 : 8);
}

function interpret(code: Uint8Array, first: number): number {
  let value = first;
  for (let at = 0;; at++) {
    const operation = code[at]! % 8;
    if (operation === 5) {
      at++;
      continue;
    }
    if (operation === 6) return value;
    if (operation === 0) value = value + at + 1 | 0;
    if (operation === 1) value = value - 5 | 0;
    if (operation === 1 || operation === 2) value = Math.imul(value, 3);
    if (operation === 3) value >>= at & 3;
    if (operation === 3 || operation === 4) value = -value | 0;
    if (operation === 7) value ^= code[at]!;
    if (at >= 20) return ~value;
  }
}

/** Clang's switches. */
export const program: CorpusProgram = {
  covers: "switches compiled to chains and trees of comparisons and to tables in global memory, on 8, 32 and 64 bits",
  buffers() {
    const values = new BigInt64Array(randomBytes(threads * 8));
    special.forEach((value, index) => values[index] = value);
    return {
      values,
      code: new Uint8Array(randomBytes(threads * codeStep + longest)),
      out: new Int32Array(threads * 3),
    };
  },
  launches: [{ kernel: "switches", grid: 2, block: threads / 2, arguments: ["values", "code", "out"] }],
  expected({ values, code }) {
    return {
      out: Int32Array.from([...values as BigInt64Array].flatMap((value, i) => [
        (weights[Number(value & 7n)] ?? 0) + (weights[i - 8] ?? 0),
        classify(value),
        interpret((code as Uint8Array).subarray(i * codeStep), Number(BigInt.asIntN(32, value))),
      ])),
    };
  },
};
