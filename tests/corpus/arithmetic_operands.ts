/**
 * Operands for the corpus's arithmetic, edge cases among them, and tables of what kernels make of them: a kernel takes
 * operands by its thread's number and writes its results, a row of columns, beside one another.
 */
import type { BufferContents, CorpusLaunch, CorpusProgram } from "./corpus_program.ts";
import { canonicalNaN, type FloatFormat } from "./float_reference.ts";

/** Numbers that look random and are the same on every call: SplitMix64. */
export class RandomBits {
  #state: bigint;

  constructor(seed: number) {
    this.#state = BigInt(seed);
  }

  /** An integer of some bits, 64 at most. */
  next(width: number): bigint {
    this.#state = BigInt.asUintN(64, this.#state + 0x9e37_79b9_7f4a_7c15n);
    let mixed = this.#state;
    mixed = BigInt.asUintN(64, (mixed ^ mixed >> 30n) * 0xbf58_476d_1ce4_e5b9n);
    mixed = BigInt.asUintN(64, (mixed ^ mixed >> 27n) * 0x94d0_49bb_1331_11ebn);
    return (mixed ^ mixed >> 31n) >> BigInt(64 - width);
  }

  /** An integer from 0 to below a bound. */
  below(bound: number): number {
    return Number(this.next(48) % BigInt(bound));
  }

  /** A number from 0 to below 1, of 48 bits. */
  fraction(): number {
    return Number(this.next(48)) / 2 ** 48;
  }
}

/** Integers at which something ends: 0, 1, all bits, the highest bit alone, and their neighbours. */
export function integerEdges(width: number): bigint[] {
  const highest = 1n << BigInt(width - 1);
  const all = 2n * highest - 1n;
  const halfway = 1n << BigInt(width / 2);
  return [0n, 1n, 2n, 7n, all, all - 1n, highest, highest - 1n, highest + 1n, halfway, halfway - 1n, halfway >> 1n];
}

/** Zeros, subnormal numbers, the smallest and largest normal ones, 1 and its neighbours, infinities and NaNs. */
export function floatEdges(format: FloatFormat): bigint[] {
  const fractionBits = BigInt(format.fractionBits);
  const sign = 1n << BigInt(format.exponentBits) + fractionBits;
  const infinity = (1n << BigInt(format.exponentBits)) - 1n << fractionBits;
  const one = (1n << BigInt(format.exponentBits - 1)) - 1n << fractionBits;
  const smallestNormal = 1n << fractionBits;
  const quiet = 1n << fractionBits - 1n;
  const magnitudes = [
    0n,
    1n,
    smallestNormal - 1n,
    smallestNormal,
    smallestNormal + 1n,
    one - 1n,
    one,
    one + 1n,
    one + quiet,
    one + (fractionBits << fractionBits),
    infinity - 1n,
    infinity,
  ];
  return [...magnitudes.flatMap((magnitude) => [magnitude, magnitude | sign]), ...nanEdges()];

  function nanEdges(): bigint[] {
    return [infinity + 1n, infinity + quiet + 0x15n, sign | infinity | quiet, canonicalNaN(format)];
  }
}

/** The bits of floats: all of them, or near 1, where sums cancel and products stay in range. */
export function randomFloat(random: RandomBits, format: FloatFormat): bigint {
  const width = 1 + format.exponentBits + format.fractionBits;
  const bits = random.next(width);
  if (random.below(2) === 0) return bits;
  const fraction = bits & (1n << BigInt(format.fractionBits)) - 1n;
  const exponent = 2 ** (format.exponentBits - 1) - 3 + random.below(5);
  return bits & 1n << BigInt(width - 1) | BigInt(exponent) << BigInt(format.fractionBits) | fraction;
}

/**
 * Operands of a function: with two, every pair of edge cases first, with one, every edge case, and then mixtures.
 *
 * @returns one array for each operand
 */
