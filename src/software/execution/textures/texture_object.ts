/**
 * The objects by which kernels reach textures and surfaces. Each has a slot in linear memory, where all threads that run
 * kernels find it by its handle.
 *
 * @module
 */
import { directFlags, directReads, directTexture, textureTable } from "../../abi/textures.ts";

/** The formats of channels, by the numbers that slots contain. */
export const channelFormats = ["u8", "u16", "u32", "s8", "s16", "s32", "f16", "f32"] as const;
/** The format of a channel. */
export type ChannelFormat = typeof channelFormats[number];

/** The values of `AddressMode`. */
export const addressModes = { wrap: 0, clamp: 1, mirror: 2, border: 3 } as const;

/** What a texture or surface is, as numbers. Flags are 0 or 1. */
export interface TextureObject {
  readonly isSurface: number;
  /** The number of dimensions of a layer: 1 to 3. */
  readonly dimensions: number;
  readonly isLayered: number;
  readonly isCubemap: number;
  /** Whether the texture reads linear memory, which has no filter and no address mode. */
  readonly isLinear: number;
  /** An index of `channelFormats`. */
  readonly format: number;
  readonly channels: number;
  /** Whether integers are read as floats from 0 to 1, or from -1 to 1. */
  readonly isNormalized: number;
  readonly isFiltered: number;
  readonly filtersLevels: number;
  readonly addressX: number;
  readonly addressY: number;
  readonly addressZ: number;
  readonly hasNormalizedCoordinates: number;
  readonly isSrgb: number;
  /** The greatest number of samples along the longer gradient: 1 without anisotropic filtering. */
  readonly maxAnisotropy: number;
  readonly optimizesTrilinear: number;
  readonly isSeamless: number;
  readonly levelBias: number;
  readonly leastLevel: number;
  readonly greatestLevel: number;
  readonly border0: number;
  readonly border1: number;
  readonly border2: number;
  readonly border3: number;
  /** The offset of the first texel in linear memory. */
  readonly begin: number;
  /** The size of level 0. The depth is 1 unless there are three dimensions. */
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  /** The number of layers of the array, faces included. 1 if it has none. */
  readonly layers: number;
  /** The distance of rows in bytes. 0 if they have no gaps. */
  readonly pitch: number;
  /** The levels and the layers that are visible: the first one, and how many. */
  readonly firstLevel: number;
  readonly levels: number;
  readonly firstLayer: number;
  readonly visibleLayers: number;
}

const fields: readonly (keyof TextureObject)[] = [
  "isSurface",
  "dimensions",
  "isLayered",
  "isCubemap",
  "isLinear",
  "format",
  "channels",
  "isNormalized",
  "isFiltered",
  "filtersLevels",
  "addressX",
  "addressY",
  "addressZ",
  "hasNormalizedCoordinates",
  "isSrgb",
  "maxAnisotropy",
  "optimizesTrilinear",
  "isSeamless",
  "levelBias",
  "leastLevel",
  "greatestLevel",
  "border0",
  "border1",
  "border2",
  "border3",
  "begin",
  "width",
  "height",
  "depth",
  "layers",
  "pitch",
  "firstLevel",
  "levels",
  "firstLayer",
  "visibleLayers",
];

/** The number of objects that can exist at a time. */
export const objectLimit: number = textureTable.byteLength / textureTable.slotByteLength;

/** The slots of one memory. The first word of a slot in use is the handle of its object. */
export class TextureSlots {
  readonly #words: Int32Array;
  readonly #numbers: Float64Array;

  constructor({ buffer }: WebAssembly.Memory) {
    this.#words = new Int32Array(buffer, textureTable.begin, textureTable.byteLength / 4);
    this.#numbers = new Float64Array(buffer, textureTable.begin, textureTable.byteLength / 8);
  }

  /** Whether a handle is that of an object that exists. */
  has(handle: number): boolean {
    return handle !== 0 && this.#words[this.#slotOf(handle) / 4] === handle;
  }

  /** Returns the object of a handle. */
  read(handle: number): TextureObject {
    const first = this.#slotOf(handle) / 8 + 1;
    return Object.fromEntries(fields.map((field, index) => [field, this.#numbers[first + index]])) as never;
  }

  /** Writes an object to the slot of a handle. */
  write(handle: number, object: TextureObject): void {
    const slot = this.#slotOf(handle);
    fields.forEach((field, index) => this.#numbers[slot / 8 + 1 + index] = object[field]);
    const direct = directTextureOf(object);
    for (const [name, number] of Object.entries(direct)) {
      this.#words[(slot + directTexture[name as keyof typeof directTexture]) / 4] = number;
    }
    this.#words[slot / 4] = handle;
  }

  /** Makes the handle that of no object. */
  clear(handle: number): void {
    const slot = this.#slotOf(handle);
    this.#words[(slot + directTexture.read) / 4] = 0;
    this.#words[(slot + directTexture.fetch) / 4] = 0;
    this.#words[slot / 4] = 0;
  }

  #slotOf(handle: number): number {
    return (handle >>> 0) % objectLimit * textureTable.slotByteLength;
  }
}

/** Returns what compiled code needs to know of a texture to read it without the host function. */
function directTextureOf(object: TextureObject): Readonly<Record<keyof typeof directTexture, number>> {
  const { begin, width, height, pitch, channels, addressX, addressY } = object;
  const isNormalized = object.hasNormalizedCoordinates === 1;
  // Only normalized coordinates repeat a texture.
  const clamps = (mode: number) => isNormalized ? mode === addressModes.clamp : mode !== addressModes.border;
  const isPlain = object.dimensions === 2 && object.firstLevel === 0 && object.levels === 1 && object.isSrgb === 0 &&
    object.isSurface + object.isLayered + object.isCubemap + object.isLinear === 0;
  return {
    read: isPlain ? directReadOf(object) : 0,
    fetch: object.isLinear === 1 && object.isSurface + object.isSrgb === 0 ? directReadOf(object) : 0,
    flags: (isNormalized ? directFlags.normalizedCoordinates : 0) | (clamps(addressX) ? directFlags.clampsX : 0) |
      (clamps(addressY) ? directFlags.clampsY : 0),
    begin,
    width,
    height,
    rowBytes: pitch || width * texelBytes(channelFormats[object.format]!, channels),
    channels,
  };
}

function directReadOf(object: TextureObject): number {
  const isFiltered = object.isFiltered === 1, isNormalized = object.isNormalized === 1;
  switch (channelFormats[object.format]!) {
    case "f32":
      return isFiltered ? directReads.linearFloats : directReads.words;
    case "u32":
    case "s32":
      return directReads.words;
    case "u8":
      return isFiltered ? directReads.linearBytes : isNormalized ? directReads.normalizedBytes : directReads.bytes;
    default:
      return 0;
  }
}

/** The size of a texel in bytes. */
export function texelBytes(format: ChannelFormat, channels: number): number {
  return Number(format.slice(1)) / 8 * channels;
}
