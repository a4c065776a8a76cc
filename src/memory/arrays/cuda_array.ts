/**
 * CUDA arrays: memory for textures and surfaces.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../../objects/streams/cuda_stream.ts";
import {
  type KnownStreamOptions,
  optionsOf,
  type OrStream,
  type StreamOption,
} from "../../objects/streams/stream_option.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal } from "../../support/cloning.ts";
import { cannot } from "../../support/driver_errors.ts";
import { printAs } from "../../support/printing.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";
import {
  checkArrayType,
  checkOptions,
  errorOfAnotherCuda,
  refuseConstruction,
  type TypedArray,
  type TypedArrayConstructor,
  whatIs,
} from "../../support/validation.ts";
import { checkNotTransferred } from "../buffer_arguments.ts";
import { allocationOf, type DeviceBuffer } from "../device_buffer.ts";
import {
  checkedExtents,
  type Extent,
  type Origin,
  PitchedArray,
  placeOfRows,
  sessionOfRows,
  setIsCudaArray,
} from "../pitched_array.ts";
import { bytesOfHost, HostBuffer, sessionOfHost } from "../transfers/host_buffer.ts";
import { type RowsShape, withoutGaps } from "../transfers/rows.ts";
import { type ArrayCopyEnd, enqueueArrayCopy, enqueueBytes, type PlaceInArray, readArray } from "./array_copies.ts";
import {
  type ArrayFormat,
  arrayOptions,
  type ArrayShape,
  channelBytes,
  checkChannelType,
  checkFormat,
  type CudaArrayOptions,
  descriptorOf,
  shapeOf,
} from "./array_format.ts";
import { TrackedHandle, type UsedHandle } from "./tracked_handle.ts";

/** Options of a copy to an array. */
export interface ArrayCopyOptions extends StreamOption {
  /** Where the copy begins in the array: the element, the row, and the slice or layer. Defaults to the first one. */
  origin?: Origin;
}

const copyFromOptions: KnownStreamOptions<ArrayCopyOptions> = {
  action: "copy to an array",
  names: { stream: true, origin: true },
  usage: "copyFrom(source, stream) or copyFrom(source, { stream })",
};
const copyToOptions: KnownStreamOptions<StreamOption> = {
  action: "copy an array",
  names: { stream: true },
  usage: "copyTo(target, stream) or copyTo(target, { stream })",
};
const readOptions: KnownStreamOptions<StreamOption> = {
  action: "read an array",
  names: { stream: true },
  usage: "read(type, stream) or read(type, { stream })",
};

const refusalToClone = cloneRefusal(
  "a CudaArray",
  "its memory belongs to the Cuda object of this thread; send a copy, such as await array.read(Float32Array)",
);

/** What the library knows of an array. */
export interface ArrayState {
  readonly session: Session;
  readonly memory: UsedHandle;
  readonly shape: ArrayShape;
}

/** Returns what the library knows of an array. Throws if it was disposed. */
export let stateOfArray: (array: CudaArray) => ArrayState;

/** A checked copy with an array at one end at least. */
export interface CheckedArrayCopy {
  readonly from: ArrayCopyEnd;
  readonly to: ArrayCopyEnd;
  readonly size: RowsShape;
}

/** A copy between an array and other memory. */
type ArrayCopyOther = DeviceBuffer | HostBuffer | PitchedArray<TypedArray> | CudaArray;

/**
 * Checks a copy of all of an array, or of memory of its size or of other rows from its first element on. One end at
 * least is an array.
 */
export let checkArrayEnds: (source: ArrayCopyOther, target: ArrayCopyOther) => CheckedArrayCopy;
/** Checks a copy of the elements of a typed array to all of an array. */
export let checkElementsForArray: (source: TypedArray, target: CudaArray) => { to: PlaceInArray; size: RowsShape };

/**
 * Memory for textures and surfaces, in a layout of CUDA's own. It has no address and cannot be shared with other
 * processes. Comes from `CudaDevice.createArray`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
 *
 * @example
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * using array = cuda.device(0).createArray("f32", [64, 32]);
 * array.copyFrom(new Float32Array(64 * 32).fill(1));
 * console.log((await array.read(Float32Array)).length); // 2048
 * ```
 */
