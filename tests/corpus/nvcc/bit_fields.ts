import { type Column, integerOperands, RandomBits, signedOf, tableProgram, words } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const mixtures = 200;
const edges = [0, 1, 8, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255];

/** Returns positions or lengths of fields. None is above 255, because the manual uses only the low 8 bits. */
function places(seed: number): Uint32Array {
  const random = new RandomBits(seed);
  return Uint32Array.from(
    { length: 144 + mixtures },
    () => random.below(3) === 0 ? edges[random.below(edges.length)]! : random.below(34),
  );
}

const operands = (width: 32 | 64) => [
  ...integerOperands(width, { operands: 2, mixtures }).map((values) => words(values, width)),
  places(1),
  places(2),
];

/**
 * Extracts a field. Bits above the field, or above the number if that ends earlier, are zeros or copies of the highest
 * bit.
 */
function extracted(width: number, signed: boolean): Column {
  return (a, _, position, length) => {
    const number = signed ? signedOf(a!, width) : a!;
    const field = number >> position!;
    if (!signed) return field & (1n << length!) - 1n;
    return length === 0n ? 0n : BigInt.asIntN(Number(length), field);
  };
}

function inserted(width: number): Column {
  return (a, b, position, length) => {
    const mask = BigInt.asUintN(width, (1n << length!) - 1n << position!);
    return b! & ~mask | a! << position! & mask;
  };
}

function highest(width: number, signed: boolean): (a: bigint) => number {
  return (a) => {
    const number = signed && signedOf(a, width) < 0n ? BigInt.asUintN(width, ~a) : a;
    return number === 0n ? -1 : number.toString(2).length - 1;
  };
}

/** The result is 0xffffffff if there is no such bit. */
const found = (place: number) => BigInt(place >>> 0);
const highestBit = (width: number, signed: boolean): Column => (a) => found(highest(width, signed)(a!));
const shiftAmount = (width: number, signed: boolean): Column => (a) => {
  const place = highest(width, signed)(a!);
  return found(place < 0 ? place : width - 1 - place);
};

const columns = (width: number): Column[] => [
  extracted(width, false),
  extracted(width, true),
  inserted(width),
  highestBit(width, false),
  highestBit(width, true),
  shiftAmount(width, false),
  shiftAmount(width, true),
];

export const program: CorpusProgram = tableProgram(
  "bfe, bfi and bfind of 32 and 64 bits, signed and unsigned, with fields beyond the end; lop3 by table",
  [
    {
      kernel: "fields_of_32_bits",
      operands: operands(32),
      width: 32,
      columns: [
        ...columns(32),
        (a, b, position) => a! & b! | a! & position! | b! & position!,
        // Truth table: 1 for 000, 001, 011 and 100.
        (a, b, position) => ~a! & (~b! | position!) | a! & ~b! & ~position!,
        () => -1n,
        (a, b) => (a! >> 11n & 0x7ffn) + (signedOf(b! << 4n, 32) >> 20n),
      ],
    },
    { kernel: "fields_of_64_bits", operands: operands(64), width: 64, columns: columns(64) },
  ],
);
