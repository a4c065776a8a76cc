import { type Column, integerOperands, signedOf, type Table, tableProgram, words } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

function division(type: "s" | "u", width: 16 | 32 | 64): Table {
  const number = (bits: bigint) => type === "s" ? signedOf(bits, width) : bits;
  const lowest = -(1n << BigInt(width - 1));
  const [a, b] = integerOperands(width, { operands: 2, mixtures: 150 });
  const divisors = b!.map((divisor, row) => {
    const overflows = type === "s" && number(divisor) === -1n && number(a![row]!) === lowest;
    return divisor === 0n || overflows ? 3n : divisor;
  });
  const columns: Column[] = [
    (a, b) => number(a!) / number(b!),
    (a, b) => number(a!) % number(b!),
    (a) => number(a!) / 7n,
    (a) => number(a!) % 10n,
    (a) => number(a!) / 64n,
    (a) => number(a!) % 125n,
  ];
  return { kernel: `divide_${type}${width}`, operands: [words(a!, width), words(divisors, width)], width, columns };
}

export const program: CorpusProgram = tableProgram(
  "div and rem of 16, 32 and 64 bits, and the multiplications by which compilers divide by constants",
  [
    division("s", 16),
    division("u", 16),
    division("s", 32),
    division("u", 32),
    division("s", 64),
    division("u", 64),
  ],
);
