/**
 * How compiled code passes the operands of an instruction on a texture or surface to the host functions, and gets the
 * results: in a part of the launch record, whose words are numbered here.
 *
 * @module
 */

/** The first word of each operand, and of the results. */
export const exchangeWords = {
  /** The texture or surface: the lower and the upper half of the handle. */
  handle: 0,
  /** Up to four coordinates, as PTX orders them: the layer is the first one. Floats or integers. */
  coordinates: 2,
  /** The mipmap level of `tex.level`. */
  level: 6,
  /** The gradients of `tex.grad`: up to three numbers in x, then as many in y. */
  gradients: 7,
  /** Up to three offsets in texels. */
  offsets: 13,
  /** The four results of a read, or the four words to write. 64-bit elements take two words. */
  data: 16,
} as const;

/** The number of words of the exchange. */
export const exchangeLength = 24;

/**
 * The slots of textures and surfaces in linear memory, at the same place in all threads. The first word of a slot is the
 * handle of its object.
 */
export const textureTable = { begin: 0x407_0000, byteLength: 0x40_0000, slotByteLength: 0x200 } as const;

/**
 * The offsets in a slot of 32-bit numbers that describe a texture to compiled code. Only the first one has a meaning if
 * it is 0: such textures are read by the host function.
 */
export const directTexture = {
  /** A `directRead` for samples of two dimensions, or 0. */
  read: 320,
  /** Bits of `directFlags`. */
  flags: 324,
  /** The offset of the first texel in linear memory. */
  begin: 328,
  width: 332,
  height: 336,
  rowBytes: 340,
  channels: 344,
  /** A `directRead` for fetches from linear memory, or 0. */
  fetch: 348,
} as const;

/** How compiled code reads a texture. Numbers from `linear` on are filtered. */
export const directReads = {
  words: 1,
  bytes: 2,
  normalizedBytes: 3,
  linear: 4,
  linearFloats: 4,
  linearBytes: 5,
} as const;
/** Whether coordinates are normalized, and whether indices outside are limited to the edges. */
export const directFlags = { normalizedCoordinates: 1, clampsX: 2, clampsY: 4 } as const;

/** The geometries of textures and surfaces, by the numbers that operations contain. */
export const geometries = ["1d", "2d", "3d", "a1d", "a2d", "cube", "acube"] as const;
/** A geometry of textures or surfaces. */
export type Geometry = typeof geometries[number];

/** The ways in which a texture is read. */
export const textureReads = ["sample", "level", "gradient", "gather"] as const;
/** A way in which a texture is read. */
export type TextureRead = typeof textureReads[number];

/** The forms of a texture read's results: words of 32 bits, 16-bit floats, or a pair of them in each word. */
export const textureResults = ["words", "halves", "pairs"] as const;

/** What an instruction does with a texture. */
export interface TextureOperation {
  readonly geometry: Geometry;
  readonly read: TextureRead;
  /** Whether the coordinates are integers. */
  readonly isFetch: boolean;
  readonly hasOffsets: boolean;
  /** The channel that a gather reads. */
  readonly channel: number;
  readonly results: typeof textureResults[number];
}

/** Encodes what an instruction does with a texture. */
export function encodeTextureOperation(
  { geometry, read, isFetch, hasOffsets, channel, results }: TextureOperation,
): number {
  return geometries.indexOf(geometry) | textureReads.indexOf(read) << 4 | Number(isFetch) << 8 |
    Number(hasOffsets) << 9 | channel << 10 | textureResults.indexOf(results) << 12;
}

/** Decodes what an instruction does with a texture. */
export function decodeTextureOperation(operation: number): TextureOperation {
  return {
    geometry: geometries[operation & 15]!,
    read: textureReads[operation >> 4 & 15]!,
    isFetch: (operation >> 8 & 1) !== 0,
    hasOffsets: (operation >> 9 & 1) !== 0,
    channel: operation >> 10 & 3,
    results: textureResults[operation >> 12 & 3]!,
  };
}

/** What an instruction does with a surface. */
export const surfaceUses = ["load", "store", "storeFormatted", "reduce", "reduceFormatted"] as const;
/** What a surface does with coordinates outside. */
export const surfaceBounds = ["trap", "clamp", "zero"] as const;
/** The operations of reductions. */
export const surfaceReductions = ["add", "min", "max", "and", "or"] as const;

/** What an instruction does with a surface. */
export interface SurfaceOperation {
  readonly geometry: Geometry;
  readonly use: typeof surfaceUses[number];
  readonly outside: typeof surfaceBounds[number];
  readonly reduction: typeof surfaceReductions[number];
  /** The size of an element in bytes, and the number of elements. */
  readonly elementBytes: number;
  readonly count: number;
  readonly isSigned: boolean;
}

/** Encodes what an instruction does with a surface. */
export function encodeSurfaceOperation(
  { geometry, use, outside, reduction, elementBytes, count, isSigned }: SurfaceOperation,
): number {
  return geometries.indexOf(geometry) | surfaceUses.indexOf(use) << 4 | surfaceBounds.indexOf(outside) << 8 |
    surfaceReductions.indexOf(reduction) << 10 | Math.log2(elementBytes) << 13 | count << 16 | Number(isSigned) << 20;
}

/** Decodes what an instruction does with a surface. */
export function decodeSurfaceOperation(operation: number): SurfaceOperation {
  return {
    geometry: geometries[operation & 15]!,
    use: surfaceUses[operation >> 4 & 15]!,
    outside: surfaceBounds[operation >> 8 & 3]!,
    reduction: surfaceReductions[operation >> 10 & 7]!,
    elementBytes: 1 << (operation >> 13 & 7),
    count: operation >> 16 & 7,
    isSigned: (operation >> 20 & 1) !== 0,
  };
}

/** What can be asked of a texture or surface, by the numbers that compiled code passes. */
export const textureQueries = ["width", "height", "depth"] as const;
