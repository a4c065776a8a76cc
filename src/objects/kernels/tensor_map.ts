/**
 * Tensor maps: descriptions of tensors in device memory, of which kernels copy boxes to and from shared memory.
 *
 * @module
 */
import { type Im2colTensor, tensorMapDataType, type TiledTensor } from "../../driver.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { DeviceArray } from "../../memory/device_array.ts";
import { allocationOf, DeviceBuffer } from "../../memory/device_buffer.ts";
import { PitchedArray } from "../../memory/pitched_array.ts";
import { dtypeOfType } from "../../memory/dtypes.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { countOf, printAs } from "../../support/printing.ts";
import {
  checkNumber,
  checkOptions,
  didYouMean,
  errorOfAnotherCuda,
  type KnownOptions,
  refuseConstruction,
  shown,
  whatIs,
} from "../../support/validation.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/**
 * The type of a tensor's elements: names of dtypes, and three that flush subnormal numbers to zero or round to 19 bits
 * when they are loaded.
 */
export type TensorMapType =
  | "uint8"
  | "uint16"
  | "uint32"
  | "int32"
  | "uint64"
  | "int64"
  | "float16"
  | "float32"
  | "float64"
  | "bfloat16"
  | "float32_ftz"
  | "tfloat32"
  | "tfloat32_ftz";

/** CUDA's number of each element type, and the size of an element in bytes. */
const types: Readonly<Record<TensorMapType, readonly [number: number, bytes: number]>> = {
  uint8: [tensorMapDataType.uint8, 1],
  uint16: [tensorMapDataType.uint16, 2],
  uint32: [tensorMapDataType.uint32, 4],
  int32: [tensorMapDataType.int32, 4],
  uint64: [tensorMapDataType.uint64, 8],
  int64: [tensorMapDataType.int64, 8],
  float16: [tensorMapDataType.float16, 2],
  float32: [tensorMapDataType.float32, 4],
  float64: [tensorMapDataType.float64, 8],
  bfloat16: [tensorMapDataType.bfloat16, 2],
  float32_ftz: [tensorMapDataType.float32Ftz, 4],
  tfloat32: [tensorMapDataType.tfloat32, 4],
  tfloat32_ftz: [tensorMapDataType.tfloat32Ftz, 4],
};

/** The dtypes that tensor maps have no name for, and the ones that show the same bits. */
const sameBits: Readonly<Record<string, TensorMapType>> = {
  int8: "uint8",
  bool: "uint8",
  int16: "uint16",
  float8_e3m4: "uint8",
  float8_e4m3: "uint8",
  float8_e4m3b11fnuz: "uint8",
  float8_e4m3fn: "uint8",
  float8_e4m3fnuz: "uint8",
  float8_e5m2: "uint8",
  float8_e5m2fnuz: "uint8",
  float8_e8m0fnu: "uint8",
};

const interleaves = { none: 0, "16B": 1, "32B": 2 } as const;
/** The sizes of the slices of interleaved channels in bytes. 0 without slices. */
const sliceBytes = { none: 0, "16B": 16, "32B": 32 } as const;
const swizzles = { none: 0, "32B": 1, "64B": 2, "128B": 3 } as const;
const promotions = { none: 0, "64B": 1, "128B": 2, "256B": 3 } as const;
const fills = { zero: 0, nan: 1 } as const;
const swizzleBytes = { none: Infinity, "32B": 32, "64B": 64, "128B": 128 } as const;

/** The pixels that a copy in the mode im2col transfers. The last dimension of the tensor is that of its channels. */
export interface PixelBoxOptions {
  /**
   * The offset of the first pixel of the bounding box from the first one of the tensor, in each dimension but the first
   * and the last.
   */
  lowerCorner: readonly number[];
  /** The offset of the last pixel of the bounding box from the last one of the tensor. */
  upperCorner: readonly number[];
  /** The number of channels of a pixel that are copied, at most 256. */
  channels: number;
  /** The number of pixels that are copied, at most 1024. */
  pixels: number;
}

