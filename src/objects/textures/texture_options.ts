/**
 * The options of textures.
 *
 * @module
 */
import { textureAddressMode, type TextureDescription, textureFilterMode, textureFlag } from "../../driver.ts";
import { type ArrayFormat, channelBytes } from "../../memory/arrays/array_format.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import { checkBoolean, checkNumber, didYouMean, type KnownOptions, shown } from "../../support/validation.ts";

/** What a texture has beyond its edges: it repeats, its last texels go on, it is mirrored, or it has a border. */
export type AddressMode = "wrap" | "clamp" | "mirror" | "border";

/** Whether a read returns one texel, or a weighted sum of those around the coordinates. */
export type FilterMode = "point" | "linear";

/** How kernels read a texture. */
export interface TextureOptions {
  /**
   * What the texture has beyond its edges, in all dimensions or in each. `"wrap"` and `"mirror"` need normalized
   * coordinates. Defaults to `"clamp"`.
   */
  addressMode?: AddressMode | readonly AddressMode[];
  /** Defaults to `"point"`. `"linear"` needs floats, or numbers by `readMode: "normalized-float"`. */
  filterMode?: FilterMode;
  /** Whether kernels read integers as they are (the default), or as numbers from 0 or -1 to 1. */
  readMode?: "element-type" | "normalized-float";
  /** Whether coordinates go from 0 to 1 over the whole extent, instead of counting texels. Defaults to false. */
  normalizedCoordinates?: boolean;
  /** Whether 8-bit numbers are sRGB, and read as linear ones. Defaults to false. */
  sRgb?: boolean;
  /** The numbers of the border's channels. Defaults to zeros. */
  borderColor?: readonly [number, number, number, number];
  /**
   * The greatest number of samples that a read with gradients of a 1D or 2D texture with a linear filter takes along the
   * longer one: 1 to 16. Defaults to 1. The software device finds the level of detail as a GPU does, and spreads the
   * samples evenly; where a GPU takes them is not known.
   */
  maxAnisotropy?: number;
  /** Whether a read uses one level of a mipmapped array, or a weighted sum of two. Defaults to `"point"`. */
  mipmapFilterMode?: FilterMode;
  /** A number that is added to the level of detail. Defaults to 0. */
  mipmapLevelBias?: number;
  /** The least level of detail. Defaults to 0. */
  minMipmapLevelClamp?: number;
  /** The greatest level of detail. Defaults to the last level. */
  maxMipmapLevelClamp?: number;
  /** Whether filters go on from one face of a cubemap to the next one. Defaults to false. */
  seamlessCubemap?: boolean;
  /** Whether sums of two levels are computed exactly, also with anisotropy. Defaults to false. */
  disableTrilinearOptimization?: boolean;
  /** The number of elements in a texel of a buffer or of rows. Defaults to 1. */
  channels?: 1 | 2 | 4;
  /** A part of an array, or its bits as another format. */
  view?: TextureView;
}

/** A part of an array, or its bits as another format. */
export interface TextureView {
  /** The format of the channels, with as many bits as the array's elements. Defaults to the array's. */
  format?: ArrayFormat;
  /** The number of channels of `format`. Defaults to the array's. */
  channels?: 1 | 2 | 4;
  /** The first mipmap level that the texture has. Defaults to 0. */
  firstLevel?: number;
  /** The last mipmap level that the texture has. Defaults to the array's last one. */
  lastLevel?: number;
  /** The first layer that the texture has. Defaults to 0. */
  firstLayer?: number;
  /** The last layer that the texture has. Defaults to the array's last one. */
  lastLayer?: number;
}

const action = "create a texture";
/** Describes the options of textures. */
export const textureOptions: KnownOptions<TextureOptions> = {
  action,
  names: {
    addressMode: true,
    filterMode: true,
    readMode: true,
    normalizedCoordinates: true,
    sRgb: true,
    borderColor: true,
    maxAnisotropy: true,
    mipmapFilterMode: true,
    mipmapLevelBias: true,
    minMipmapLevelClamp: true,
    maxMipmapLevelClamp: true,
    seamlessCubemap: true,
    disableTrilinearOptimization: true,
    channels: true,
    view: true,
  },
  instead: {
    normalizedCoords: "use normalizedCoordinates",
    sRGB: "use sRgb",
    format: "the format is the array's; give view: { format } to read its bits as another one",
  },
};
/** Describes the parts that a texture shows. */
export const viewOptions: KnownOptions<TextureView> = {
  action: "view a part of an array",
  names: { format: true, channels: true, firstLevel: true, lastLevel: true, firstLayer: true, lastLayer: true },
};

/** What a texture is made of, as far as its options depend on it. */
export interface TextureKind {
  readonly format: ArrayFormat;
  readonly levels: number;
  /** Whether it reads linear memory, without filter. */
  readonly isLinear: boolean;
}

