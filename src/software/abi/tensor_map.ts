/**
 * Tensor maps: descriptions of tensors in global memory, from which kernels copy boxes. CUDA's are opaque objects of 128
 * bytes; these have the same size, and a layout of their own.
 *
 * @module
 */

/** The size of a tensor map in bytes. */
export const tensorMapByteLength = 128;

/** The types of elements, in the order of `CUtensorMapDataType`. */
export const tensorTypes = [
  { name: "u8", bytes: 1 },
  { name: "u16", bytes: 2 },
  { name: "u32", bytes: 4 },
  { name: "s32", bytes: 4 },
  { name: "u64", bytes: 8 },
  { name: "s64", bytes: 8 },
  { name: "f16", bytes: 2 },
  { name: "f32", bytes: 4 },
  { name: "f64", bytes: 8 },
  { name: "bf16", bytes: 2 },
  { name: "f32.ftz", bytes: 4 },
  { name: "tf32", bytes: 4 },
  { name: "tf32.ftz", bytes: 4 },
] as const;

/** The widths in bytes of the swizzled rows in shared memory, in the order of `CUtensorMapSwizzle`. */
export const swizzleWidths = [0, 32, 64, 128] as const;

/** The sizes in bytes of slices of interleaved channels, in the order of `CUtensorMapInterleave`: 0 without slices. */
export const sliceWidths = [0, 16, 32] as const;

/** The maximum number of dimensions of a tensor. */
export const mostDimensions = 5;

/** A tensor in global memory, and the box that a copy of a part of it transfers. Dimension 0 varies fastest. */
export interface EncodedTensor {
  /** The index of the element type in {@linkcode tensorTypes}. */
  readonly type: number;
  readonly rank: number;
  /** The index of the size of slices in {@linkcode sliceWidths}. Dimension 0 counts slices, if there are any. */
  readonly interleave: number;
  /** The index of the swizzle in {@linkcode swizzleWidths}. */
  readonly swizzle: number;
  /** Whether elements outside of the tensor are loaded as NaN, and not as 0. */
  readonly fillsNaN: boolean;
  /** The address of the first element. */
  readonly address: bigint;
  /** The number of elements in each dimension. */
  readonly dimensions: readonly number[];
  /** The distances in bytes between adjacent elements, from dimension 1 on. */
  readonly strides: readonly number[];
  /** The number of elements of the box in each dimension. In the mode im2col, that of dimension 0 are channels. */
  readonly box: readonly number[];
  /** The distances between loaded elements, in elements of the tensor. */
  readonly elementStrides: readonly number[];
  /** The pixels of a column, in the mode im2col. Undefined in the mode tile. */
  readonly pixels: PixelBox | undefined;
}

/** The pixels that a copy in the mode im2col transfers, by dimension from dimension 1 on, without the last dimension. */
export interface PixelBox {
  /** The offsets of the corners of the bounding box, from the first and the last pixel of the tensor. */
  readonly lower: readonly number[];
  readonly upper: readonly number[];
  /** The number of pixels. */
  readonly count: number;
}

/** The first bytes of a tensor map, as a 32-bit integer. */
export const tensorMapMark = 0x706d_7462;
const offsets = {
  mark: 0,
  type: 4,
  rank: 5,
  interleave: 6,
  swizzle: 7,
  fill: 8,
  isPixels: 9,
  address: 16,
  dimensions: 24,
  box: 44,
  strides: 56,
  elementStrides: 96,
  lower: 104,
  upper: 110,
  pixels: 116,
} as const;

/** A field of a tensor map that `tensormap.replace` sets. */
export interface ReplacedField {
  readonly offset: number;
  /** The distance between the elements of the field in bytes. 0 if it has one. */
  readonly stride: number;
  /** The size of an element in bytes. */
  readonly bytes: 1 | 2 | 4 | 8;
}

