import { type Column, floatOperands, storedNaN, type Table, tableProgram, words } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import {
  canonicalNaN,
  compareFloats,
  decode,
  double,
  type FloatFormat,
  isNaNBits,
  single,
} from "../float_reference.ts";

/** Returns the results of all comparisons and tests as bits. Ordered comparisons are false if an operand is a NaN. */
function relations(format: FloatFormat, a: bigint, b: bigint): bigint {
  const difference = compareFloats(format, [a, b]);
  const value = decode(format, a);
  const answers = [
    difference === 0,
    difference !== 0,
    difference === -1,
    difference === -1 || difference === 0,
    difference === 1,
    difference === 1 || difference === 0,
    difference === undefined,
    difference !== -1,
    difference !== 1 && difference !== 0,
    difference === -1 || difference === 1,
    value.kind === "nan",
    value.kind === "infinite",
    value.kind === "finite",
    a >> BigInt(format.exponentBits + format.fractionBits) === 1n,
  ];
  return answers.reduce((bits, holds, index) => holds ? bits | 1n << BigInt(index) : bits, 0n);
}

/** Returns the minimum or the maximum: a number rather than a NaN, and the zero with the matching sign. */
function extreme(format: FloatFormat, wanted: 1 | -1, nan: bigint): Column {
  return (a, b) => {
    if (isNaNBits(format, a!)) return isNaNBits(format, b!) ? nan : b!;
    const difference = compareFloats(format, [a!, b!]);
    if (difference === 0) return wanted === -1 ? (a! > b! ? a! : b!) : (a! < b! ? a! : b!);
    return difference === undefined || difference === wanted ? a! : b!;
  };
}

function comparisons(format: FloatFormat, { name, width }: { name: string; width: 32 | 64 }): Table {
  const sign = 1n << BigInt(width - 1);
  const nan = format === single ? canonicalNaN(format) : storedNaN;
  const unlessNaN = (column: Column): Column => (a) => isNaNBits(format, a!) ? storedNaN : column(a!);
  const property = (holds: (bits: bigint) => boolean): Column => (a) => holds(a! & sign - 1n) ? 1n : 0n;
  const infinity = canonicalNaN(format) >> BigInt(format.fractionBits) << BigInt(format.fractionBits);
  const smallestNormal = 1n << BigInt(format.fractionBits);
  const orUnordered = (holds: (difference: number) => boolean): Column => (a, b) => {
    const difference = compareFloats(format, [a!, b!]);
    return difference === undefined || holds(difference) ? 0xffff_ffffn : 0n;
  };
  const operands = floatOperands(format, { operands: 2, mixtures: 200 }).map((values) => words(values, width));
  const columns: Column[] = [
    (a, b) => relations(format, a!, b!),
    extreme(format, -1, nan),
    extreme(format, 1, nan),
    (a, b) => a! & sign - 1n | b! & sign,
    unlessNaN((a) => a! & sign - 1n),
    unlessNaN((a) => a! ^ sign),
    property((magnitude) => magnitude < infinity),
    property((magnitude) => magnitude === infinity),
    property((magnitude) => magnitude <= infinity),
    property((magnitude) => magnitude > infinity),
    // Zero counts as normal on the devices.
    property((magnitude) => magnitude === 0n || (magnitude >= smallestNormal && magnitude < infinity)),
    property((magnitude) => magnitude > 0n && magnitude < smallestNormal),
    orUnordered((difference) => difference === 0),
    orUnordered((difference) => difference !== 0),
    orUnordered((difference) => difference < 0),
    orUnordered((difference) => difference <= 0),
    orUnordered((difference) => difference > 0),
    orUnordered((difference) => difference >= 0),
    (a, b) => isNaNBits(format, a!) || isNaNBits(format, b!) ? 0n : 0xffff_ffffn,
    (a, b) => isNaNBits(format, a!) || isNaNBits(format, b!) ? 0xffff_ffffn : 0n,
  ];
  return { kernel: `compare_${name}`, operands, width, columns };
}

export const program: CorpusProgram = tableProgram(
  "setp and set of floats in every comparison, min, max, copysign, abs, neg and testp",
  [comparisons(single, { name: "single", width: 32 }), comparisons(double, { name: "double", width: 64 })],
);
