/**
 * Texture objects, by which kernels read arrays and other memory.
 *
 * @module
 */
import { arrayFormat, type ResourceView, type TextureResource } from "../../driver.ts";
import type { Allocation } from "../../memory/allocation.ts";
import {
  type ArrayFormat,
  type ArrayShape,
  channelBytes,
  checkChannels,
  checkFormat,
} from "../../memory/arrays/array_format.ts";
import { CudaMipmappedArray, shapeOfLevel, stateOfMipmappedArray } from "../../memory/arrays/mipmapped_array.ts";
import { CudaArray, extentsText, stateOfArray } from "../../memory/arrays/cuda_array.ts";
import { TrackedHandle, type UsedHandle, usedTogether } from "../../memory/arrays/tracked_handle.ts";
import type { DeviceArray } from "../../memory/device_array.ts";
import { allocationOf } from "../../memory/device_buffer.ts";
import { allocationOfRows, PitchedArray } from "../../memory/pitched_array.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { cannot } from "../../support/driver_errors.ts";
import { countOf, printAs } from "../../support/printing.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";
import {
  checkNumber,
  checkOptions,
  errorOfAnotherCuda,
  refuseConstruction,
  type TypedArray,
  whatIs,
} from "../../support/validation.ts";
import type { CudaDevice } from "../cuda_device.ts";
import type { CudaStream } from "../streams/cuda_stream.ts";
import {
  descriptionOf,
  type TextureKind,
  type TextureOptions,
  textureOptions,
  type TextureView,
  viewOptions,
} from "./texture_options.ts";

/** Memory that a texture can read. */
export type TextureSource = CudaArray | CudaMipmappedArray | PitchedArray<TypedArray> | DeviceArray<TypedArray>;

/** What the library knows of a texture or surface that a kernel gets. */
export interface KernelObjectState {
  /** The texture or surface. */
  readonly object: object;
  readonly session: Session;
  readonly handle: bigint;
  /** The memory of a buffer that it reads. Undefined for an array. */
  readonly allocation: Allocation | undefined;
  noteUse(stream: CudaStream): void;
  /** Keeps the handle, and the array, until the returned function is called, even if they are disposed. */
  hold(): () => void;
}

/** Returns what the library knows of a texture. Undefined for another value. Throws if it was disposed. */
export let stateOfTexture: (value: unknown) => KernelObjectState | undefined;

const refusalToClone = cloneRefusal("a CudaTexture", openInWorker);

/**
 * What a kernel reads with functions such as `tex2D`: pass it to a launch for a `cudaTextureObject_t`. Comes from
 * `CudaDevice.createTexture`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TEXTURE__OBJECT.html
 *
 * @example
 * ```ts ignore
 * using image = gpu.createArray("u8", [512, 512]);
 * image.copyFrom(new Uint8Array(512 * 512), stream);
 * using texture = gpu.createTexture(image, { readMode: "normalized-float", filterMode: "linear" });
 * kernel.launch({ grid: 512, block: 512, stream }, buffer, texture);
 * ```
 */