/** The fields that `tensormap.replace` sets, by the names of their modifiers. */
export const replacedFields: Readonly<Record<string, ReplacedField>> = {
  global_address: { offset: offsets.address, stride: 0, bytes: 8 },
  rank: { offset: offsets.rank, stride: 0, bytes: 1 },
  box_dim: { offset: offsets.box, stride: 2, bytes: 2 },
  global_dim: { offset: offsets.dimensions, stride: 4, bytes: 4 },
  global_stride: { offset: offsets.strides, stride: 8, bytes: 8 },
  element_stride: { offset: offsets.elementStrides, stride: 1, bytes: 1 },
  elemtype: { offset: offsets.type, stride: 0, bytes: 1 },
  interleave_layout: { offset: offsets.interleave, stride: 0, bytes: 1 },
  swizzle_mode: { offset: offsets.swizzle, stride: 0, bytes: 1 },
  fill_mode: { offset: offsets.fill, stride: 0, bytes: 1 },
};

/** The element types in the order in which `tensormap.replace` numbers them, as indices of {@linkcode tensorTypes}. */
export const replacedTypes: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12];

/** Returns the bytes of a tensor map. */
export function encodeTensorMap(map: EncodedTensor): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(tensorMapByteLength);
  const view = new DataView(bytes.buffer);
  view.setUint32(offsets.mark, tensorMapMark, true);
  bytes[offsets.type] = map.type;
  bytes[offsets.rank] = map.rank;
  bytes[offsets.interleave] = map.interleave;
  bytes[offsets.swizzle] = map.swizzle;
  bytes[offsets.fill] = Number(map.fillsNaN);
  view.setBigUint64(offsets.address, map.address, true);
  map.dimensions.forEach((size, index) => view.setUint32(offsets.dimensions + 4 * index, size % 2 ** 32, true));
  map.box.forEach((size, index) => view.setUint16(offsets.box + 2 * index, size, true));
  map.strides.forEach((stride, index) => view.setBigUint64(offsets.strides + 8 * index, BigInt(stride), true));
  map.elementStrides.forEach((stride, index) => bytes[offsets.elementStrides + index] = stride);
  if (map.pixels === undefined) return bytes;
  const { lower, upper, count } = map.pixels;
  bytes[offsets.isPixels] = 1;
  lower.forEach((offset, index) => view.setInt16(offsets.lower + 2 * index, offset, true));
  upper.forEach((offset, index) => view.setInt16(offsets.upper + 2 * index, offset, true));
  view.setUint16(offsets.pixels, count, true);
  return bytes;
}

/**
 * Returns the tensor map at an offset. Undefined if there is none: a program may have overwritten it, or passed the
 * address of something else.
 */
export function decodeTensorMap(view: DataView, begin = 0): EncodedTensor | undefined {
  const byteAt = (offset: number) => view.getUint8(begin + offset);
  const rank = byteAt(offsets.rank), type = byteAt(offsets.type), swizzle = byteAt(offsets.swizzle);
  const interleave = byteAt(offsets.interleave);
  const isMap = view.getUint32(begin + offsets.mark, true) === tensorMapMark && rank >= 1 && rank <= mostDimensions &&
    type < tensorTypes.length && swizzle < swizzleWidths.length && interleave < sliceWidths.length;
  if (!isMap) return undefined;
  const upTo = (count: number, valueOf: (index: number) => number) =>
    Array.from({ length: count }, (_, i) => valueOf(i));
  const isPixels = byteAt(offsets.isPixels) === 1;
  return {
    type,
    rank,
    interleave,
    swizzle,
    fillsNaN: byteAt(offsets.fill) === 1,
    address: view.getBigUint64(begin + offsets.address, true),
    dimensions: upTo(rank, (index) => view.getUint32(begin + offsets.dimensions + 4 * index, true) || 2 ** 32),
    strides: upTo(rank - 1, (index) => Number(view.getBigUint64(begin + offsets.strides + 8 * index, true))),
    box: upTo(rank, (index) => view.getUint16(begin + offsets.box + 2 * index, true)),
    elementStrides: upTo(rank, (index) => byteAt(offsets.elementStrides + index)),
    pixels: isPixels
      ? {
        lower: upTo(rank - 2, (index) => view.getInt16(begin + offsets.lower + 2 * index, true)),
        upper: upTo(rank - 2, (index) => view.getInt16(begin + offsets.upper + 2 * index, true)),
        count: view.getUint16(begin + offsets.pixels, true),
      }
      : undefined,
  };
}

/** What a copy of a part of a tensor does. */
export const tensorOperations = [
  "load",
  "store",
  "prefetch",
  "add",
  "min",
  "max",
  "inc",
  "dec",
  "and",
  "or",
  "xor",
] as const;
