import { tableProgram, words32 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { bfloat16 } from "../float_reference.ts";
import { narrowFloatOperands, narrowFloatPairColumns } from "../narrow_float_columns.ts";

export const program: CorpusProgram = tableProgram(
  "add, sub, mul, fma, neg, abs, min, max and set of .bf16x2, with .sat and .relu",
  [{
    kernel: "compute_bfloat16_pairs",
    operands: narrowFloatOperands(bfloat16).paired.map(words32),
    width: 32,
    columns: narrowFloatPairColumns(bfloat16),
  }],
);