/** A tensor, and the box that kernels copy at once. In all arrays, the last dimension is the one that varies fastest. */
export interface TensorMapOptions {
  /**
   * The size of the box in each dimension, at most 256 elements. In the last dimension, its size and where it begins are
   * multiples of 16 bytes. Give either `box` or `im2col`.
   */
  box?: readonly number[];
  /** The pixel box of the im2col mode, for convolutions. */
  im2col?: PixelBoxOptions;
  /** The size of the tensor in each dimension, from 1 to 5. Defaults to the array's shape. */
  shape?: readonly number[];
  /** The type of the elements. Defaults to the array's dtype. */
  dtype?: TensorMapType;
  /**
   * The bytes between adjacent elements in each dimension but the last, multiples of 16; 0 is possible, too. By default,
   * elements are adjacent, or in rows at the pitch of the `PitchedArray`.
   */
  strides?: readonly number[];
  /** The traversal stride of each dimension, in elements: from 1 to 8. Default: 1. */
  elementStrides?: readonly number[];
  /**
   * The layout of channels in slices of 16 or 32 bytes, as NC/8HWC8 of 16-bit elements with `"16B"`. The shape is then
   * the one of slices, such as `[n, c / 8, h, w]`, of at least 3 dimensions, and must be given; strides are those
   * of slices, and multiples of the slice's size. A box has one slice of each pixel. The last size of the box counts
   * pixels, and is a multiple of the elements in 16 bytes nevertheless. Default: `"none"`.
   */
  interleave?: "none" | "16B" | "32B";
  /** How pieces of 16 bytes are exchanged in shared memory to avoid bank conflicts. Default: `"none"`. */
  swizzle?: "none" | "32B" | "64B" | "128B";
  /** How much the L2 cache fetches at once. Default: `"none"`. */
  l2Promotion?: "none" | "64B" | "128B" | "256B";
  /** What elements outside of the tensor are loaded as. `"nan"` is for floating-point elements. Default: `"zero"`. */
  fill?: "zero" | "nan";
}

const options: KnownOptions<TensorMapOptions> = {
  action: "create a tensor map",
  names: {
    box: true,
    im2col: true,
    shape: true,
    dtype: true,
    strides: true,
    elementStrides: true,
    interleave: true,
    swizzle: true,
    l2Promotion: true,
    fill: true,
  },
  required: "an object, such as { box: [64, 64] }",
};
const pixelOptions: KnownOptions<PixelBoxOptions> = {
  action: "create a tensor map",
  names: { lowerCorner: true, upperCorner: true, channels: true, pixels: true },
};

/** Memory that a tensor map can describe. */
export type TensorMemory = DeviceBuffer | PitchedArray;

/** What a tensor map was encoded as, and the memory that it describes. */
interface Encoded {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly memory: TensorMemory;
}

/** What each tensor map was encoded as. Not a private field, so that the class is known by its public properties. */
const encodings = new WeakMap<object, Encoded>();

/**
 * Returns the bytes of a tensor map for a kernel; undefined for another value.
 *
 * @throws {ReferenceError} If the memory was freed
 */
export function bytesOfTensorMap(value: unknown): Uint8Array<ArrayBuffer> | undefined {
  const encoded = typeof value === "object" && value !== null ? encodings.get(value) : undefined;
  // The address of memory that was freed cannot be read.
  return encoded?.memory.address === undefined ? undefined : encoded.bytes;
}

/**
 * A description of a tensor in device memory, which a kernel takes as a `const __grid_constant__ CUtensorMap` to copy
 * boxes of the tensor with `cp.async.bulk.tensor`. Comes from `CudaDevice.createTensorMap`. It owns nothing: when the
 * memory has been freed, it cannot be used any more.
 */
export class TensorMap {
  /** The type of the elements. */
  readonly dtype: TensorMapType;
  /** The size of the tensor in each dimension. */
  readonly shape: readonly number[];

