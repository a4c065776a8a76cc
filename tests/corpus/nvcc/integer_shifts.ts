import { type Column, integerOperands, RandomBits, signedOf, tableProgram, words } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const edgeAmounts = [0, 1, 5, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 128, 255, 256, 0x7fff_ffff, 0xffff_ffff];
const mixtures = 150;

function amounts(): Uint32Array {
  const random = new RandomBits(9);
  return Uint32Array.from(
    { length: 144 + mixtures },
    () => random.below(2) === 0 ? edgeAmounts[random.below(edgeAmounts.length)]! : random.below(70),
  );
}

const operands = (width: 16 | 32 | 64) =>
  integerOperands(width, { operands: 2, mixtures }).map((values) => words(values, width));
const clamped = (amount: bigint, most: bigint) => amount > most ? most : amount;
/** Shifts by the full amount. Amounts above 64 are clamped, because 64 already shifts out every bit. */
const left: Column = (a, amount) => a! << clamped(amount!, 64n);
const right: Column = (a, amount) => a! >> clamped(amount!, 64n);
const arithmetic = (width: number): Column => (a, amount) => signedOf(a!, width) >> clamped(amount!, 64n);
const rotated = (a: bigint, places: bigint, width: bigint) => (a << width | a) << places % width >> width;
const funnel = (a: bigint, b: bigint) => b << 32n | a;

const columnsOf32Bits: readonly Column[] = [
  (a, _, amount) => left(a!, amount!),
  (a, _, amount) => right(a!, amount!),
  (a, _, amount) => arithmetic(32)(a!, amount!),
  (a, b, amount) => funnel(a!, b!) << (amount! & 31n) >> 32n,
  (a, b, amount) => funnel(a!, b!) >> (amount! & 31n),
  (a, b, amount) => funnel(a!, b!) << clamped(amount!, 32n) >> 32n,
  (a, b, amount) => funnel(a!, b!) >> clamped(amount!, 32n),
  (a, _, amount) => rotated(a!, amount! & 31n, 32n),
  (a, _, amount) => rotated(a!, 32n - (amount! & 31n), 32n),
  (a) => rotated(a!, 7n, 32n),
  (a, _, amount) => a! << (amount! & 31n),
  (a, _, amount) => signedOf(a!, 32) >> (amount! & 31n),
  (a, b) => BigInt.asUintN(32, a! << 5n) + (b! >> 3n),
];

const columnsOf64Bits: readonly Column[] = [
  left,
  right,
  arithmetic(64),
  (a, amount) => rotated(a!, amount! & 63n, 64n),
  (a) => rotated(a!, 41n, 64n),
  (a, amount) => a! >> (amount! & 63n),
  (a, amount) => signedOf(a!, 64) >> (amount! & 63n),
  (a) => rotated(a!, 32n, 64n),
];

const [a16] = operands(16);
const [a32, b32] = operands(32);
const [a64] = operands(64);

export const program: CorpusProgram = tableProgram(
  "shl and shr of 16, 32 and 64 bits by amounts past the width, shf in all modes, rotations",
  [
    {
      kernel: "shifts_of_16_bits",
      operands: [a16!, amounts()],
      width: 16,
      columns: [left, right, arithmetic(16)],
    },
    { kernel: "shifts_of_32_bits", operands: [a32!, b32!, amounts()], width: 32, columns: columnsOf32Bits },
    { kernel: "shifts_of_64_bits", operands: [a64!, amounts()], width: 64, columns: columnsOf64Bits },
  ],
);
