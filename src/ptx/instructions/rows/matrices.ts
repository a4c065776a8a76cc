/**
 * The rows of products of matrices, which a warp computes together.
 *
 * @module
 */
import type { InstructionRow, InstructionTraits } from "../instruction_traits.ts";
import { onFirstUse, row, type Rows } from "./row.ts";

/** The names of the instruction table's rows for products of matrices. */
export type MatrixProductName = "mma" | "mma.quads" | "mma.sp" | `wmma.${"load" | "store" | "mma"}`;

/** The traits of products of matrices: each thread has its own part of the operands and results. */
const product: InstructionTraits = { effects: [], synchronization: "lanes" };

/** The floating-point types of `mma`: those of D, A, B and C, and the shapes without and with a sparse A. */
const floats: readonly (readonly [types: string, shapes: string, sparseShapes: string])[] = [
  ["<d:f16>.<a:f16>.<b:f16>.<c:f16>", "m16n8k8|m16n8k16", "m16n8k16|m16n8k32"],
  ["<d:f32>.<a:f16>.<b:f16>.<c:f32>", "m16n8k8|m16n8k16", "m16n8k16|m16n8k32"],
  ["<d:f32>.<a:bf16>.<b:bf16>.<c:f32>", "m16n8k8|m16n8k16", "m16n8k16|m16n8k32"],
  ["<d:f32>.<a:tf32>.<b:tf32>.<c:f32>", "m16n8k4|m16n8k8", "m16n8k8|m16n8k16"],
  ["<d:f16>.<a:e4m3|e5m2>.<b:e4m3|e5m2>.<c:f16>", "m16n8k16|m16n8k32", ""],
  ["<d:f32>.<a:e4m3|e5m2>.<b:e4m3|e5m2>.<c:f32>", "m16n8k16|m16n8k32", "m16n8k64"],
];
/** The integer types of `mma`, and the shapes. */
const integers: typeof floats = [
  ["<d:s32>.<a:s8|u8>.<b:s8|u8>.<c:s32>", "m8n8k16|m16n8k16|m16n8k32", "m16n8k32|m16n8k64"],
  ["<d:s32>.<a:s4|u4>.<b:s4|u4>.<c:s32>", "m8n8k32|m16n8k32|m16n8k64", "m16n8k64|m16n8k128"],
];

const space = "<space:global|shared|shared::cta>?";
const layout = "<layout:row|col>";
const shapes = { usual: "m16n16k16|m8n32k16|m32n8k16", tf32: "m16n16k8", f64: "m8n8k4", s4: "m8n8k32", b1: "m8n8k128" };
/** The fragments that `wmma.load` loads: which matrix, its layout, the shapes and the elements. */
const loaded: readonly (readonly [matrix: string, layout: string, shapes: string, elements: string])[] = [
  ["a|b", layout, shapes.usual, "f16|bf16|s8|u8"],
  ["a|b", layout, shapes.tf32, "tf32"],
  ["a|b", layout, shapes.f64, "f64"],
  ["a", "row", shapes.s4, "s4|u4"],
  ["b", "col", shapes.s4, "s4|u4"],
  ["a", "row", shapes.b1, "b1"],
  ["b", "col", shapes.b1, "b1"],
];
/** The elements of C and D, and the shapes. */
const accumulators: readonly (readonly [shapes: string, elements: string])[] = [
  [shapes.usual, "f16|f32|s32"],
  [shapes.tf32, "f32"],
  [shapes.f64, "f64"],
  [`${shapes.s4}|${shapes.b1}`, "s32"],
];
const loads: InstructionTraits = { effects: ["reads", "observes"], synchronization: "lanes" };
const stores: InstructionTraits = { effects: ["writes"], synchronization: "lanes" };

/** Returns the instruction table's rows for products of matrices. */
export const matrixProductRows: () => Rows<MatrixProductName> = onFirstUse((): Rows<MatrixProductName> => {
  const dense = (syntax: string): InstructionRow =>
    row(`mma.sync.aligned.${syntax} d, a, b, c`, "9.7.14.5.14", product);
  const sparse = (syntax: string): InstructionRow => {
    const metadata = "<metadata:sp|sp::ordered_metadata>";
    return row(`mma.${metadata}.sync.aligned.${syntax} d, a, b, c, e, selector`, "9.7.14.6.3", product);
  };
  const fragments = (syntax: string): InstructionRow => row(`wmma.mma.${syntax} d, a, b, c`, "9.7.14.4", product);
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
      ...floats.filter(([, , shapes]) => shapes !== "").map(([types, , shapes]) =>
        sparse(`<shape:${shapes}>.row.col.${types}`)
      ),
      ...integers.map(([types, , shapes]) => sparse(`<shape:${shapes}>.row.col.satfinite?.${types}`)),
    ],
    "wmma.load": [
      ...loaded.map(([matrix, layout, shapes, elements]) => {
        const syntax = `wmma.load.<matrix:${matrix}>.sync.aligned.${layout}.<shape:${shapes}>.${space}`;
        return row(`${syntax}.<element:${elements}> d, [a] [, stride]`, "9.7.14.4", loads);
      }),
      ...accumulators.map(([shapes, elements]) => {
        const syntax = `wmma.load.<matrix:c>.sync.aligned.${layout}.<shape:${shapes}>.${space}`;
        return row(`${syntax}.<element:${elements}> d, [a] [, stride]`, "9.7.14.4", loads);
      }),
    ],
    "wmma.store": accumulators.map(([shapes, elements]) => {
      const syntax = `wmma.store.<matrix:d>.sync.aligned.${layout}.<shape:${shapes}>.${space}`;
      return row(`${syntax}.<element:${elements}> [a], b [, stride]`, "9.7.14.4", stores);
    }),
    "wmma.mma": [
      ...[
        `<shape:${shapes.usual}>.<d:f16|f32>.<c:f16|f32>`,
        `<shape:${shapes.usual}>.<d:f32>.<a:bf16>.<b:bf16>.<c:f32>`,
        `<shape:${shapes.tf32}>.<d:f32>.<a:tf32>.<b:tf32>.<c:f32>`,
        `<shape:${shapes.f64}>.<rounding:rn|rz|rm|rp>?.<d:f64>.<a:f64>.<b:f64>.<c:f64>`,
        `<shape:${shapes.usual}>.<d:s32>.<a:s8>.<b:s8>.<c:s32>.satfinite?`,
        `<shape:${shapes.usual}>.<d:s32>.<a:u8>.<b:u8>.<c:s32>.satfinite?`,
      ].map((rest) => fragments(`sync.aligned.<aLayout:row|col>.<bLayout:row|col>.${rest}`)),
      fragments(`sync.aligned.row.col.<shape:${shapes.s4}>.<d:s32>.<a:s4>.<b:s4>.<c:s32>.satfinite?`),
      fragments(`sync.aligned.row.col.<shape:${shapes.s4}>.<d:s32>.<a:u4>.<b:u4>.<c:s32>.satfinite?`),
      fragments(`<operation:xor|and>.popc.sync.aligned.row.col.<shape:${shapes.b1}>.<d:s32>.<a:b1>.<b:b1>.<c:s32>`),
    ],
  };
});
