/**
 * The binary encoding of WebAssembly types and instructions.
 *
 * @see https://webassembly.github.io/spec/core/binary/index.html
 *
 * @module
 */
import type { ScalarType } from "../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "./code_writer.ts";

/** The type of a WebAssembly value. */
export type ValueType = "i32" | "i64" | "f32" | "f64";
/** The type of a local: a number or a vector. */
export type LocalType = ValueType | "v128";

/** The binary codes of value types. */
export const valueTypeCodes: Readonly<Record<LocalType, number>> = {
  i32: 0x7f,
  i64: 0x7e,
  f32: 0x7d,
  f64: 0x7c,
  v128: 0x7b,
};

/** Opcodes of instructions without immediates. */
export const op = {
  unreachable: [0x00],
  drop: [0x1a],
  select: [0x1b],
  return: [0x0f],
  i32Eqz: [0x45],
  i32Eq: [0x46],
  i32Ne: [0x47],
  i32LtS: [0x48],
  i32LtU: [0x49],
  i32GtS: [0x4a],
  i32GtU: [0x4b],
  i32LeS: [0x4c],
  i32LeU: [0x4d],
  i32GeS: [0x4e],
  i32GeU: [0x4f],
  i64Eqz: [0x50],
  i64Eq: [0x51],
  i64Ne: [0x52],
  i64LtS: [0x53],
  i64LtU: [0x54],
  i64GtS: [0x55],
  i64GtU: [0x56],
  i64LeS: [0x57],
  i64LeU: [0x58],
  i64GeS: [0x59],
  i64GeU: [0x5a],
  f32Eq: [0x5b],
  f32Ne: [0x5c],
  f32Lt: [0x5d],
  f32Gt: [0x5e],
  f32Le: [0x5f],
  f32Ge: [0x60],
  f64Eq: [0x61],
  f64Ne: [0x62],
  f64Lt: [0x63],
  f64Gt: [0x64],
  f64Le: [0x65],
  f64Ge: [0x66],
  i32Clz: [0x67],
  i32Ctz: [0x68],
  i32Popcnt: [0x69],
  i32Add: [0x6a],
  i32Sub: [0x6b],
  i32Mul: [0x6c],
  i32DivS: [0x6d],
  i32DivU: [0x6e],
  i32RemS: [0x6f],
  i32RemU: [0x70],
  i32And: [0x71],
  i32Or: [0x72],
  i32Xor: [0x73],
  i32Shl: [0x74],
  i32ShrS: [0x75],
  i32ShrU: [0x76],
  i32Rotl: [0x77],
  i32Rotr: [0x78],
  i64Clz: [0x79],
  i64Ctz: [0x7a],
  i64Popcnt: [0x7b],
  i64Add: [0x7c],
  i64Sub: [0x7d],
  i64Mul: [0x7e],
  i64DivS: [0x7f],
  i64DivU: [0x80],
  i64RemS: [0x81],
  i64RemU: [0x82],
  i64And: [0x83],
  i64Or: [0x84],
  i64Xor: [0x85],
  i64Shl: [0x86],
  i64ShrS: [0x87],
  i64ShrU: [0x88],
  i64Rotl: [0x89],
  i64Rotr: [0x8a],
  f32Abs: [0x8b],
  f32Neg: [0x8c],
  f32Ceil: [0x8d],
  f32Floor: [0x8e],
  f32Trunc: [0x8f],
  f32Nearest: [0x90],
  f32Sqrt: [0x91],
  f32Add: [0x92],
  f32Sub: [0x93],
  f32Mul: [0x94],
  f32Div: [0x95],
  f32Min: [0x96],
  f32Max: [0x97],
  f32Copysign: [0x98],
  f64Abs: [0x99],
  f64Neg: [0x9a],
  f64Ceil: [0x9b],
  f64Floor: [0x9c],
  f64Trunc: [0x9d],
  f64Nearest: [0x9e],
  f64Sqrt: [0x9f],
  f64Add: [0xa0],
  f64Sub: [0xa1],
  f64Mul: [0xa2],
  f64Div: [0xa3],
  f64Min: [0xa4],
  f64Max: [0xa5],
  f64Copysign: [0xa6],
  i32WrapI64: [0xa7],
  i64ExtendI32S: [0xac],
  i64ExtendI32U: [0xad],
  f32ConvertI32S: [0xb2],
  f32ConvertI32U: [0xb3],
  f32ConvertI64S: [0xb4],
  f32ConvertI64U: [0xb5],
  f32DemoteF64: [0xb6],
  f64ConvertI32S: [0xb7],
  f64ConvertI32U: [0xb8],
  f64ConvertI64S: [0xb9],
  f64ConvertI64U: [0xba],
  f64PromoteF32: [0xbb],
  i32ReinterpretF32: [0xbc],
  i64ReinterpretF64: [0xbd],
  f32ReinterpretI32: [0xbe],
  f64ReinterpretI64: [0xbf],
  i32Extend8S: [0xc0],
  i32Extend16S: [0xc1],
  i64Extend8S: [0xc2],
  i64Extend16S: [0xc3],
  i64Extend32S: [0xc4],
  i32TruncSatF32S: [0xfc, 0],
  i32TruncSatF32U: [0xfc, 1],
  i32TruncSatF64S: [0xfc, 2],
  i32TruncSatF64U: [0xfc, 3],
  i64TruncSatF32S: [0xfc, 4],
  i64TruncSatF32U: [0xfc, 5],
  i64TruncSatF64S: [0xfc, 6],
  i64TruncSatF64U: [0xfc, 7],
} as const;

