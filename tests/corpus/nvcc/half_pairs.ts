import { tableProgram, words32 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { half } from "../float_reference.ts";
import { narrowFloatOperands, narrowFloatPairColumns } from "../narrow_float_columns.ts";

export const program: CorpusProgram = tableProgram(
  "add, sub, mul, fma, neg, abs, min, max and set of .f16x2, with .sat and .relu",
  [{
    kernel: "compute_half_pairs",
    operands: narrowFloatOperands(half).paired.map(words32),
    width: 32,
    columns: narrowFloatPairColumns(half),
  }],
);