export class CudaTexture implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device whose kernels can use the texture. */
  readonly device: CudaDevice;
  /** What the texture reads. */
  readonly source: TextureSource;
  readonly #session: Session;
  readonly #memory: UsedHandle | undefined;
  readonly #allocation: Allocation | undefined;
  readonly #own: TrackedHandle;

  static {
    stateOfTexture = (value) => {
      const isTexture = typeof value === "object" && value !== null && #session in value;
      return isTexture ? value.#state() : undefined;
    };
    printAs(this, "CudaTexture", (texture) => {
      const { source, device } = texture;
      const what = `${source.constructor.name} ${extentsText({ ...sizeOf(source) })}`;
      return `CudaTexture { device ${device.ordinal}, ${what}${texture.#isGone ? ", disposed" : ""} }`;
    }, ["device", "source", ["disposed", (texture) => texture.#isGone]]);
  }

  /**
   * Textures come from `CudaDevice.createTexture`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, source, handle, memory, allocation }: {
      device: CudaDevice;
      source: TextureSource;
      handle: bigint;
      memory: UsedHandle | undefined;
      allocation: Allocation | undefined;
    } = {} as never,
  ) {
    if (session?.opened === undefined) refuseConstruction("CudaTexture", "CudaDevice.createTexture");
    this.#session = session;
    this.device = device;
    this.source = source;
    this.#memory = memory;
    this.#allocation = allocation;
    this.#own = new TrackedHandle(session, {
      handle,
      kind: "texture",
      release: (driver, handle) => driver.texObjectDestroy(device.ordinal, handle),
    });
  }

  get #isGone(): boolean {
    return this.#own.isDisposed || this.#memory?.isDisposed === true || this.#session.hasEnded;
  }

  /**
   * The `cudaTextureObject_t`, which kernels get. It is still owned by this object.
   *
   * @throws {ReferenceError} If the texture or what it reads was disposed
   */
  get unsafeHandle(): bigint {
    return this.#state().handle;
  }

  #state(): KernelObjectState {
    const { handle, isDisposed } = this.#own;
    if (isDisposed) throw new ReferenceError("Cannot use a texture: it was disposed");
    if (this.#memory?.isDisposed) {
      throw new ReferenceError("Cannot use a texture: the array that it reads was disposed");
    }
    if (this.#allocation?.isFreed) throw new ReferenceError("Cannot use a texture: the buffer that it reads was freed");
    return {
      object: this,
      session: this.#session,
      handle,
      allocation: this.#allocation,
      ...usedTogether(this.#own, this.#memory),
    };
  }

  /** Destroys the texture when the kernels and graphs that use it are done with it, without waiting for them. */
  [Symbol.dispose](): void {
    this.#own.dispose();
  }
}

function sizeOf(source: TextureSource): { width: number; height: number; depth: number } {
  if (source instanceof CudaMipmappedArray) return stateOfMipmappedArray(source).shape;
  return "width" in source ? source : { width: source.length, height: 1, depth: 1 };
}

/** The formats of the elements of typed arrays. */
const formatsOfElements: Readonly<Record<string, ArrayFormat>> = {
  Uint8Array: "u8",
  Uint8ClampedArray: "u8",
  Uint16Array: "u16",
  Uint32Array: "u32",
  Int8Array: "s8",
  Int16Array: "s16",
  Int32Array: "s32",
  Float16Array: "f16",
  Float32Array: "f32",
};

/** What a texture of a source reads, and what its options depend on. */
interface FoundResource extends TextureKind {
  readonly resource: TextureResource;
  readonly session: Session;
  readonly memory: UsedHandle | undefined;
  readonly allocation: Allocation | undefined;
  /** The shape of an array. Undefined for other memory. */
  readonly shape: ArrayShape | undefined;
  readonly channels: 1 | 2 | 4;
}

function resourceOf(source: TextureSource, channels: 1 | 2 | 4): FoundResource {
  if (source instanceof CudaArray || source instanceof CudaMipmappedArray) {
    const isMipmapped = source instanceof CudaMipmappedArray;
    const { session, memory, shape } = isMipmapped ? stateOfMipmappedArray(source) : stateOfArray(source);
    return {
      resource: isMipmapped ? { mipmappedArray: memory.handle } : { array: memory.handle },
      session,
      memory,
      shape,
      allocation: undefined,
      format: source.format,
      channels: shape.channels,
      levels: isMipmapped ? source.levels : 1,
      isLinear: false,
    };
  }
  checkChannels(channels, "create a texture");
  const allocation = allocationOf(source as unknown) ?? allocationOfRows(source);
  const type = (source as Partial<PitchedArray | DeviceArray<TypedArray>>)?.type;
  if (allocation === undefined || type === undefined) {
    const isHost = source instanceof PitchedArray;
    throw new TypeError(
      `Cannot create a texture of ${isHost ? "rows in host memory" : whatIs(source, "CudaArray")}: give a CudaArray, ` +
        "rows of a DeviceBuffer, or a DeviceArray",
    );
  }
  const format = formatsOfElements[type.name];
  if (format === undefined) {
    throw new TypeError(`Cannot create a texture of a ${type.name}: its elements have more than 32 bits`);
  }
  const texelBytes = channelBytes(format) * channels;
  const ofBuffer = { memory: undefined, shape: undefined, levels: 1 } as const;
  const common = { ...ofBuffer, session: allocation.session, allocation, format, channels };
  const memory = { address: source.address, format: arrayFormat[format], channels };
  if (source instanceof PitchedArray) {
    const { width, height, depth, pitch } = source;
    if (depth !== 1) {
      throw new RangeError("Cannot create a texture of rows in slices: use an array for three dimensions");
    }
    if (width % channels !== 0) {
      throw new RangeError(`Cannot create a texture of rows of ${width} elements with ${channels} channels`);
    }
    const extent = { width: width / channels, height, pitch };
    return { ...common, resource: { ...memory, extent }, isLinear: false };
  }
  const { byteLength } = source;
  if (byteLength % texelBytes !== 0) {
    throw new RangeError(`Cannot create a texture of ${byteLength} bytes with texels of ${texelBytes} bytes`);
  }
  return { ...common, resource: { ...memory, extent: byteLength }, isLinear: true };
}

/** Creates a texture with `cudaCreateTextureObject`. */
export function createTexture(
  session: Session,
  device: CudaDevice,
  { source, options }: { source: TextureSource; options: TextureOptions },
): CudaTexture {
  const { channels = 1 } = Object(options) as TextureOptions;
  const found = resourceOf(source, channels);
  if (found.session !== session) throw errorOfAnotherCuda("create a texture");
  checkOptions(options, textureOptions);
  const view = viewOf(options.view, found);
  const shown = view === undefined ? found : { ...found, format: formatNamed(view.format) };
  const levels = view === undefined ? found.levels : view.lastLevel - view.firstLevel + 1;
  const description = descriptionOf(options, { ...shown, levels });
  const isMipmapped = source instanceof CudaMipmappedArray;
  if (isMipmapped && options.normalizedCoordinates !== true) {
    throw new RangeError("Cannot create a texture of a mipmapped array: set normalizedCoordinates: true");
  }
  if ((isMipmapped || source instanceof CudaArray) && source.device !== device) {
    throw new RangeError(
      `Cannot create a texture on device ${device.ordinal}: the array is on device ${source.device.ordinal}`,
    );
  }
  let handle: bigint;
  try {
    handle = session.driver.texObjectCreate(device.ordinal, found.resource, description, view);
  } catch (error) {
    throw cannot(`create a texture on device ${device.ordinal}`, error, hintOf(found));
  }
  return new CudaTexture(session, { device, source, handle, memory: found.memory, allocation: found.allocation });
}

/** Returns the part of an array that a texture shows. Undefined for all of it. */
function viewOf(
  options: TextureView | undefined,
  { shape, format, channels, levels }: FoundResource,
): ResourceView | undefined {
  if (options === undefined) return undefined;
  checkOptions(options, viewOptions);
  if (shape === undefined) {
    throw new RangeError("Cannot create a texture of a buffer with a view: view another part of the buffer instead");
  }
  const layers = shape.layered || shape.cubemap ? shape.depth : 1;
  const { format: viewFormat = format, channels: viewChannels = channels } = options;
  const { firstLevel = 0, lastLevel = levels - 1, firstLayer = 0, lastLayer = layers - 1 } = options;
  checkFormat(viewFormat, "view an array");
  checkChannels(viewChannels, "view an array");
  if (channelBytes(viewFormat) * viewChannels !== channelBytes(format) * channels) {
    throw new RangeError(
      `Cannot view elements of ${channelBytes(format) * channels} bytes as "${viewFormat}" with ${
        countOf(viewChannels, "channel")
      }`,
    );
  }
  if (viewFormat.includes("norm")) {
    throw new RangeError(
      `Cannot view an array as "${viewFormat}": use "u8" or the like, and readMode "normalized-float"`,
    );
  }
  checkPart([firstLevel, lastLevel], levels, "levels");
  checkPart([firstLayer, lastLayer], layers, "layers");
  const { width, height, depth, dimensions } = shapeOfLevel(shape, firstLevel);
  return {
    format: arrayFormat[viewFormat],
    channels: viewChannels,
    width,
    height: dimensions === 1 ? 0 : height,
    depth: dimensions === 3 ? depth : 0,
    firstLevel,
    lastLevel,
    firstLayer,
    lastLayer,
  };
}

function checkPart([first, last]: readonly [number, number], count: number, what: string): void {
  for (const number of [first, last]) checkNumber(number, `the number of one of the ${what}`);
  const isPart = Number.isInteger(first) && Number.isInteger(last) && first >= 0 && first <= last && last < count;
  if (!isPart) {
    throw new RangeError(
      `Cannot view the ${what} ${first} to ${last} of an array: it has those from 0 to ${count - 1}`,
    );
  }
}

function formatNamed(format: number): ArrayFormat {
  return (Object.keys(arrayFormat) as ArrayFormat[]).find((name) => arrayFormat[name] === format)!;
}

function hintOf({ resource }: FoundResource): string | undefined {
  if (!("address" in resource)) return undefined;
  const aligned = "the first element must be at a multiple of the device's attribute textureAlignment";
  return typeof resource.extent === "number" ? aligned : `${aligned}, and rows at multiples of texturePitchAlignment`;
}