/** The name of an instruction without immediates. */
export type OpName = keyof typeof op;

/** Loads and stores: the opcode, and the binary logarithm of the alignment in bytes. */
export const memoryOp = {
  i32Load: [0x28, 2],
  i64Load: [0x29, 3],
  f32Load: [0x2a, 2],
  f64Load: [0x2b, 3],
  i32Load8S: [0x2c, 0],
  i32Load8U: [0x2d, 0],
  i32Load16S: [0x2e, 1],
  i32Load16U: [0x2f, 1],
  i32Store: [0x36, 2],
  i64Store: [0x37, 3],
  f32Store: [0x38, 2],
  f64Store: [0x39, 3],
  i32Store8: [0x3a, 0],
  i32Store16: [0x3b, 1],
} as const;

/** The name of a load or a store. */
export type MemoryOpName = keyof typeof memoryOp;

/** Atomic instructions: the opcode after the prefix byte, and the binary logarithm of the alignment in bytes. */
export const atomicOp = {
  i32AtomicLoad: [0x10, 2],
  i64AtomicLoad: [0x11, 3],
  i32AtomicLoad8U: [0x12, 0],
  i32AtomicLoad16U: [0x13, 1],
  i32AtomicStore: [0x17, 2],
  i64AtomicStore: [0x18, 3],
  i32AtomicStore8: [0x19, 0],
  i32AtomicStore16: [0x1a, 1],
  i32AtomicAdd: [0x1e, 2],
  i64AtomicAdd: [0x1f, 3],
  i32AtomicAnd: [0x2c, 2],
  i64AtomicAnd: [0x2d, 3],
  i32AtomicOr: [0x33, 2],
  i64AtomicOr: [0x34, 3],
  i32AtomicXor: [0x3a, 2],
  i64AtomicXor: [0x3b, 3],
  i32AtomicExchange: [0x41, 2],
  i64AtomicExchange: [0x42, 3],
  i32AtomicCompareExchange: [0x48, 2],
  i64AtomicCompareExchange: [0x49, 3],
  i32AtomicCompareExchange16U: [0x4b, 1],
} as const;

/** The name of an atomic instruction. */
export type AtomicOpName = keyof typeof atomicOp;