  static {
    printAs(this, "TensorMap", (map) => {
      const state = isFreed(map) ? ", memory freed" : "";
      return `TensorMap { ${map.dtype}[${map.shape.join(", ")}]${state} }`;
    }, ["dtype", "shape", ["freed", isFreed]]);
  }

  /**
   * Tensor maps come from `CudaDevice.createTensorMap`.
   *
   * @ignore
   */
  constructor(encoded: Encoded, tensor: { readonly dtype: TensorMapType; readonly shape: readonly number[] }) {
    if (encoded?.bytes === undefined) refuseConstruction("TensorMap", "CudaDevice.createTensorMap");
    this.dtype = tensor.dtype;
    this.shape = tensor.shape;
    encodings.set(this, encoded);
  }

  /**
   * A copy of the 128 bytes of the `CUtensorMap`, for a struct or for memory from which a kernel reads it. Their address
   * there must be a multiple of 64.
   *
   * @throws {ReferenceError} If the memory was freed
   */
  get bytes(): Uint8Array<ArrayBuffer> {
    return bytesOfTensorMap(this)!.slice();
  }
}

/** Whether the memory that a tensor map describes was freed. */
function isFreed(map: TensorMap): boolean {
  const { memory } = encodings.get(map)!;
  const { isFreed, session } = allocationOf(memory instanceof PitchedArray ? memory.buffer as DeviceBuffer : memory);
  return isFreed || session.hasEnded;
}

/** Implements `CudaDevice.createTensorMap`. */
export function createTensorMap(
  memory: TensorMemory,
  given: TensorMapOptions,
  { session, device }: { session: Session; device: CudaDevice },
): TensorMap {
  const buffer = memory instanceof PitchedArray ? memory.buffer : memory;
  if (!(buffer instanceof DeviceBuffer)) {
    throw new TypeError(
      `Cannot create a tensor map of ${whatIs(memory, "DeviceBuffer", "DeviceArray", "PitchedArray")}: give a ` +
        "DeviceBuffer, a DeviceArray or a PitchedArray of device memory",
    );
  }
  if (allocationOf(buffer).session !== session) throw errorOfAnotherCuda("create a tensor map of memory");
  checkOptions(given, options);
  const dtype = typeOf(memory, given.dtype);
  const { im2col, interleave = "none" } = given;
  const slice = sliceBytes[interleave] ?? 0;
  if (slice > 0 && given.shape === undefined) {
    throw new TypeError(
      `Cannot create a tensor map of interleaved channels: give { shape } of slices of ${slice} bytes`,
    );
  }
  const shape = given.shape ?? shapeOf(memory);
  if ((given.box === undefined) === (im2col === undefined)) {
    throw new TypeError(
      "Cannot create a tensor map: give either the size of the box, as in { box: [64, 64] }, or im2col",
    );
  }
  if (!Array.isArray(shape)) {
    throw new TypeError(`Cannot use ${whatIs(shape)} as a tensor map's shape: give an array of 1 to 5 numbers`);
  }
  const [least, rank] = [im2col === undefined && slice === 0 ? 1 : 3, shape.length];
  if (rank < least || rank > 5) refuse(`the shape has ${rank} dimensions, and ${least} to 5 are possible`);
  checkSizes(shape, "shape", { least: 1, most: 2 ** 32, count: rank });
  const tensor = tensorOf(memory, given, { dtype, shape });
  checkExtent(tensor, buffer, { address: memory.address, bytes: slice || types[dtype][1] });
  const { driver } = session;
  try {
    const bytes = im2col === undefined
      ? driver.tensorMapEncodeTiled(device.ordinal, tiled(tensor, given, dtype))
      : driver.tensorMapEncodeIm2col(
        device.ordinal,
        withPixels(tensor, im2col, { rank, swizzle: slice > 0 ? "none" : given.swizzle, dtype }),
      );
    return new TensorMap({ bytes, memory }, { dtype, shape: [...shape] });
  } catch (error) {
    throw cannot(`create a tensor map on device ${device.ordinal}`, error);
  }
}

