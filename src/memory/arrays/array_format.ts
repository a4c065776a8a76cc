/**
 * The formats and the sizes of CUDA arrays.
 *
 * @module
 */
import { type ArrayDescriptor, arrayFlag, arrayFormat } from "../../driver.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import {
  checkBoolean,
  checkNumber,
  didYouMean,
  type KnownOptions,
  shown,
  type TypedArray,
  type TypedArrayConstructor,
  whatIs,
} from "../../support/validation.ts";
import type { Extent } from "../pitched_array.ts";

/**
 * The format of an array's channels. Those that begin with `unorm` and `snorm` are integers that kernels always read as
 * numbers from 0 to 1, or from -1 to 1.
 */
export type ArrayFormat =
  | "u8"
  | "u16"
  | "u32"
  | "s8"
  | "s16"
  | "s32"
  | "f16"
  | "f32"
  | "unorm8"
  | "unorm16"
  | "snorm8"
  | "snorm16";

/** What a new array has, besides its format and size. */
export interface CudaArrayOptions {
  /** The number of channels of each element. Defaults to 1. */
  channels?: 1 | 2 | 4;
  /** Whether the last extent counts layers, which are not filtered with each other. Defaults to false. */
  layered?: boolean;
  /** Whether six layers are the faces of a cube; with `layered`, a multiple of six. Defaults to false. */
  cubemap?: boolean;
  /** Whether kernels may write the array by a surface. Defaults to false. */
  surface?: boolean;
  /** Whether kernels may read four elements at once (`tex2Dgather`). Two dimensions only. Defaults to false. */
  gather?: boolean;
}

export const arrayOptionNames = { channels: true, layered: true, cubemap: true, surface: true, gather: true } as const;

/** Describes the options of a new array. */
export const arrayOptions: KnownOptions<CudaArrayOptions> = {
  action: "create an array",
  names: arrayOptionNames,
  instead: { format: "the format is the first argument", size: "the size is the second argument" },
};

const formats = Object.keys(arrayFormat) as ArrayFormat[];
const faces = 6;

/** Returns the size of a channel in bytes. */
export function channelBytes(format: ArrayFormat): number {
  return Number(/\d+$/.exec(format)![0]) / 8;
}

/** Throws unless a value is a format. */
export function checkFormat(format: ArrayFormat, action: string): void {
  if (formats.includes(format)) return;
  const given = typeof format === "string" ? shown(format) : whatIs(format);
  throw new TypeError(
    `Cannot ${action} of the format ${given}: give one of ${formats.join(", ")}${didYouMean(format, formats)}`,
  );
}

/** Throws unless a value is a number of channels. */
export function checkChannels(channels: unknown, action: string): void {
  checkNumber(channels, "the number of channels");
  if (channels !== 1 && channels !== 2 && channels !== 4) {
    const advice = channels === 3 ? "; leave one of 4 unused" : "";
    throw new RangeError(`Cannot ${action} with ${channels} channels: CUDA has 1, 2 and 4${advice}`);
  }
}

/** The shape of an array. */
export interface ArrayShape {
  readonly width: number;
  readonly height: number;
  /** The number of slices, or of layers and faces. */
  readonly depth: number;
  /** The number of dimensions, without layers. */
  readonly dimensions: 1 | 2 | 3;
  readonly channels: 1 | 2 | 4;
  readonly layered: boolean;
  readonly cubemap: boolean;
  readonly surface: boolean;
  readonly gather: boolean;
}

/** Checks and returns the shape of a new array. */
export function shapeOf(
  size: Extent,
  { channels = 1, layered = false, cubemap = false, surface = false, gather = false }: CudaArrayOptions,
): ArrayShape {
  const { action } = arrayOptions;
  checkChannels(channels, action);
  for (const [name, value] of Object.entries({ layered, cubemap, surface, gather })) checkBoolean(value, name);
  const options = { channels, layered, cubemap, surface, gather };
  const isExtents = Array.isArray(size) && size.length >= 1 && size.length <= 3;
  if (!isExtents) {
    throw new TypeError(`Cannot ${action} of the size ${whatIs(size)}: give one to three numbers, as in [640, 480]`);
  }
  for (const extent of size as readonly number[]) {
    checkNumber(extent, "an array's extent");
    if (!Number.isInteger(extent) || extent < 1) {
      throw new RangeError(`Cannot ${action} of the size [${size}]: give whole numbers, at least 1`);
    }
  }
  const [width, second, third] = size;
  if (cubemap) {
    const depth = third ?? faces;
    if (second !== undefined && second !== width || depth % faces !== 0 || !layered && depth !== faces) {
      const many = layered ? "a multiple of six layers" : "six layers";
      throw new RangeError(`Cannot create a cubemap of the size [${size}]: its faces are square, and it has ${many}`);
    }
    return { ...options, width, height: width, depth, dimensions: 2 };
  }
  if (layered && size.length === 1) {
    throw new RangeError(`Cannot ${action} of the size [${size}] with layers: their number is the last extent`);
  }
  const dimensions = size.length - (layered ? 1 : 0) as 1 | 2 | 3;
  if (gather && dimensions !== 2) {
    throw new RangeError(`Cannot ${action} of ${dimensions} dimensions with gather: give two dimensions`);
  }
  const height = dimensions === 1 ? 1 : second!;
  return { ...options, width, height, depth: layered ? size.at(-1)! : third ?? 1, dimensions };
}

/** Returns the driver's description of an array. */
export function descriptorOf(format: ArrayFormat, shape: ArrayShape): ArrayDescriptor {
  const { width, height, depth, dimensions, channels, layered, cubemap, surface, gather } = shape;
  const hasLayers = layered || cubemap;
  return {
    width,
    height: dimensions === 1 ? 0 : height,
    depth: hasLayers || dimensions === 3 ? depth : 0,
    format: arrayFormat[format],
    channels,
    flags: (layered ? arrayFlag.layered : 0) | (cubemap ? arrayFlag.cubemap : 0) |
      (surface ? arrayFlag.surfaceLoadStore : 0) | (gather ? arrayFlag.textureGather : 0),
  };
}

/** Throws unless the elements of a typed array are the channels of a format. */
export function checkChannelType(
  format: ArrayFormat,
  type: TypedArrayConstructor<TypedArray>,
  action: string,
): void {
  const { name, BYTES_PER_ELEMENT } = type as TypedArrayConstructor<TypedArray> & { readonly name: string };
  const isFloat = /^(Big)?Float/.test(name);
  const fits = BYTES_PER_ELEMENT === channelBytes(format) &&
    (format === "f32" ? name === "Float32Array" : !isFloat || format === "f16");
  if (fits) return;
  throw new TypeError(`Cannot ${action} a ${name}: the array has the format "${format}"; use ${typesOf(format)}`);
}

function typesOf(format: ArrayFormat): string {
  if (format === "f32") return "a Float32Array";
  if (format === "f16") return "a Float16Array, or a Uint16Array of the bits";
  return `${format.startsWith("s") ? "an Int" : "a Uint"}${8 * channelBytes(format)}Array`;
}