/** Vector instructions: the encoded opcode after the prefix byte. */
export const simdOp = {
  i8x16Swizzle: [0x0e],
  i8x16Splat: [0x0f],
  i16x8Splat: [0x10],
  i32x4Splat: [0x11],
  f32x4Splat: [0x13],
  i64x2Splat: [0x12],
  f64x2Splat: [0x14],
  i8x16LeS: [0x29],
  i16x8Eq: [0x2d],
  i16x8LtU: [0x30],
  i16x8GeS: [0x35],
  i32x4Eq: [0x37],
  i32x4Ne: [0x38],
  i32x4LtS: [0x39],
  i32x4LtU: [0x3a],
  i32x4GtS: [0x3b],
  i32x4GtU: [0x3c],
  i32x4LeS: [0x3d],
  i32x4LeU: [0x3e],
  i32x4GeS: [0x3f],
  i32x4GeU: [0x40],
  f32x4Eq: [0x41],
  f32x4Ne: [0x42],
  f32x4Lt: [0x43],
  f32x4Gt: [0x44],
  f32x4Le: [0x45],
  f32x4Ge: [0x46],
  f64x2Eq: [0x47],
  f64x2Ne: [0x48],
  f64x2Lt: [0x49],
  f64x2Gt: [0x4a],
  f64x2Le: [0x4b],
  f64x2Ge: [0x4c],
  v128Not: [0x4d],
  v128And: [0x4e],
  v128AndNot: [0x4f],
  v128Or: [0x50],
  v128Xor: [0x51],
  v128Bitselect: [0x52],
  v128AnyTrue: [0x53],
  f32x4DemoteF64x2Zero: [0x5e],
  f64x2PromoteLowF32x4: [0x5f],
  i8x16Popcnt: [0x62],
  i8x16Bitmask: [0x64],
  i8x16NarrowI16x8S: [0x65],
  i8x16Add: [0x6e],
  i8x16AddSatS: [0x6f],
  i8x16Sub: [0x71],
  i8x16MinS: [0x76],
  i8x16MaxS: [0x78],
  f64x2Trunc: [0x7a],
  i16x8ExtaddPairwiseI8x16U: [0x7d],
  i32x4ExtaddPairwiseI16x8U: [0x7f],
  i16x8NarrowI32x4S: [0x85, 0x01],
  i16x8ExtendLowI8x16S: [0x87, 0x01],
  i16x8ExtendHighI8x16S: [0x88, 0x01],
  i16x8ExtendLowI8x16U: [0x89, 0x01],
  i16x8ExtendHighI8x16U: [0x8a, 0x01],
  i16x8ShrU: [0x8d, 0x01],
  i16x8Add: [0x8e, 0x01],
  i16x8Sub: [0x91, 0x01],
  i16x8MinU: [0x97, 0x01],
  i16x8MaxS: [0x98, 0x01],
  i32x4Abs: [0xa0, 0x01],
  i32x4ExtendLowI16x8S: [0xa7, 0x01],
  i32x4ExtendHighI16x8S: [0xa8, 0x01],
  i32x4Neg: [0xa1, 0x01],
  i32x4Bitmask: [0xa4, 0x01],
  i32x4Shl: [0xab, 0x01],
  i32x4ShrS: [0xac, 0x01],
  i32x4ShrU: [0xad, 0x01],
  i32x4Add: [0xae, 0x01],
  i32x4Sub: [0xb1, 0x01],
  i32x4Mul: [0xb5, 0x01],
  i32x4MinS: [0xb6, 0x01],
  i32x4MinU: [0xb7, 0x01],
  i32x4MaxS: [0xb8, 0x01],
  i32x4MaxU: [0xb9, 0x01],
  i32x4DotI16x8S: [0xba, 0x01],
  i64x2ExtendLowI32x4S: [0xc7, 0x01],
  i64x2ExtendHighI32x4S: [0xc8, 0x01],
  i64x2Shl: [0xcb, 0x01],
  i64x2Add: [0xce, 0x01],
  f32x4Abs: [0xe0, 0x01],
  f32x4Neg: [0xe1, 0x01],
  f32x4Sqrt: [0xe3, 0x01],
  f32x4Add: [0xe4, 0x01],
  f32x4Sub: [0xe5, 0x01],
  f32x4Mul: [0xe6, 0x01],
  f32x4Div: [0xe7, 0x01],
  f32x4Min: [0xe8, 0x01],
  f32x4Max: [0xe9, 0x01],
  f64x2Abs: [0xec, 0x01],
  f64x2Neg: [0xed, 0x01],
  f64x2Sqrt: [0xef, 0x01],
  f64x2Add: [0xf0, 0x01],
  f64x2Sub: [0xf1, 0x01],
  f64x2Mul: [0xf2, 0x01],
  f64x2Div: [0xf3, 0x01],
  f64x2Max: [0xf5, 0x01],
  i32x4TruncSatF32x4S: [0xf8, 0x01],
  i32x4TruncSatF32x4U: [0xf9, 0x01],
  f32x4ConvertI32x4S: [0xfa, 0x01],
  f32x4ConvertI32x4U: [0xfb, 0x01],
  f64x2ConvertLowI32x4S: [0xfe, 0x01],
  f64x2ConvertLowI32x4U: [0xff, 0x01],
  i8x16RelaxedSwizzle: [0x80, 0x02],
  i32x4RelaxedTruncF32x4S: [0x81, 0x02],
  f32x4RelaxedMadd: [0x85, 0x02],
  f64x2RelaxedMadd: [0x87, 0x02],
} as const;

