import { type Column, integerOperands, signedOf, type Table, tableProgram, words } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const minimum = (a: bigint, b: bigint) => a < b ? a : b;
const maximum = (a: bigint, b: bigint) => a > b ? a : b;
const magnitude = (value: bigint) => value < 0n ? -value : value;
const saturated32 = (value: bigint) => maximum(-0x8000_0000n, minimum(value, 0x7fff_ffffn));

function extremes(width: 16 | 32 | 64): Table {
  const s = (bits: bigint | undefined) => signedOf(bits!, width);
  const columns: Column[] = [
    (a, b) => minimum(s(a), s(b)),
    (a, b) => maximum(s(a), s(b)),
    (a, b) => minimum(a!, b!),
    (a, b) => maximum(a!, b!),
    (a) => magnitude(s(a)),
    (a) => -a!,
    (a, b, c) => magnitude(s(a) - s(b)) + c!,
    (a, b, c) => magnitude(a! - b!) + c!,
  ];
  const isZero: Column = (a) => a === 0n ? 1n : 0n;
  if (width !== 32) columns.push(isZero);
  else {
    columns.push(
      (a, b) => s(a) + s(b) >> 1n,
      (a, b) => s(a) + s(b) + 1n >> 1n,
      (a, b) => a! + b! >> 1n,
      (a, b) => a! + b! + 1n >> 1n,
      (a, b) => saturated32(s(a) + s(b)),
      (a, b) => saturated32(s(a) - s(b)),
      isZero,
      (a, b, c) => s(a) < s(b) ? minimum(b!, c!) : maximum(a!, c!),
    );
  }
  const operands = integerOperands(width, { operands: 3, mixtures: 150 }).map((values) => words(values, width));
  return { kernel: `extremes_of_${width}_bits`, operands, width, columns };
}

export const program: CorpusProgram = tableProgram(
  "min, max, abs, neg, sad, cnot and averages of integers; add.sat and sub.sat",
  [extremes(16), extremes(32), extremes(64)],
);
