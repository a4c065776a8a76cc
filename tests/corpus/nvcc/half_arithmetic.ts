import { tableProgram, words16 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { half } from "../float_reference.ts";
import { narrowFloatColumns, narrowFloatOperands } from "../narrow_float_columns.ts";

export const program: CorpusProgram = tableProgram(
  "add, sub, mul, fma, neg, abs, min, max, setp and set of .f16, with .sat and .relu",
  [{
    kernel: "compute_halves",
    operands: narrowFloatOperands(half).single.map(words16),
    width: 16,
    columns: narrowFloatColumns(half),
  }],
);