/** The name of a vector instruction. */
export type SimdOpName = keyof typeof simdOp;

/** Instructions on one lane of a vector: the opcode after the prefix byte. In the encoding, the lane number follows. */
export const simdLaneOp = {
  i32x4ExtractLane: 0x1b,
  i32x4ReplaceLane: 0x1c,
  i64x2ExtractLane: 0x1d,
  i64x2ReplaceLane: 0x1e,
  f32x4ExtractLane: 0x1f,
  f32x4ReplaceLane: 0x20,
  f64x2ExtractLane: 0x21,
} as const;

/** The name of an instruction on one lane of a vector. */
export type SimdLaneOpName = keyof typeof simdLaneOp;

/**
 * Loads of a number into all lanes of a vector, or into its low lanes: the opcode after the prefix byte, and the
 * logarithm of the alignment.
 */
export const numberLoadOp = {
  v128Load16Splat: [0x08, 1],
  v128Load32Splat: [0x09, 2],
  v128Load32Zero: [0x5c, 2],
  v128Load64Zero: [0x5d, 2],
} as const;

/** The name of a load of a number into a vector. */
export type NumberLoadOpName = keyof typeof numberLoadOp;

/** Stores of one lane of a vector: the opcode after the prefix byte, and the logarithm of the alignment. */
export const laneStoreOp = {
  v128Store16Lane: [0x59, 1],
  v128Store32Lane: [0x5a, 2],
  v128Store64Lane: [0x5b, 2],
} as const;

/** The name of a store of one lane of a vector. */
export type LaneStoreOpName = keyof typeof laneStoreOp;

/** An operation that exists for i32 and i64, such as `Add` for `i32Add` and `i64Add`. */
export type IntegerOperation<Name = OpName> = Name extends `i32${infer Rest}`
  ? `i64${Rest}` extends OpName ? Rest : never
  : never;

/** Returns WebAssembly's instruction for an operation on values of a type. */
export function inType({ value }: Pick<ScalarType, "value">, operation: IntegerOperation): OpName {
  return value === "i64" ? `i64${operation}` : `i32${operation}`;
}

/**
 * Emits code that pushes a constant of a type. The constant consists of the low bits of `number` if the number does not
 * fit.
 */
export function constant(code: CodeWriter, { value }: ScalarType, number: number | bigint): CodeWriter {
  return value === "i64" ? code.i64(BigInt(number)) : code.i32(Number(BigInt.asIntN(32, BigInt(number))));
}

/** Emits code that converts the 32-bit shift amount on the stack to the type of the value that is shifted. */
export function extendAmount(code: CodeWriter, { value }: ScalarType): CodeWriter {
  return value === "i64" ? code.ops("i64ExtendI32U") : code;
}