export function mixedOperands(
  edges: readonly bigint[],
  random: () => bigint,
  { operands, mixtures, seed }: { operands: number; mixtures: number; seed: number },
): bigint[][] {
  const choice = new RandomBits(seed);
  const rows: bigint[][] = operands === 1
    ? edges.map((edge) => [edge])
    : edges.flatMap((a) => edges.map((b) => [a, b]));
  for (const row of rows) while (row.length < operands) row.push(pick());
  for (let index = 0; index < mixtures; index++) rows.push(Array.from({ length: operands }, pick));
  return Array.from({ length: operands }, (_, operand) => rows.map((row) => row[operand]!));

  function pick(): bigint {
    return choice.below(3) === 0 ? edges[choice.below(edges.length)]! : random();
  }
}

/** Integers of some bits. */
export function integerOperands(width: number, options: { operands: number; mixtures: number }): bigint[][] {
  const random = new RandomBits(width);
  return mixedOperands(integerEdges(width), () => random.next(width), { ...options, seed: width + 1 });
}

/** Floats of a format, as their bits. */
export function floatOperands(format: FloatFormat, options: { operands: number; mixtures: number }): bigint[][] {
  const random = new RandomBits(format.fractionBits);
  return mixedOperands(floatEdges(format), () => randomFloat(random, format), { ...options, seed: 5 });
}

export function words16(values: readonly bigint[]): Uint16Array {
  return Uint16Array.from(values, (value) => Number(BigInt.asUintN(16, value)));
}

export function words32(values: readonly bigint[]): Uint32Array {
  return Uint32Array.from(values, (value) => Number(BigInt.asUintN(32, value)));
}

export function words64(values: readonly bigint[]): BigUint64Array {
  return BigUint64Array.from(values, (value) => BigInt.asUintN(64, value));
}

/** The elements of a buffer as integers that are not negative. */
function elementsOf(contents: BufferContents): bigint[] {
  const width = 8 * contents.BYTES_PER_ELEMENT;
  return Array.from(contents as ArrayLike<number | bigint>, (element) => BigInt.asUintN(width, BigInt(element)));
}

/** A column of a table: a result as bits, of which as many are taken as the table's elements have. */
export type Column = (...operands: bigint[]) => bigint;

/** What one kernel computes of operands: it takes their buffers, one for the results, and the number of rows. */
export interface Table {
  readonly kernel: string;
  /** Each of as many elements as the table has rows. */
  readonly operands: readonly BufferContents[];
  /** Of a result, in bits. */
  readonly width: 16 | 32 | 64;
  readonly columns: readonly Column[];
}

/** A program of kernels that write tables. */
export function tableProgram(covers: string, tables: readonly Table[]): CorpusProgram {
  return {
    covers,
    buffers: () =>
      Object.fromEntries(tables.flatMap(({ kernel, operands, width, columns }) => [
        ...operands.map((operand, index) => [`${kernel}_operand_${index}`, operand.slice()] as const),
        [`${kernel}_results`, words(Array(operands[0]!.length * columns.length).fill(0n), width)] as const,
      ])),
    launches: tables.map(({ kernel, operands }) => launchOver(kernel, operands[0]!.length, operands.length)),
    expected: () =>
      Object.fromEntries(
        tables.map((table) => [`${table.kernel}_results`, words(resultsOf(table), table.width)]),
      ),
  };
}

function launchOver(kernel: string, rows: number, operands: number): CorpusLaunch {
  const names = Array.from({ length: operands }, (_, index) => `${kernel}_operand_${index}`);
  return { kernel, grid: Math.ceil(rows / 64), block: 64, arguments: [...names, `${kernel}_results`, rows] };
}

function resultsOf({ operands, columns }: Table): bigint[] {
  const inputs = operands.map(elementsOf);
  return inputs[0]!.flatMap((_, row) => {
    const values = inputs.map((input) => input[row]!);
    return columns.map((column) => column(...values));
  });
}

/** Values as elements of 16, 32 or 64 bits, of which they keep the low ones. */
export function words(values: readonly bigint[], width: 16 | 32 | 64): BufferContents {
  return width === 16 ? words16(values) : width === 32 ? words32(values) : words64(values);
}

/** The number whose bits are the low ones of an integer, in two's complement. */
export function signedOf(value: bigint, width: number): bigint {
  return BigInt.asIntN(width, value);
}

/** What kernels store in place of a NaN whose bits PTX leaves open. */
export const storedNaN = 1n;
