import { type Column, integerOperands, tableProgram, words } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const binary = (value: bigint, width: number) => BigInt.asUintN(width, value).toString(2).padStart(width, "0");
const reversed = (width: number): Column => (a) => BigInt("0b" + [...binary(a!, width)].reverse().join(""));
const leadingZeros = (width: number): Column => (a) => BigInt((binary(a!, width) + "1").indexOf("1"));
/** Returns the position of the lowest set bit, counted from 1; or 0 if no bit is set. */
const firstSet = (width: number): Column => (a) => {
  const place = [...binary(a!, width)].reverse().indexOf("1");
  return BigInt(place + 1);
};
const population = (width: number): Column => (a) => BigInt(binary(a!, width).replaceAll("0", "").length);

/** Returns four bytes, the lowest first. Indices 0 to 3 are the bytes of `a`, and 4 to 7 those of `b`. */
function bytes(a: bigint, b: bigint, indices: readonly number[]): bigint {
  const all = b << 32n | a;
  return indices.reduceRight((result, index) => result << 8n | all >> BigInt(8 * index) & 0xffn, 0n);
}

const selector = (c: bigint, index: number) => Number(c >> BigInt(4 * index) & 7n);
const four = [0, 1, 2, 3] as const;

/** The highest bit of a selector replicates the sign of the byte. */
function permuted(a: bigint, b: bigint, c: bigint): bigint {
  return four.reduceRight<bigint>((result, index) => {
    const byte = bytes(a, b, [selector(c, index)]);
    const replicates = (c >> BigInt(4 * index + 3) & 1n) === 1n;
    return result << 8n | (replicates ? (byte >> 7n) * 0xffn : byte);
  }, 0n);
}

/** For each mode of `prmt`, the byte indices for each value of the low two bits of `c`. */
const modes: Readonly<Record<string, readonly (readonly number[])[]>> = {
  f4e: [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
  b4e: [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
  rc8: [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]],
  ecl: [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
  ecr: [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
  rc16: [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
};

const columnsOf32Bits: readonly Column[] = [
  reversed(32),
  leadingZeros(32),
  firstSet(32),
  population(32),
  // CUDA's function ignores the highest bit of a selector.
  (a, b, c) => bytes(a!, b!, four.map((index) => selector(c!, index))),
  (a, b) => bytes(a!, b!, [3, 2, 1, 0]),
  (a, b, c) => permuted(a!, b!, c!),
  ...Object.values(modes).map((mode): Column => (a, b, c) => bytes(a!, b!, mode[Number(c! & 3n)]!)),
  (a, b, c) => a! & b! | ~a! & c!,
  (a, b, c) => a! & b! ^ a! & c! ^ b! & c!,
  (a, b, c) => a! ^ b! ^ c!,
  (a, b, c) => ~(a! | b!) & c!,
  (a) => a! & a! - 1n,
];

const columnsOf64Bits: readonly Column[] = [
  reversed(64),
  leadingZeros(64),
  firstSet(64),
  population(64),
  (a) => a! & -a!,
  (a) => ~a!,
];

const operands = (width: 32 | 64) =>
  integerOperands(width, { operands: 3, mixtures: 200 }).map((values) => words(values, width));

export const program: CorpusProgram = tableProgram(
  "brev, clz, popc, prmt in all modes, lop3 as compilers generate it; bit searches by brev and clz",
  [
    { kernel: "bits_of_32", operands: operands(32), width: 32, columns: columnsOf32Bits },
    { kernel: "bits_of_64", operands: operands(64).slice(0, 1), width: 64, columns: columnsOf64Bits },
  ],
);
