import {
  type Column,
  floatEdges,
  floatOperands,
  RandomBits,
  storedNaN,
  tableProgram,
  words32,
  words64,
} from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import {
  decode,
  double,
  FloatArithmetic,
  type FloatFormat,
  flushed,
  isNaNBits,
  type Rounding,
  roundToInteger,
  saturated,
  single,
} from "../float_reference.ts";

const toSingle = (rounding: Rounding) => new FloatArithmetic(single, rounding);
const toDouble = new FloatArithmetic(double);
const stored = (format: FloatFormat, column: Column): Column => (bits) => {
  const result = column(bits!);
  return isNaNBits(format, result) ? storedNaN : result;
};
const narrowed = (rounding: Rounding): Column => (bits) => toSingle(rounding).convertFrom(double, bits!);
const half = toDouble.divide(toDouble.fromInteger(1n), toDouble.fromInteger(2n));

/** Rounds a single to an integer, which is also a single. */
function integral(bits: bigint, rounding: Rounding): bigint {
  const value = decode(single, bits);
  if (value.kind !== "finite") return bits;
  const magnitude = roundToInteger(value, rounding);
  return toSingle("rn").round({
    kind: "finite",
    negative: value.negative,
    numerator: magnitude < 0n ? -magnitude : magnitude,
    denominator: 1n,
  });
}

/** Returns doubles near subnormal and maximum singles, with low bits that decide the rounding. */
function nearSingles(): bigint[] {
  const random = new RandomBits(21);
  const tails = [0n, 1n, (1n << 28n) - 1n, 1n << 28n, (1n << 28n) + 1n, (1n << 29n) - 1n];
  return floatEdges(single).filter((bits) => !isNaNBits(single, bits)).flatMap((bits) => {
    const wide = toDouble.convertFrom(single, bits);
    return [...tails, random.next(29)].map((tail) => wide + tail);
  });
}

const [doubles] = floatOperands(double, { operands: 1, mixtures: 200 });
const [singles] = floatOperands(single, { operands: 1, mixtures: 200 });

export const program: CorpusProgram = tableProgram(
  "cvt between .f32 and .f64 in .rn, .rz, .rm and .rp, with .sat and .ftz, and from .f32 to itself",
  [
    {
      kernel: "narrow",
      operands: [words64([...doubles!, ...nearSingles()])],
      width: 32,
      columns: [
        ...(["rn", "rz", "rm", "rp"] as const).map((rounding) => stored(single, narrowed(rounding))),
        (bits) => saturated(single, narrowed("rn")(bits!)),
        (bits) => saturated(single, narrowed("rp")(bits!)),
        stored(single, (bits) => flushed(single, narrowed("rz")(bits!))),
        stored(
          single,
          (bits) => toSingle("rn").multiply(narrowed("rn")(bits!), toSingle("rn").convertFrom(double, half)),
        ),
      ],
    },
    {
      kernel: "widen",
      operands: [words32(singles!)],
      width: 64,
      columns: [
        stored(double, (bits) => toDouble.convertFrom(single, bits!)),
        stored(double, (bits) => toDouble.convertFrom(single, flushed(single, bits!))),
        (bits) => saturated(double, toDouble.convertFrom(single, bits!)),
        (bits) => saturated(single, bits!),
        stored(single, (bits) => integral(flushed(single, bits!), "rn")),
        (bits) => saturated(single, integral(bits!, "rp")),
      ],
    },
  ],
);
