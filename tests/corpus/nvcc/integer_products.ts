import {
  type Column,
  integerOperands,
  signedOf,
  tableProgram,
  words16,
  words32,
  words64,
} from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const operands = (width: number) => integerOperands(width, { operands: 3, mixtures: 150 });

const columnsOf16Bits: readonly Column[] = [
  (a, b) => a! + b!,
  (a, b) => a! - b!,
  (a, b) => a! * b!,
  (a, b) => a! * b! >> 16n,
  (a, b) => signedOf(a!, 16) * signedOf(b!, 16) >> 16n,
  (a, b, c) => a! * b! + c!,
  (a, b, c) => (a! * b! >> 16n) + c!,
  (a, b, c) => (signedOf(a!, 16) * signedOf(b!, 16) >> 16n) + c!,
  (a, b, c) => a! * b! - c!,
];

const signed24 = (a: bigint, b: bigint) => signedOf(a, 24) * signedOf(b, 24);
const unsigned24 = (a: bigint, b: bigint) => (a & 0xff_ffffn) * (b & 0xff_ffffn);

const columnsOf32Bits: readonly Column[] = [
  (a, b) => a! + b!,
  (a, b) => a! - b!,
  (a, b) => a! * b!,
  (a, b) => signedOf(a!, 32) * signedOf(b!, 32) >> 32n,
  (a, b) => a! * b! >> 32n,
  (a, b, c) => a! * b! + c!,
  (a, b, c) => (signedOf(a!, 32) * signedOf(b!, 32) >> 32n) + c!,
  (a, b, c) => (a! * b! >> 32n) + c!,
  (a, b) => signed24(a!, b!),
  (a, b) => unsigned24(a!, b!),
  // The upper 32 bits of a 48-bit product.
  (a, b) => signed24(a!, b!) >> 16n,
  (a, b) => unsigned24(a!, b!) >> 16n,
  (a, b, c) => signed24(a!, b!) + c!,
  (a, b, c) => (unsigned24(a!, b!) >> 16n) + c!,
  (a, b, c) => signedOf(a!, 16) * signedOf(b!, 16) + c!,
  (a, b, c) => (a! & 0xffffn) * (b! & 0xffffn) + c!,
];

const low = (value: bigint) => value & 0xffff_ffffn;
const lowSigned = (value: bigint) => signedOf(value, 32);

const columnsOf64Bits: readonly Column[] = [
  (a, b) => a! + b!,
  (a, b) => a! - b!,
  (a, b) => a! * b!,
  (a, b) => signedOf(a!, 64) * signedOf(b!, 64) >> 64n,
  (a, b) => a! * b! >> 64n,
  (a, b, c) => a! * b! + c!,
  (a, b, c) => (signedOf(a!, 64) * signedOf(b!, 64) >> 64n) + c!,
  (a, b, c) => (a! * b! >> 64n) + c!,
  (a, b) => lowSigned(a!) * lowSigned(b!),
  (a, b) => low(a!) * low(b!),
  (a, b, c) => lowSigned(a!) * lowSigned(b!) + c!,
  (a, b, c) => low(a!) * low(b!) + c!,
];

export const program: CorpusProgram = tableProgram(
  "add, sub, mul and mad in .lo, .hi and .wide of 16, 32 and 64 bits; mul24 and mad24",
  [
    { kernel: "products_of_16_bits", operands: operands(16).map(words16), width: 16, columns: columnsOf16Bits },
    { kernel: "products_of_32_bits", operands: operands(32).map(words32), width: 32, columns: columnsOf32Bits },
    { kernel: "products_of_64_bits", operands: operands(64).map(words64), width: 64, columns: columnsOf64Bits },
  ],
);
