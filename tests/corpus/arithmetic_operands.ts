/**
 * Operands for the arithmetic of the corpus, with edge cases, and tables of results. In a table's kernel, each thread
 * takes the operands at its index and writes its results, a row of columns, contiguously.
 */
import type { BufferContents, CorpusLaunch, CorpusProgram } from "./corpus_program.ts";
import { canonicalNaN, type FloatFormat } from "./float_reference.ts";

/** A pseudorandom number generator that returns the same sequence for a seed: SplitMix64. */
export class RandomBits {
  #state: bigint;

  constructor(seed: number) {
    this.#state = BigInt(seed);
  }

  /** Returns an integer of up to 64 bits. */
  next(width: number): bigint {
    this.#state = BigInt.asUintN(64, this.#state + 0x9e37_79b9_7f4a_7c15n);
    let mixed = this.#state;
    mixed = BigInt.asUintN(64, (mixed ^ mixed >> 30n) * 0xbf58_476d_1ce4_e5b9n);
    mixed = BigInt.asUintN(64, (mixed ^ mixed >> 27n) * 0x94d0_49bb_1331_11ebn);
    return (mixed ^ mixed >> 31n) >> BigInt(64 - width);
  }

  /** Returns an integer from 0 up to, but not including, a bound. */
  below(bound: number): number {
    return Number(this.next(48) % BigInt(bound));
  }

  /** Returns a number from 0 up to, but not including, 1, with 48 bits. */
  fraction(): number {
    return Number(this.next(48)) / 2 ** 48;
  }
}

/** Returns the edge cases of integers: 0, 1, all ones, the highest bit alone, and their neighbors. */
export function integerEdges(width: number): bigint[] {
  const highest = 1n << BigInt(width - 1);
  const all = 2n * highest - 1n;
  const halfway = 1n << BigInt(width / 2);
  return [0n, 1n, 2n, 7n, all, all - 1n, highest, highest - 1n, highest + 1n, halfway, halfway - 1n, halfway >> 1n];
}

/**
 * Returns the edge cases of a format: zeros, subnormal numbers, the smallest and largest normal numbers, 1 and its
 * neighbors, infinities and NaNs.
 */
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

/** Returns the bits of a random float: any bits, or a number near 1, where sums cancel and products stay in range. */
export function randomFloat(random: RandomBits, format: FloatFormat): bigint {
  const width = 1 + format.exponentBits + format.fractionBits;
  const bits = random.next(width);
  if (random.below(2) === 0) return bits;
  const fraction = bits & (1n << BigInt(format.fractionBits)) - 1n;
  const exponent = 2 ** (format.exponentBits - 1) - 3 + random.below(5);
  return bits & 1n << BigInt(width - 1) | BigInt(exponent) << BigInt(format.fractionBits) | fraction;
}

/**
 * Returns the operands of a function: first all edge cases of one operand, or all pairs of edge cases of two, then
 * mixtures of edge cases and random values.
 *
 * @returns One array for each operand.
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

/** Returns integers of a width. */
export function integerOperands(width: number, options: { operands: number; mixtures: number }): bigint[][] {
  const random = new RandomBits(width);
  return mixedOperands(integerEdges(width), () => random.next(width), { ...options, seed: width + 1 });
}

/** Returns the bits of floats of a format. */
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

/** Returns the elements of a buffer as unsigned integers. */
function elementsOf(contents: BufferContents): bigint[] {
  const width = 8 * contents.BYTES_PER_ELEMENT;
  return Array.from(contents as ArrayLike<number | bigint>, (element) => BigInt.asUintN(width, BigInt(element)));
}

/** A column of a table: the bits of a result. The table stores as many low bits as its elements have. */
export type Column = (...operands: bigint[]) => bigint;

/**
 * The results of one kernel. Its parameters are the buffers of operands, the buffer of results, and the number of rows.
 */
export interface Table {
  readonly kernel: string;
  /** One buffer for each operand, with an element for each row. */
  readonly operands: readonly BufferContents[];
  /** The width of a result in bits. */
  readonly width: 16 | 32 | 64;
  readonly columns: readonly Column[];
}

/** Returns a program whose kernels write tables. */
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

/** Returns the low bits of values as elements of 16, 32 or 64 bits. */
export function words(values: readonly bigint[], width: 16 | 32 | 64): BufferContents {
  return width === 16 ? words16(values) : width === 32 ? words32(values) : words64(values);
}

/** Returns the low bits of an integer as a number in two's complement. */
export function signedOf(value: bigint, width: number): bigint {
  return BigInt.asIntN(width, value);
}

/** What kernels store in place of a NaN whose bits PTX does not define. */
export const storedNaN = 1n;