function refuse(why: string): never {
  throw new RangeError(`Cannot create a tensor map: ${why}`);
}

/** Returns the type of a tensor's elements. */
function typeOf(memory: TensorMemory, given: string | undefined): TensorMapType {
  if (given !== undefined) {
    if (Object.hasOwn(types, given)) return given as TensorMapType;
    throw new TypeError(`Cannot use ${shown(given)} as a tensor map's dtype${didYouMean(given, Object.keys(types))}`);
  }
  const own = memory instanceof DeviceArray
    ? memory.dtype
    : memory instanceof PitchedArray
    ? dtypeOfType(memory.type)
    : undefined;
  if (own === undefined) throw new TypeError("Cannot create a tensor map of a buffer without a dtype: give { dtype }");
  const type = Object.hasOwn(types, own) ? own as TensorMapType : sameBits[own];
  if (type === undefined) {
    throw new TypeError(`Cannot create a tensor map of ${own} elements: give { dtype } of their bits`);
  }
  return type;
}

/** Returns the shape of the memory. */
function shapeOf(memory: TensorMemory): readonly number[] {
  if (memory instanceof DeviceArray) return memory.shape;
  if (!(memory instanceof PitchedArray)) {
    throw new TypeError("Cannot create a tensor map of a buffer without a shape: give { shape }");
  }
  const { width, height, depth } = memory;
  return depth > 1 ? [depth, height, width] : [height, width];
}

/** Throws unless there are `count` whole numbers in a range. */
function checkSizes(
  sizes: readonly number[],
  what: string,
  { least, most, count }: { least: number; most: number; count: number },
): void {
  if (!Array.isArray(sizes) || sizes.length !== count) {
    const given = Array.isArray(sizes) ? `[${sizes.join(", ")}]` : whatIs(sizes);
    throw new TypeError(`Cannot use ${given} as a tensor map's ${what}: give an array of ${countOf(count, "number")}`);
  }
  for (const size of sizes) {
    checkNumber(size, `a number of the ${what}`);
    if (!Number.isInteger(size) || size < least || size > most) {
      refuse(`the ${what} has ${shown(size)}, and whole numbers from ${least} to ${most} are possible`);
    }
  }
}

function choiceOf<Choices extends Readonly<Record<string, number>>>(
  choices: Choices,
  given: string,
  what: string,
): number {
  if (Object.hasOwn(choices, given)) return choices[given]!;
  const names = Object.keys(choices).map((name) => `"${name}"`).join(", ");
  throw new TypeError(`Cannot use ${shown(given)} as a tensor map's ${what}: give one of ${names}`);
}

type Tensor = Omit<TiledTensor, "boxDim">;

/** Returns the tensor, with its dimensions in CUDA's order, in which the first one varies fastest. */
function tensorOf(
  memory: TensorMemory,
  { strides, elementStrides, interleave = "none", swizzle = "none", l2Promotion = "none", fill = "zero" }:
    TensorMapOptions,
  { dtype, shape }: { dtype: TensorMapType; shape: readonly number[] },
): Tensor {
  const [dataType, elementBytes] = types[dtype];
  const rank = shape.length;
  const globalDim = shape.toReversed();
  if (strides !== undefined) checkSizes(strides, "strides", { least: 0, most: 2 ** 40 - 16, count: rank - 1 });
  const step = (sliceBytes[interleave] ?? 0) || elementBytes;
  const globalStrides = strides === undefined ? stridesOf(memory, globalDim, step) : strides.toReversed();
  const alignment = interleave === "32B" ? 32 : 16;
  for (const stride of globalStrides) {
    if (stride % alignment === 0) continue;
    refuse(
      `elements of a dimension are ${stride} bytes apart, which is not a multiple of ${alignment}: give other strides, ` +
        "or allocate rows with allocatePitched",
    );
  }
  if (elementStrides !== undefined) checkSizes(elementStrides, "elementStrides", { least: 1, most: 8, count: rank });
  const tensor: Tensor = {
    dataType,
    address: memory.address,
    globalDim,
    globalStrides,
    elementStrides: elementStrides === undefined ? globalDim.map(() => 1) : elementStrides.toReversed(),
    interleave: choiceOf(interleaves, interleave, "interleave"),
    swizzle: choiceOf(swizzles, swizzle, "swizzle"),
    l2Promotion: choiceOf(promotions, l2Promotion, "l2Promotion"),
    oobFill: choiceOf(fills, fill, "fill"),
  };
  if (fill === "nan" && !dtype.includes("float")) refuse(`elements of type ${dtype} cannot be NaN: leave fill out`);
  if (tensor.address % BigInt(alignment) !== 0n) {
    refuse(`the tensor begins at 0x${tensor.address.toString(16)}, which is not a multiple of ${alignment}`);
  }
  return tensor;
}

