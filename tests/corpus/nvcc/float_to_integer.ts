import { type Column, floatEdges, floatOperands, type Table, tableProgram, words } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import {
  convertToInteger,
  double,
  FloatArithmetic,
  type FloatFormat,
  fraction,
  type Rounding,
  roundings,
  single,
} from "../float_reference.ts";

/** Returns numbers near the ends of the integer types' ranges, and halfway between integers. */
function boundaries(format: FloatFormat): bigint[] {
  const toward = [new FloatArithmetic(format, "rm"), new FloatArithmetic(format, "rp")];
  const ends = [7n, 8n, 15n, 16n, 31n, 32n, 63n, 64n].map((width) => 1n << width);
  const halves = ends.flatMap((end) => [2n * end - 2n, 2n * end - 1n, 2n * end, 2n * end + 1n]);
  const numerators = [...halves, ...[1n, 3n, 5n, 7n, 255n, 257n]].flatMap((numerator) => [numerator, -numerator]);
  return numerators.flatMap((numerator) => toward.map((arithmetic) => arithmetic.round(fraction(numerator, 2n))));
}

function conversions(format: FloatFormat, { name, width }: { name: string; width: 32 | 64 }): Table {
  const [random] = floatOperands(format, { operands: 1, mixtures: 300 });
  const to = (type: string, rounding: Rounding, registerWidth = Number(type.slice(1))): Column => (bits) => {
    const options = { rounding, width: Number(type.slice(1)), signed: type[0] === "s" };
    const result = convertToInteger(format, bits!, options);
    return options.signed ? BigInt.asUintN(registerWidth, BigInt.asIntN(options.width, result)) : result;
  };
  const columns = [
    ...roundings.flatMap((rounding) => ["s32", "u32", "s64", "u64"].map((type) => to(type, rounding))),
    to("s16", "rn"),
    to("u16", "rz"),
    to("s16", "rm"),
    to("u16", "rp"),
    to("u8", "rn"),
    to("s8", "rz", 16),
    to("u8", "rm"),
    to("s8", "rp", 16),
  ];
  const values = [...floatEdges(format), ...boundaries(format), ...random!];
  return { kernel: `convert_${name}`, operands: [words(values, width)], width: 64, columns };
}

export const program: CorpusProgram = tableProgram(
  "cvt from .f32 and .f64 to every integer in .rni, .rzi, .rmi and .rpi",
  [conversions(single, { name: "single", width: 32 }), conversions(double, { name: "double", width: 64 })],
);