/** Checks options and returns them as the driver takes them. */
export function descriptionOf(options: TextureOptions, { format, levels, isLinear }: TextureKind): TextureDescription {
  const {
    addressMode = "clamp",
    filterMode = "point",
    readMode = "element-type",
    normalizedCoordinates = false,
    sRgb = false,
    borderColor = [0, 0, 0, 0],
    maxAnisotropy = 1,
    mipmapFilterMode = "point",
    mipmapLevelBias = 0,
    minMipmapLevelClamp = 0,
    maxMipmapLevelClamp = levels - 1,
    seamlessCubemap = false,
    disableTrilinearOptimization = false,
  } = options;
  const given = typeof addressMode === "string" ? [addressMode, addressMode, addressMode] : addressMode;
  if (!Array.isArray(given) || given.length < 1 || given.length > 3) {
    throw new TypeError(`Cannot ${action} with the addressMode ${shown(addressMode)}: give one, or one per dimension`);
  }
  const modes = [...given as AddressMode[]];
  for (const mode of modes) checkNamed(mode, textureAddressMode, "addressMode");
  while (modes.length < 3) modes.push(modes.at(-1)!);
  checkNamed(filterMode, textureFilterMode, "filterMode");
  checkNamed(mipmapFilterMode, textureFilterMode, "mipmapFilterMode");
  checkNamed(readMode, { "element-type": 0, "normalized-float": 0 }, "readMode");
  const flags = { normalizedCoordinates, sRgb, seamlessCubemap, disableTrilinearOptimization };
  for (const [name, value] of Object.entries(flags)) checkBoolean(value, name);
  const numbers = { maxAnisotropy, mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp };
  for (const [name, value] of Object.entries(numbers)) checkNumber(value, name);
  if (!Number.isInteger(maxAnisotropy) || maxAnisotropy < 1 || maxAnisotropy > 16) {
    throw new RangeError(`Cannot ${action} with the maxAnisotropy ${maxAnisotropy}: give a whole number from 1 to 16`);
  }
  if (!Array.isArray(borderColor) || borderColor.length !== 4) {
    throw new TypeError(`Cannot ${action} with the borderColor ${shown(borderColor)}: give four numbers`);
  }
  for (const part of borderColor as readonly number[]) checkNumber(part, "a part of borderColor");
  const isFloat = format.startsWith("f");
  const isOfNumbers = isFloat || format.includes("norm");
  const isNormalized = readMode === "normalized-float";
  if (isNormalized && !isOfNumbers && channelBytes(format) === 4) {
    throw new RangeError(`Cannot ${action} of "${format}" with readMode "normalized-float": it needs 8 or 16 bits`);
  }
  if (filterMode === "linear" && !isOfNumbers && !isNormalized) {
    const advice = channelBytes(format) === 4 ? "use floats" : 'set readMode: "normalized-float", or use floats';
    throw new RangeError(`Cannot ${action} of "${format}" with filterMode "linear": integers have no sums; ${advice}`);
  }
  if (filterMode === "linear" && isLinear) {
    throw new RangeError(`Cannot ${action} of a buffer with filterMode "linear": use rows, as in buffer.pitched`);
  }
  if (sRgb && (channelBytes(format) !== 1 || format.startsWith("s") || !isNormalized && !isOfNumbers)) {
    throw new RangeError(
      `Cannot ${action} of "${format}" with sRgb: it needs "unorm8", or "u8" with readMode "normalized-float"`,
    );
  }
  const repeats = modes.some((mode) => mode === "wrap" || mode === "mirror");
  if (repeats && !normalizedCoordinates) {
    throw new RangeError(
      `Cannot ${action} with the addressMode "${modes.find((mode) => mode === "wrap" || mode === "mirror")}" and ` +
        "coordinates in texels: CUDA would clamp them; set normalizedCoordinates: true",
    );
  }
  const { readAsInteger, srgb } = textureFlag;
  return {
    addressModes: modes.map((mode) => textureAddressMode[mode]) as [number, number, number],
    filterMode: textureFilterMode[filterMode],
    flags: (isNormalized || isOfNumbers ? 0 : readAsInteger) | (sRgb ? srgb : 0) |
      (normalizedCoordinates ? textureFlag.normalizedCoordinates : 0) |
      (seamlessCubemap ? textureFlag.seamlessCubemap : 0) |
      (disableTrilinearOptimization ? textureFlag.disableTrilinearOptimization : 0),
    maxAnisotropy: maxAnisotropy === 1 ? 0 : maxAnisotropy,
    mipmapFilterMode: textureFilterMode[mipmapFilterMode],
    mipmapLevelBias,
    minMipmapLevelClamp,
    maxMipmapLevelClamp,
    borderColor: borderColor as [number, number, number, number],
  };
}

function checkNamed(value: unknown, known: object, name: string): void {
  const names = Object.keys(known);
  if (typeof value === "string" && names.includes(value)) return;
  throw new TypeError(
    `Cannot ${action} with the ${name} ${shown(value)}: give ${names.map((each) => `"${each}"`).join(" or ")}` +
      didYouMean(value, names),
  );
}