/** Returns the distances of adjacent elements in bytes, in CUDA's order. */
function stridesOf(memory: TensorMemory, dimensions: readonly number[], bytes: number): number[] {
  if (memory instanceof PitchedArray) return [memory.pitch, memory.slicePitch].slice(0, dimensions.length - 1);
  let stride = bytes;
  return dimensions.slice(0, -1).map((size) => stride *= size);
}

/** Throws unless the whole tensor is in the memory. */
function checkExtent(
  { globalDim, globalStrides }: Tensor,
  buffer: DeviceBuffer,
  { address, bytes }: { address: bigint; bytes: number },
): void {
  const last = globalStrides.reduce((sum, stride, index) => sum + stride * (globalDim[index + 1]! - 1), 0);
  const end = last + globalDim[0]! * bytes;
  const room = buffer.byteLength - Number(address - buffer.address);
  if (end > room) refuse(`the tensor has ${end} bytes from its first element on, and the memory has ${room}`);
}

/** Throws unless the rows of a box have a size that a copy can have. */
function checkRows(elements: number, dtype: TensorMapType, swizzle: keyof typeof swizzles = "none"): void {
  const bytes = elements * types[dtype][1];
  if (bytes % 16 !== 0) refuse(`a row of the box has ${bytes} bytes, which is not a multiple of 16`);
  if (bytes > swizzleBytes[swizzle]) {
    refuse(`a row of the box has ${bytes} bytes, and the swizzle "${swizzle}" allows at most ${swizzleBytes[swizzle]}`);
  }
}

function tiled(tensor: Tensor, { box, swizzle, interleave }: TensorMapOptions, dtype: TensorMapType): TiledTensor {
  checkSizes(box!, "box", { least: 1, most: 256, count: tensor.globalDim.length });
  checkRows(box!.at(-1)!, dtype, interleave === undefined || interleave === "none" ? swizzle : "none");
  return { ...tensor, boxDim: box!.toReversed() };
}

function withPixels(
  tensor: Tensor,
  given: PixelBoxOptions,
  { rank, swizzle, dtype }: { rank: number; swizzle: keyof typeof swizzles | undefined; dtype: TensorMapType },
): Im2colTensor {
  checkOptions(given, pixelOptions);
  const { lowerCorner, upperCorner, channels, pixels } = given;
  const limit = [2 ** 15, 2 ** 7, 2 ** 4][rank - 3]!;
  checkSizes(lowerCorner, "lowerCorner", { least: -limit, most: limit - 1, count: rank - 2 });
  checkSizes(upperCorner, "upperCorner", { least: -limit, most: limit - 1, count: rank - 2 });
  checkSizes([channels], "channels", { least: 1, most: 256, count: 1 });
  checkSizes([pixels], "pixels", { least: 1, most: 1024, count: 1 });
  checkRows(channels, dtype, swizzle);
  return {
    ...tensor,
    pixelBoxLowerCorner: lowerCorner.toReversed(),
    pixelBoxUpperCorner: upperCorner.toReversed(),
    channelsPerPixel: channels,
    pixelsPerColumn: pixels,
  };
}
