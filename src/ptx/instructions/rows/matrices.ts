/**
 * The rows of products of matrices, which a warp computes together.
 *
 * @module
 */
import type { InstructionTraits } from "../instruction_traits.ts";
import { onFirstUse, row, type Rows } from "./row.ts";

/** The names of the instruction table's rows for products of matrices. */
export type MatrixProductName = "mma";

/** The traits of products of matrices: each thread has its own part of the operands and results. */
const product: InstructionTraits = { effects: [], synchronization: "lanes" };

/** Returns the instruction table's rows for products of matrices. */
export const matrixProductRows: () => Rows<MatrixProductName> = onFirstUse((): Rows<MatrixProductName> => ({
  mma: [
    row(
      "mma.sync.aligned.<shape:m16n8k8|m16n8k16>.row.col.<d:f16>.<a:f16>.<b:f16>.<c:f16> d, a, b, c",
      "9.7.14.5.14",
      product,
    ),
    row(
      "mma.sync.aligned.<shape:m16n8k8|m16n8k16>.row.col.<d:f32>.<a:f16>.<b:f16>.<c:f32> d, a, b, c",
      "9.7.14.5.14",
      product,
    ),
    row(
      "mma.sync.aligned.<shape:m16n8k8|m16n8k16>.row.col.<d:f32>.<a:bf16>.<b:bf16>.<c:f32> d, a, b, c",
      "9.7.14.5.14",
      product,
    ),
    row(
      "mma.sync.aligned.<shape:m16n8k4|m16n8k8>.row.col.<d:f32>.<a:tf32>.<b:tf32>.<c:f32> d, a, b, c",
      "9.7.14.5.14",
      product,
    ),
  ],
}));
