import { tableProgram, words16 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { bfloat16 } from "../float_reference.ts";
import { narrowFloatColumns, narrowFloatOperands } from "../narrow_float_columns.ts";

export const program: CorpusProgram = tableProgram(
  "add, sub, mul, fma, neg, abs, min, max, setp and set of .bf16, with .sat and .relu",
  [{
    kernel: "compute_bfloat16",
    operands: narrowFloatOperands(bfloat16).single.map(words16),
    width: 16,
    columns: narrowFloatColumns(bfloat16),
  }],
);
