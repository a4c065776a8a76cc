import { type Column, integerOperands, signedOf, tableProgram, words32 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

type Lane = (...operands: bigint[]) => bigint;
type Type = "s8" | "u8" | "s16" | "u16";

const widthOf = (type: Type) => Number(type.slice(1));

/** Returns the numbers in a word, the lowest first. */
function lanesOf(word: bigint, type: Type): bigint[] {
  const width = widthOf(type);
  return Array.from({ length: 32 / width }, (_, index) => {
    const bits = word >> BigInt(width * index);
    return type[0] === "s" ? BigInt.asIntN(width, bits) : BigInt.asUintN(width, bits);
  });
}

/** Computes each lane, and keeps as many low bits of the result as the lane has. */
function inLanes(type: Type, compute: Lane): Column {
  const width = widthOf(type);
  return (...words) => {
    const operands = words.map((word) => lanesOf(word, type));
    return operands[0]!.reduceRight((result, _, index) => {
      const lane = compute(...operands.map((lanes) => lanes[index]!));
      return result << BigInt(width) | BigInt.asUintN(width, lane);
    }, 0n);
  };
}

const minimum = (a: bigint, b: bigint) => a < b ? a : b;
const maximum = (a: bigint, b: bigint) => a > b ? a : b;
const magnitude = (value: bigint) => value < 0n ? -value : value;

function saturating(type: Type, compute: Lane): Column {
  const bits = BigInt(widthOf(type));
  const [least, most] = type[0] === "s" ? [-(1n << bits - 1n), (1n << bits - 1n) - 1n] : [0n, (1n << bits) - 1n];
  return inLanes(type, (...operands) => minimum(maximum(compute(...operands), least), most));
}

const mask = (type: Type, compare: (a: bigint, b: bigint) => boolean): Column =>
  inLanes(type, (a, b) => compare(a!, b!) ? -1n : 0n);
const flag = (type: Type, compare: (a: bigint, b: bigint) => boolean): Column =>
  inLanes(type, (a, b) => compare(a!, b!) ? 1n : 0n);
const sumOfDifferences = (type: Type): Column => (a, b) => {
  const others = lanesOf(b!, type);
  return lanesOf(a!, type).reduce((sum, lane, index) => sum + magnitude(lane - others[index]!), 0n);
};

export const program: CorpusProgram = tableProgram("CUDA's SIMD intrinsics on the bytes and halves of words", [{
  kernel: "lanes_in_words",
  operands: integerOperands(32, { operands: 3, mixtures: 250 }).map(words32),
  width: 32,
  columns: [
    inLanes("u16", (a, b) => a! + b!),
    inLanes("u8", (a, b) => a! + b!),
    inLanes("u16", (a, b) => a! - b!),
    inLanes("u8", (a, b) => a! - b!),
    saturating("s16", (a, b) => a! + b!),
    saturating("u8", (a, b) => a! + b!),
    saturating("s8", (a, b) => a! - b!),
    saturating("u16", (a, b) => a! - b!),
    inLanes("u8", (a, b) => magnitude(a! - b!)),
    inLanes("s16", (a, b) => magnitude(a! - b!)),
    inLanes("s8", (a) => magnitude(a!)),
    saturating("s16", (a) => magnitude(a!)),
    inLanes("s16", (a) => -a!),
    saturating("s8", (a) => -a!),
    inLanes("s16", (a, b) => maximum(a!, b!)),
    inLanes("u8", (a, b) => maximum(a!, b!)),
    inLanes("s8", (a, b) => minimum(a!, b!)),
    inLanes("u16", (a, b) => minimum(a!, b!)),
    mask("u8", (a, b) => a === b),
    mask("s16", (a, b) => a > b),
    mask("u8", (a, b) => a <= b),
    mask("s8", (a, b) => a >= b),
    flag("u8", (a, b) => a < b),
    flag("u16", (a, b) => a !== b),
    sumOfDifferences("u8"),
    sumOfDifferences("s16"),
    inLanes("u8", (a, b) => a! + b! + 1n >> 1n),
    inLanes("u16", (a, b) => a! + b! >> 1n),
    inLanes("s16", (a, b) => maximum(maximum(a!, b!), 0n)),
    inLanes("u16", (a, b, c) => minimum(BigInt.asUintN(16, a! + b!), c!)),
    (a, b, c) => maximum(maximum(signedOf(a!, 32), signedOf(b!, 32)), signedOf(c!, 32)),
    (a, b, c) => maximum(maximum(signedOf(a! + b!, 32), signedOf(c!, 32)), 0n),
  ],
}]);