export class CudaArray implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device that the memory is on. */
  readonly device: CudaDevice;
  /** The format of each channel. */
  readonly format: ArrayFormat;
  /** The number of channels of an element. */
  readonly channels: 1 | 2 | 4;
  /** The number of elements in a row. */
  readonly width: number;
  /** The number of rows in a slice. */
  readonly height: number;
  /** The number of slices or layers. The faces of a cubemap are layers. */
  readonly depth: number;
  readonly #session: Session;
  readonly #shape: ArrayShape;
  readonly #memory: UsedHandle;
  readonly #dispose: (() => void) | undefined;
  #stream: CudaStream;

  static {
    setIsCudaArray((value) => typeof value === "object" && value !== null && #session in value);
    stateOfArray = (array) => {
      array.#checkUsable();
      return { session: array.#session, memory: array.#memory, shape: array.#shape };
    };
    checkArrayEnds = (source, target) =>
      target instanceof CudaArray ? target.#endsFrom(source, [0, 0, 0]) : (source as CudaArray).#endsTo(target);
    checkElementsForArray = (source, target) => {
      target.#checkUsable();
      return target.#endFromElements(source, [0, 0, 0]);
    };
    printAs(this, "CudaArray", (array) => {
      const { format, channels, device } = array;
      const state = array.#isGone ? ", disposed" : "";
      const kinds = (["layered", "cubemap", "surface", "gather"] as const).filter((kind) => array.#shape[kind]);
      const text = [`${format}${channels === 1 ? "" : ` x ${channels}`}`, extentsText(array), ...kinds].join(", ");
      return `CudaArray { device ${device.ordinal}, ${text}${state} }`;
    }, [
      "device",
      "format",
      "channels",
      "width",
      "height",
      "depth",
      ["disposed", (array) => array.#isGone],
    ]);
  }

  /**
   * Arrays come from `CudaDevice.createArray` and `CudaMipmappedArray.level`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, format, shape, memory, dispose }: {
      device: CudaDevice;
      format: ArrayFormat;
      shape: ArrayShape;
      memory: UsedHandle;
      /** Frees the memory. Undefined for a level of a mipmapped array. */
      dispose: (() => void) | undefined;
    } = {} as never,
  ) {
    if (session?.opened === undefined) refuseConstruction("CudaArray", "CudaDevice.createArray");
    this.#session = session;
    this.#shape = shape;
    this.#memory = memory;
    this.#dispose = dispose;
    this.device = device;
    this.format = format;
    this.channels = shape.channels;
    this.width = shape.width;
    this.height = shape.height;
    this.depth = shape.depth;
    this.#stream = device.defaultStream;
  }

  get #isGone(): boolean {
    return this.#memory.isDisposed || this.#session.hasEnded;
  }

  /** The size of the elements in bytes, without gaps. */
  get byteLength(): number {
    return this.width * this.height * this.depth * this.#elementBytes;
  }

  get #elementBytes(): number {
    return channelBytes(this.format) * this.channels;
  }

  /** The stream of the methods that are given none. Initially the device's default stream. Can be set. */
  get stream(): CudaStream {
    return this.#stream;
  }

  set stream(stream: CudaStream) {
    checkStream(stream, this.#session);
    this.#stream = stream;
  }

  /**
   * The driver's handle, a `cudaArray_t`, for calling CUDA directly. It is still owned by this object.
   *
   * @throws {ReferenceError} If the array was disposed
   */
  get unsafeHandle(): bigint {
    this.#checkUsable();
    return this.#memory.handle;
  }

  #checkUsable(): void {
    if (this.#memory.isDisposed) {
      throw new ReferenceError(`Cannot use the array of ${extentsText(this)} elements: it was disposed`);
    }
  }

  /**
   * Copies elements to the array, in stream order. A typed array or a buffer has the elements in order and without
   * gaps, from `origin` to the end of the array. Rows and other arrays have a size of their own.
   *
   * A typed array may be changed as soon as this returns, unless it shows page-locked memory.
   *
   * @param source What to copy. Its elements are the array's channels.
   * @param options The stream, which defaults to the array's, and where the copy begins in the array.
   * @throws {RangeError} If the source does not have the size of the part
   * @throws {TypeError} If an argument has the wrong type, or the elements have another type
   * @throws {ReferenceError} If the array or the source was disposed
   */
  copyFrom(
    source: TypedArray | DeviceBuffer | HostBuffer | PitchedArray<TypedArray> | CudaArray,
    options: OrStream<ArrayCopyOptions> = {},
  ): void {
    const { stream: given, origin: givenOrigin = [0] } = checkedOptions(options, copyFromOptions);
    const origin = checkedExtents(givenOrigin, 0, "the origin of a copy");
    const stream = this.#checkedStream(given, copyFromOptions);
    const action = `copy to ${this.#text()}`;
    if (ArrayBuffer.isView(source) && !(source instanceof DataView)) {
      const { to, size } = this.#endFromElements(source as TypedArray, origin);
      const bytes = new Uint8Array(source.buffer as ArrayBuffer, source.byteOffset, source.byteLength);
      return attempt(action, () => enqueueBytes(this.#session, bytes, to, { size, stream }));
    }
    const { from, to, size } = this.#endsFrom(source as ArrayCopyOther, origin);
    attempt(action, () => enqueueArrayCopy(this.#session, from, to, { size, stream }));
  }

  #endFromElements(source: TypedArray, origin: Required<Origin>): { to: PlaceInArray; size: RowsShape } {
    checkChannelType(this.format, source.constructor as TypedArrayConstructor<TypedArray>, "copy from");
    checkNotTransferred(source);
    return { to: this.#placeAt(origin), size: this.#restFrom(origin, source.byteLength) };
  }

  #endsFrom(source: ArrayCopyOther, origin: Required<Origin>): CheckedArrayCopy {
    this.#checkUsable();
    const { end, size } = this.#endOf(source, (byteLength) => this.#restFrom(origin, byteLength));
    this.#checkInside(origin, size);
    return { from: end, to: this.#placeAt(origin), size };
  }

  /**
   * Copies all elements of the array, in stream order: to a buffer of the same size, without gaps, to rows, or to an
   * array, from its first element on.
   *
   * @param target Where to copy. Its elements are the array's channels.
   * @param options The stream. Defaults to the array's.
   * @throws {RangeError} If the target has another size
   * @throws {TypeError} If an argument has the wrong type, or the elements have another type
   * @throws {ReferenceError} If the array or the target was disposed
   */
  copyTo(
    target: DeviceBuffer | HostBuffer | PitchedArray<TypedArray> | CudaArray,
    options: OrStream<StreamOption> = {},
  ): void {
    const stream = this.#checkedStream(checkedOptions(options, copyToOptions).stream, copyToOptions);
    if (ArrayBuffer.isView(target)) {
      throw new TypeError(`Cannot copy an array to ${whatIs(target, "HostBuffer")}: use read for a typed array`);
    }
    const { from, to, size } = this.#endsTo(target);
    attempt(`copy ${this.#text()}`, () => enqueueArrayCopy(this.#session, from, to, { size, stream }));
  }

  #endsTo(target: ArrayCopyOther): CheckedArrayCopy {
    this.#checkUsable();
    const whole = this.#size();
    const { end, size } = this.#endOf(target, (byteLength) => this.#restFrom([0, 0, 0], byteLength));
    if (size.width !== whole.width || size.height !== whole.height || size.depth !== whole.depth) {
      if (!(target instanceof CudaArray)) {
        throw new RangeError(
          `Cannot copy ${this.#text()} to rows of another size: give rows of ${extentsText(this)} elements`,
        );
      }
      this.#checkInside([0, 0, 0], size);
    }
    return { from: this.#placeAt([0, 0, 0]), to: end, size: whole };
  }

  /**
   * Returns a copy of the elements, in stream order and without blocking the event loop.
   *
   * @param type The class of the result, whose elements are the array's channels.
   * @param options The stream. Defaults to the array's.
   * @throws {TypeError} If an argument has the wrong type, or the elements have another type
   * @throws {ReferenceError} If the array or the stream was disposed
   */
  async read<T extends TypedArray>(type: TypedArrayConstructor<T>, options: OrStream<StreamOption> = {}): Promise<T> {
    checkArrayType(type);
    const stream = this.#checkedStream(checkedOptions(options, readOptions).stream, readOptions);
    checkChannelType(this.format, type, "read the array as");
    const place = this.#placeAt([0, 0, 0]);
    try {
      const bytes = await readArray(this.#session, place, { size: this.#size(), stream });
      return new type(bytes.buffer);
    } catch (error) {
      throw cannot(`read ${this.#text()}`, error);
    }
  }

  /**
   * Frees the array when the work that uses it is done, without waiting for it. Its textures and surfaces cannot be used
   * any more. Does nothing for a level of a mipmapped array.
   */
  [Symbol.dispose](): void {
    this.#dispose?.();
  }

  #checkedStream(given: CudaStream | undefined, { usage }: { readonly usage: string }): CudaStream {
    this.#checkUsable();
    const stream = given === undefined ? this.#stream : given;
    checkStream(stream, this.#session, usage);
    return stream;
  }

  #size(): RowsShape {
    return { width: this.width * this.#elementBytes, height: this.height, depth: this.depth };
  }

  #placeAt([x, y, z]: Required<Origin>): PlaceInArray {
    return { array: this.#memory, x: x * this.#elementBytes, y, z };
  }

  /** Returns the size of the part from an origin to the end, which has a number of bytes. */
  #restFrom([x, y, z]: Required<Origin>, byteLength: number): RowsShape {
    const size = {
      width: (this.width - x) * this.#elementBytes,
      height: this.height - y,
      depth: this.depth - z,
    };
    if (x >= this.width || y >= this.height || z >= this.depth) {
      throw new RangeError(`Cannot copy to (${x}, ${y}, ${z}) of an array: it has ${extentsText(this)} elements`);
    }
    const wanted = size.width * size.height * size.depth;
    if (byteLength !== wanted) {
      const from = x === 0 && y === 0 && z === 0 ? "" : ` from (${x}, ${y}, ${z}) on`;
      throw new RangeError(
        `Cannot copy ${byteLength} bytes: the array has ${wanted}${from}, in ${extentsText(this)} elements of ` +
          `${this.#elementBytes} bytes; use rows, as in buffer.pitched(type, size), for a part`,
      );
    }
    return size;
  }

  #checkInside([x, y, z]: Required<Origin>, { width, height, depth }: RowsShape): void {
    const right = x + width / this.#elementBytes;
    if (right <= this.width && y + height <= this.height && z + depth <= this.depth) return;
    const size = extentsText({ width: width / this.#elementBytes, height, depth });
    throw new RangeError(
      `Cannot copy ${size} elements to (${x}, ${y}, ${z}) of an array: it has ${extentsText(this)} elements`,
    );
  }

  /** Returns one end of a copy, and the size of the copy. `sizeOf` returns that of elements without gaps. */
  #endOf(other: unknown, sizeOf: (byteLength: number) => RowsShape): { end: ArrayCopyEnd; size: RowsShape } {
    if (other instanceof CudaArray) {
      const { session, memory } = stateOfArray(other);
      if (session !== this.#session) throw errorOfAnotherCuda("copy an array");
      if (other.#elementBytes !== this.#elementBytes) {
        throw new TypeError(
          `Cannot copy between arrays of "${other.format}" and "${this.format}": elements have ` +
            `${other.#elementBytes} and ${this.#elementBytes} bytes`,
        );
      }
      return { end: { array: memory, x: 0, y: 0, z: 0 }, size: other.#size() };
    }
    if (other instanceof PitchedArray) {
      if (sessionOfRows(other) !== this.#session) throw errorOfAnotherCuda("copy rows");
      checkChannelType(this.format, other.type, "copy rows of");
      const { place, shape } = placeOfRows(other);
      if (shape.width % this.#elementBytes !== 0) {
        throw new RangeError(`Cannot copy rows of ${shape.width} bytes: elements have ${this.#elementBytes} bytes`);
      }
      return { end: place, size: shape };
    }
    if (other instanceof HostBuffer) {
      if (sessionOfHost(other) !== this.#session) throw errorOfAnotherCuda("copy a host buffer");
      const bytes = bytesOfHost(other);
      const size = sizeOf(bytes.byteLength);
      return { end: { ...withoutGaps(size), bytes }, size };
    }
    const allocation = allocationOf(other);
    if (allocation === undefined) {
      throw new TypeError(
        `Cannot copy an array from or to ${whatIs(other)}: give a typed array, a buffer, rows or an array`,
      );
    }
    if (allocation.session !== this.#session) throw errorOfAnotherCuda("copy a buffer");
    const buffer = other as DeviceBuffer;
    const { address } = buffer;
    const size = sizeOf(buffer.byteLength);
    return { end: { ...withoutGaps(size), allocation, address }, size };
  }

  #text(): string {
    return `an array of ${extentsText(this)} elements on device ${this.device.ordinal}`;
  }
}

function checkedOptions<Options extends StreamOption>(
  given: OrStream<Options>,
  known: KnownStreamOptions<Options>,
): Options {
  const options = optionsOf(given);
  checkOptions(options, known);
  return options;
}

function attempt(action: string, enqueue: () => void): void {
  try {
    enqueue();
  } catch (error) {
    throw cannot(action, error);
  }
}

/** Returns a size as messages show it. */
export function extentsText({ width, height, depth }: { width: number; height: number; depth: number }): string {
  return [width, ...height > 1 || depth > 1 ? [height] : [], ...depth > 1 ? [depth] : []].join(" x ");
}

/** Creates an array with `cudaMalloc3DArray`. */
export function createArray(
  session: Session,
  device: CudaDevice,
  { format, size, options }: { format: ArrayFormat; size: Extent; options: CudaArrayOptions },
): CudaArray {
  checkOptions(options, arrayOptions);
  checkFormat(format, arrayOptions.action);
  const shape = shapeOf(size, options);
  let handle: bigint;
  try {
    handle = session.driver.arrayCreate(device.ordinal, descriptorOf(format, shape));
  } catch (error) {
    const what = `create an array of ${extentsText(shape)} elements of "${format}" on device ${device.ordinal}`;
    throw cannot(what, error, "extents have limits, which the device's attributes such as maxTexture2DWidth tell");
  }
  const memory = new TrackedHandle(session, {
    handle,
    kind: "array",
    release: (driver, handle) => driver.arrayDestroy(device.ordinal, handle),
  });
  return new CudaArray(session, { device, format, shape, memory, dispose: () => memory.dispose() });
}
