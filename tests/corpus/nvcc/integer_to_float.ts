import { type Column, integerEdges, mixedOperands, RandomBits, tableProgram, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { double, FloatArithmetic, type FloatFormat, type Rounding, roundings, single } from "../float_reference.ts";

function from(type: string, format: FloatFormat, rounding: Rounding): Column {
  const arithmetic = new FloatArithmetic(format, rounding);
  const width = Number(type.slice(1));
  const number = type[0] === "s" ? BigInt.asIntN : BigInt.asUintN;
  return (bits) => arithmetic.fromInteger(number(width, bits!));
}

const types = ["s32", "u32", "s64", "u64"];
const narrow = (format: FloatFormat) => [from("s8", format, "rn"), from("u16", format, "rn")];
const random = new RandomBits(11);
/** Numbers halfway between two floats, and their neighbors. */
const middles = [24n, 25n, 40n, 53n, 54n, 62n].flatMap((place) => {
  const one = 1n << place;
  return [0n, 1n, 2n, 3n].flatMap((odd) => {
    const unit = place > 53n ? 1n << place - 53n : 1n << (place > 24n ? place - 24n : 0n);
    return [one + odd * unit, one + odd * unit + 1n, one + odd * unit - 1n, -(one + odd * unit)];
  });
});
const edges = [8, 16, 32, 64].flatMap(integerEdges).flatMap((value) => [value, -value]);
const [values] = mixedOperands([...edges, ...middles], () => random.next(64) >> BigInt(random.below(64)), {
  operands: 1,
  mixtures: 250,
  seed: 12,
});

export const program: CorpusProgram = tableProgram(
  "cvt from integers of 8 to 64 bits to .f32 and .f64 in .rn, .rz, .rm and .rp",
  [
    {
      kernel: "convert_to_single",
      operands: [words64(values!)],
      width: 32,
      columns: [
        ...roundings.flatMap((rounding) => types.map((type) => from(type, single, rounding))),
        ...narrow(single),
      ],
    },
    {
      kernel: "convert_to_double",
      operands: [words64(values!)],
      width: 64,
      columns: [
        from("s32", double, "rn"),
        from("u32", double, "rn"),
        ...roundings.flatMap((rounding) => ["s64", "u64"].map((type) => from(type, double, rounding))),
        ...narrow(double),
      ],
    },
  ],
);
