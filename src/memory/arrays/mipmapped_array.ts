/**
 * Mipmapped arrays: arrays in several sizes, each half as large as the one before.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { cannot } from "../../support/driver_errors.ts";
import { printAs } from "../../support/printing.ts";
import { RangeError, ReferenceError } from "../../support/program_errors.ts";
import { checkNumber, checkOptions, type KnownOptions, refuseConstruction } from "../../support/validation.ts";
import type { Extent } from "../pitched_array.ts";
import {
  type ArrayFormat,
  arrayOptionNames,
  type ArrayShape,
  checkFormat,
  type CudaArrayOptions,
  descriptorOf,
  shapeOf,
} from "./array_format.ts";
import { type ArrayState, CudaArray, extentsText } from "./cuda_array.ts";
import { TrackedHandle, type UsedHandle } from "./tracked_handle.ts";

/** Options of a new mipmapped array. */
export interface MipmappedArrayOptions extends CudaArrayOptions {
  /** The number of levels. Defaults to all, of which the last one has a single element. */
  levels?: number;
}

const mipmappedArrayOptions: KnownOptions<MipmappedArrayOptions> = {
  action: "create a mipmapped array",
  names: { ...arrayOptionNames, levels: true },
};

const refusalToClone = cloneRefusal("a CudaMipmappedArray", openInWorker);

/** Returns what the library knows of a mipmapped array. Throws if it was disposed. */
export let stateOfMipmappedArray: (array: CudaMipmappedArray) => ArrayState;

/**
 * An array in several sizes, for textures that kernels read at a level of detail: each level has half the extents of the
 * one before. Comes from `CudaDevice.createMipmappedArray`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
 */
export class CudaMipmappedArray implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device that the memory is on. */
  readonly device: CudaDevice;
  /** The number of levels. */
  readonly levels: number;
  readonly #session: Session;
  readonly #format: ArrayFormat;
  readonly #shape: ArrayShape;
  readonly #memory: TrackedHandle;
  readonly #levels: CudaArray[] = [];

  static {
    stateOfMipmappedArray = (array) => {
      array.#checkUsable();
      return { session: array.#session, memory: array.#memory, shape: array.#shape };
    };
    printAs(this, "CudaMipmappedArray", (array) => {
      const state = array.#isGone ? ", disposed" : "";
      return `CudaMipmappedArray { device ${array.device.ordinal}, ${array.#format}, ${
        extentsText(array.#shape)
      }, ${array.levels} levels${state} }`;
    }, ["device", "levels", ["disposed", (array) => array.#isGone]]);
  }

  /**
   * Mipmapped arrays come from `CudaDevice.createMipmappedArray`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, format, shape, memory, levels }: {
      device: CudaDevice;
      format: ArrayFormat;
      shape: ArrayShape;
      memory: TrackedHandle;
      levels: number;
    } = {} as never,
  ) {
    if (session?.opened === undefined) refuseConstruction("CudaMipmappedArray", "CudaDevice.createMipmappedArray");
    this.#session = session;
    this.device = device;
    this.levels = levels;
    this.#format = format;
    this.#shape = shape;
    this.#memory = memory;
  }

  get #isGone(): boolean {
    return this.#memory.isDisposed || this.#session.hasEnded;
  }

  #checkUsable(): void {
    if (this.#memory.isDisposed) {
      throw new ReferenceError(
        `Cannot use the mipmapped array of ${extentsText(this.#shape)} elements: it was disposed`,
      );
    }
  }

  /** The format of each channel. */
  get format(): ArrayFormat {
    return this.#format;
  }

  /**
   * The driver's handle, a `cudaMipmappedArray_t`, for calling CUDA directly. It is still owned by this object.
   *
   * @throws {ReferenceError} If the array was disposed
   */
  get unsafeHandle(): bigint {
    this.#checkUsable();
    return this.#memory.handle;
  }

  /**
   * Returns a level as an array, which shares the memory. Disposing of it does nothing.
   *
   * @param index The number of the level. 0 is the largest.
   * @throws {TypeError} If `index` is not a number
   * @throws {RangeError} If there is no such level
   * @throws {ReferenceError} If the array was disposed
   */
  level(index: number): CudaArray {
    this.#checkUsable();
    checkNumber(index, "the number of a level");
    if (!Number.isInteger(index) || index < 0 || index >= this.levels) {
      throw new RangeError(
        `Cannot return level ${index} of a mipmapped array: it has the levels 0 to ${this.levels - 1}`,
      );
    }
    return this.#levels[index] ??= this.#createLevel(index);
  }

  #createLevel(index: number): CudaArray {
    const { device } = this;
    const memory = this.#memory;
    const handle = this.#session.driver.mipmappedArrayGetLevel(device.ordinal, memory.handle, index);
    const level: UsedHandle = {
      handle,
      get isDisposed() {
        return memory.isDisposed;
      },
      noteUse: (stream: CudaStream) => memory.noteUse(stream),
      hold: () => memory.hold(),
    };
    const shape = shapeOfLevel(this.#shape, index);
    return new CudaArray(this.#session, { device, format: this.#format, shape, memory: level, dispose: undefined });
  }

  /** Frees the memory when the work that uses it is done, without waiting for it. */
  [Symbol.dispose](): void {
    this.#memory.dispose();
  }
}

/** Returns the shape of a level. */
export function shapeOfLevel(shape: ArrayShape, level: number): ArrayShape {
  const sizeOf = (extent: number) => Math.max(1, Math.floor(extent / 2 ** level));
  const depth = shape.dimensions === 3 ? sizeOf(shape.depth) : shape.depth;
  return { ...shape, width: sizeOf(shape.width), height: sizeOf(shape.height), depth };
}

/** Creates a mipmapped array with `cudaMallocMipmappedArray`. */
export function createMipmappedArray(
  session: Session,
  device: CudaDevice,
  { format, size, options }: { format: ArrayFormat; size: Extent; options: MipmappedArrayOptions },
): CudaMipmappedArray {
  checkOptions(options, mipmappedArrayOptions);
  checkFormat(format, mipmappedArrayOptions.action);
  const shape = shapeOf(size, options);
  const longest = Math.max(shape.width, shape.height, shape.dimensions === 3 ? shape.depth : 1);
  const most = 1 + Math.floor(Math.log2(longest));
  const { levels = most } = options;
  checkNumber(levels, "the number of levels");
  if (!Number.isInteger(levels) || levels < 1 || levels > most) {
    throw new RangeError(
      `Cannot create a mipmapped array of ${extentsText(shape)} elements with ${levels} levels: give 1 to ${most}`,
    );
  }
  let handle: bigint;
  try {
    handle = session.driver.mipmappedArrayCreate(device.ordinal, descriptorOf(format, shape), levels);
  } catch (error) {
    const what = `create a mipmapped array of ${extentsText(shape)} elements on device ${device.ordinal}`;
    throw cannot(what, error, "extents have limits, which the device's attributes such as maxTexture2DWidth tell");
  }
  const memory = new TrackedHandle(session, {
    handle,
    kind: "mipmapped array",
    release: (driver, handle) => driver.mipmappedArrayDestroy(device.ordinal, handle),
  });
  return new CudaMipmappedArray(session, { device, format, shape, memory, levels });
}
