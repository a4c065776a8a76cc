/**
 * The rows of products of matrices, which a warp computes together.
 *
 * @module
 */
import type { InstructionRow, InstructionTraits } from "../instruction_traits.ts";
import { onFirstUse, row, type Rows } from "./row.ts";

/** The names of the instruction table's rows for products of matrices. */
export type MatrixProductName = "mma" | "mma.quads" | "mma.sp";

/** The traits of products of matrices: each thread has its own part of the operands and results. */
const product: InstructionTraits = { effects: [], synchronization: "lanes" };

/** The floating-point types of `mma`: those of D, A, B and C, and the shapes with and without a sparse A. */
const floats: readonly (readonly [types: string, shapes: string, sparseShapes: string])[] = [
  ["<d:f16>.<a:f16>.<b:f16>.<c:f16>", "m16n8k8|m16n8k16", "m16n8k16|m16n8k32"],
  ["<d:f32>.<a:f16>.<b:f16>.<c:f32>", "m16n8k8|m16n8k16", "m16n8k16|m16n8k32"],
  ["<d:f32>.<a:bf16>.<b:bf16>.<c:f32>", "m16n8k8|m16n8k16", "m16n8k16|m16n8k32"],
  ["<d:f32>.<a:tf32>.<b:tf32>.<c:f32>", "m16n8k4|m16n8k8", "m16n8k8|m16n8k16"],
  ["<d:f16>.<a:e4m3|e5m2>.<b:e4m3|e5m2>.<c:f16>", "m16n8k16|m16n8k32", "m16n8k64"],
  ["<d:f32>.<a:e4m3|e5m2>.<b:e4m3|e5m2>.<c:f32>", "m16n8k16|m16n8k32", "m16n8k64"],
];
/** The integer types of `mma`, and the shapes. */
const integers: typeof floats = [
  ["<d:s32>.<a:s8|u8>.<b:s8|u8>.<c:s32>", "m8n8k16|m16n8k16|m16n8k32", "m16n8k32|m16n8k64"],
  ["<d:s32>.<a:s4|u4>.<b:s4|u4>.<c:s32>", "m8n8k32|m16n8k32|m16n8k64", "m16n8k64|m16n8k128"],
];

/** Returns the instruction table's rows for products of matrices. */
export const matrixProductRows: () => Rows<MatrixProductName> = onFirstUse((): Rows<MatrixProductName> => {
  const dense = (syntax: string): InstructionRow =>
    row(`mma.sync.aligned.${syntax} d, a, b, c`, "9.7.14.5.14", product);
  const sparse = (syntax: string): InstructionRow => {
    const metadata = "<metadata:sp|sp::ordered_metadata>";
    return row(`mma.${metadata}.sync.aligned.${syntax} d, a, b, c, e, selector`, "9.7.14.6.3", product);
  };
  return {
    mma: [
      ...floats.map(([types, shapes]) => dense(`<shape:${shapes}>.row.col.${types}`)),
      ...integers.map(([types, shapes]) => dense(`<shape:${shapes}>.row.col.satfinite?.${types}`)),
      dense(
        "<shape:m8n8k4|m16n8k4|m16n8k8|m16n8k16>.row.col.<rounding:rn|rz|rm|rp>?.<d:f64>.<a:f64>.<b:f64>.<c:f64>",
      ),
      dense("<shape:m8n8k128|m16n8k128|m16n8k256>.row.col.<d:s32>.<a:b1>.<b:b1>.<c:s32>.<operation:xor|and>.popc"),
    ],
    "mma.quads": ["<d:f16>.<a:f16>.<b:f16>.<c:f16>", "<d:f32>.<a:f16>.<b:f16>.<c:f16|f32>"].map((types) =>
      dense(`<shape:m8n8k4>.<aLayout:row|col>.<bLayout:row|col>.${types}`)
    ),
    "mma.sp": [
      ...floats.map(([types, , shapes]) => sparse(`<shape:${shapes}>.row.col.${types}`)),
      ...integers.map(([types, , shapes]) => sparse(`<shape:${shapes}>.row.col.satfinite?.${types}`)),
    ],
  };
});
