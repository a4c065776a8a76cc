import {
  type Column,
  floatEdges,
  floatOperands,
  integerEdges,
  RandomBits,
  storedNaN,
  tableProgram,
  words16,
  words32,
  words64,
} from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import {
  convertToInteger,
  decode,
  double,
  FloatArithmetic,
  type FloatFormat,
  half,
  isNaNBits,
  type Rounding,
  roundings,
  roundToInteger,
  single,
} from "../float_reference.ts";

const stored = (format: FloatFormat, bits: bigint) => isNaNBits(format, bits) ? storedNaN : bits;
const narrowed = (from: FloatFormat, rounding: Rounding): Column => (bits) =>
  stored(half, new FloatArithmetic(half, rounding).convertFrom(from, bits!));

function fromInteger(type: string, rounding: Rounding): Column {
  const asType = type[0] === "s" ? BigInt.asIntN : BigInt.asUintN;
  const arithmetic = new FloatArithmetic(half, rounding);
  return (bits) => arithmetic.fromInteger(asType(Number(type.slice(1)), bits!));
}

const toInteger = (type: string, rounding: Rounding): Column => (bits) =>
  convertToInteger(half, bits!, { rounding, width: Number(type.slice(1)), signed: type[0] === "s" });

const integral = (rounding: Rounding): Column => (bits) => {
  const value = decode(half, bits!);
  if (value.kind !== "finite") return stored(half, bits!);
  const integer = roundToInteger(value, rounding);
  const magnitude = new FloatArithmetic(half).fromInteger(integer < 0n ? -integer : integer);
  return value.negative ? magnitude | 0x8000n : magnitude;
};

/** Returns numbers of a wider format that are equal to halves, halfway between two, and next to these. */
function nearHalves(format: FloatFormat): bigint[] {
  const random = new RandomBits(31);
  const width = BigInt(format.fractionBits - half.fractionBits);
  const tails = [0n, 1n, (1n << width - 1n) - 1n, 1n << width - 1n, (1n << width - 1n) + 1n, (1n << width) - 1n];
  const halves = [...floatEdges(half), ...Array.from({ length: 60 }, () => random.next(16))];
  return halves.filter((bits) => !isNaNBits(half, bits)).flatMap((bits) => {
    const wide = new FloatArithmetic(format).convertFrom(half, bits);
    return tails.map((tail) => wide + tail);
  });
}

const types = ["s32", "u32", "s16", "u16", "s64", "u64"];
const random = new RandomBits(32);
const integers = [
  ...[8, 16, 32, 64].flatMap(integerEdges).flatMap((value) => [value, -value]),
  ...[65503n, 65504n, 65505n, 65519n, 65520n, 65521n, 2049n, 2050n, 2051n, 4098n, 4102n],
  ...Array.from({ length: 200 }, () => random.next(64) >> BigInt(random.below(64))),
];
const [singles] = floatOperands(single, { operands: 1, mixtures: 100 });
const [doubles] = floatOperands(double, { operands: 1, mixtures: 100 });
const everyOtherHalf = Array.from({ length: 1024 }, (_, index) => BigInt(index * 64 + index % 64));

export const program: CorpusProgram = tableProgram(
  "cvt between .f16 and every other type, with .rn, .rz, .rm and .rp to it and .rni, .rzi, .rmi and .rpi from it",
  [
    {
      kernel: "singles_to_halves",
      operands: [words32([...singles!, ...nearHalves(single)])],
      width: 16,
      columns: roundings.map((rounding) => narrowed(single, rounding)),
    },
    {
      kernel: "doubles_to_halves",
      operands: [words64([...doubles!, ...nearHalves(double)])],
      width: 16,
      columns: [narrowed(double, "rn")],
    },
    {
      kernel: "integers_to_halves",
      operands: [words64(integers)],
      width: 16,
      columns: types.flatMap((type) => roundings.map((rounding) => fromInteger(type, rounding))),
    },
    {
      kernel: "halves_to_others",
      operands: [words16([...floatEdges(half), ...everyOtherHalf])],
      width: 64,
      columns: [
        ...types.flatMap((type) => roundings.map((rounding) => toInteger(type, rounding))),
        (bits) => stored(single, new FloatArithmetic(single).convertFrom(half, bits!)),
        integral("rm"),
        integral("rp"),
        integral("rz"),
        integral("rn"),
      ],
    },
  ],
);
