import { nameClass } from "../support/printing.ts";
import type { Allocation, AllocationPart } from "./allocation.ts";
import { checkStream, CudaStream } from "../objects/streams/cuda_stream.ts";
import { hasStreamAlone, namedOptions, type OrStream, type StreamOption } from "../objects/streams/stream_option.ts";
import { type CopyOptions, fillArrayOptions, fillElements, type FillOptions, fillRangeOf } from "./transfers/copies.ts";
import { addressForView, adviceInPlace, allocationOf, DeviceBuffer, setViewAs } from "./device_buffer.ts";
import {
  checkCopyBetween,
  checkCopyFromView,
  checkReadAs,
  elementBits,
  refuseElementAccess,
  typeOfData,
} from "./transfers/elements.ts";
import type { HostBuffer } from "./transfers/host_buffer.ts";
import type { ReadOptions } from "./transfers/reads.ts";
import { arrayLayout, type ArrayOptions, dtypeOfType, elementTypeOf } from "./dtypes.ts";
import { checkNumber, type TypedArray, type TypedArrayConstructor } from "../support/validation.ts";
import { addEntries, RangeError, TypeError } from "../support/program_errors.ts";

/**
 * A buffer of device memory whose elements have a type. Comes from `allocateArray` of a `MemoryPool` or a
 * `CachingAllocator`.
 */
export class DeviceArray<T extends TypedArray> extends DeviceBuffer {
  /** Number of elements. */
  readonly length: number;
  /** The element type, as the constructor of a typed array. */
  readonly type: TypedArrayConstructor<T>;
  /** The dtype and the shape. Undefined if the type and the length imply both. */
  readonly #layout: { readonly dtype?: string; readonly shape?: readonly number[] | undefined } | undefined;

  static {
    nameClass(this, "DeviceArray");
    addEntries(this);
    refuseElementAccess(this, {
      isInstance: (object) => allocationOf(object as unknown) !== undefined,
      read: "it is in device memory; copy it to the host with await array.toTypedArray()",
      write: "it is in device memory; use copyFrom, or fill",
      inPlace: adviceInPlace,
    });
    setViewAs((type, allocation, part, layout) => new DeviceArray(type, allocation, part, layout));
  }

  /**
   * Arrays come from `MemoryPool.allocateArray` and `CachingAllocator.allocateArray`.
   *
   * @ignore
   */
  constructor(
    type: TypedArrayConstructor<T>,
    allocation: Allocation,
    part?: AllocationPart,
    layout?: { readonly dtype?: string; readonly shape?: readonly number[] | undefined },
  ) {
    super(allocation, part);
    this.type = type;
    this.length = this.byteLength / type.BYTES_PER_ELEMENT;
    this.#layout = layout;
  }

  /**
   * The size of each dimension, in elements of the `dtype`; the last dimension varies fastest. The shape was given when
   * the array was allocated or viewed, or comes from a file or from the metadata of an offer. Otherwise, the array has
   * one dimension, its `length`.
   */
  get shape(): readonly number[] {
    return this.#layout?.shape ?? [this.length];
  }

  /**
   * The name of the element type, as array libraries call it, such as `"float32"`. If JavaScript has no typed array for
   * the element type, `type` shows the bits instead: an array of `"bfloat16"` has the type `Uint16Array`.
   */
  get dtype(): string {
    return this.#layout?.dtype ?? dtypeOfType(this.type);
  }

  /**
   * Copies all of `source` into the array, like `DeviceBuffer.copyFrom`. If `source` is a typed array or a
   * `DeviceArray`, its elements must have the array's own type, or be integers of the same size. Memory without an
   * element type is copied byte by byte. To copy the bytes of another type, copy to `array.as(type)`.
   *
   * @param source A typed array, a DataView, an ArrayBuffer, a HostBuffer, or a DeviceBuffer on any device.
   * @param options The stream to copy on, or an object that has it and says where in this array the copy starts. The
   * stream defaults to the array's own.
   * @throws {RangeError} If the source does not fit
   * @throws {TypeError} If `source` is not memory of a supported kind, or its element type does not match the array's
   * @throws {ReferenceError} If the array or the source was freed, or the stream was disposed
   */
  override copyFrom(
    source: ArrayBufferView | ArrayBuffer | HostBuffer | DeviceBuffer,
    options?: OrStream<CopyOptions>,
  ): void;
  /** @ignore */
  override copyFrom(
    source: ArrayBufferView | ArrayBuffer | HostBuffer | DeviceBuffer,
    stream: CudaStream | undefined,
    options: Omit<CopyOptions, "stream"> | undefined,
  ): void;
  override copyFrom(
    source: ArrayBufferView | ArrayBuffer | HostBuffer | DeviceBuffer,
    given?: OrStream<CopyOptions>,
    rest?: CopyOptions,
  ): void {
    if (ArrayBuffer.isView(source)) {
      if (source.constructor !== this.type) checkCopyFromView(source, this.type);
    } else if (source instanceof DeviceArray) checkCopyBetween(source.type, this.type);
    super.copyFrom(source, given as CudaStream, rest);
  }

  /**
   * Copies the array, from `byteOffset` to its end, to the start of `target`, like `DeviceBuffer.copyTo`. If `target`
   * is a `DeviceArray`, its elements must have the same type, or be integers of the same size.
   *
   * @param target A buffer at least as large as the copied bytes.
   * @param options The stream to copy on, or an object that has it and says where in this array the copy starts. The
   * stream defaults to the array's own.
   * @throws {RangeError} If the target is too small
   * @throws {TypeError} If `target` is not a HostBuffer or a DeviceBuffer, or its element type does not match the
   * array's
   * @throws {ReferenceError} If the array or the target was freed, or the stream was disposed
   */
  override copyTo(target: HostBuffer | DeviceBuffer, options?: OrStream<CopyOptions>): void;
  /** @ignore */
  override copyTo(
    target: HostBuffer | DeviceBuffer,
    stream: CudaStream | undefined,
    options: Omit<CopyOptions, "stream"> | undefined,
  ): void;
  override copyTo(target: HostBuffer | DeviceBuffer, given?: OrStream<CopyOptions>, rest?: CopyOptions): void {
    if (target instanceof DeviceArray) checkCopyBetween(this.type, target.type);
    super.copyTo(target, given as CudaStream, rest);
  }

  /**
   * Sets elements to a value, in stream order.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
   * @param value The value: a bigint for an array of bigints, otherwise a number.
   * @param options The stream to use, or an object that has it and says which elements to set: those from `begin` up to,
   * but not including, `end`. The stream defaults to the array's own, the elements to all.
   * @throws {RangeError} If the type cannot represent the value, or the range is not in the array
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the array was freed or the stream was disposed
   */
  override fill(value: number | bigint, options?: OrStream<FillOptions>): void;
  /** @ignore */
  override fill(
    value: number | bigint,
    stream: CudaStream | undefined,
    options: Omit<FillOptions, "stream"> | undefined,
  ): void;
  override fill(value: number | bigint, given?: OrStream<FillOptions>, rest?: FillOptions): void {
    const options = hasStreamAlone(given, rest) ? {} : namedOptions(given, rest, fillArrayOptions);
    const stream = given instanceof CudaStream ? given : options.stream === undefined ? this.stream : options.stream;
    const allocation = allocationOf(this);
    checkStream(stream, allocation.session, fillArrayOptions.usage);
    const { type, length } = this;
    const bits = elementBits(type, value);
    const size = type.BYTES_PER_ELEMENT;
    const { byteOffset, byteLength } = fillRangeOf(options, { length, size });
    const address = this.address + BigInt(byteOffset);
    if (byteLength > 0) fillElements({ allocation, address }, bits, { size, byteLength, stream });
  }

  /**
   * Returns a view of the elements from `begin` up to, but not including, `end`. The view shares the array's memory.
   * Only the whole array can be freed.
   *
   * @param begin Index of the first element. Unlike in a typed array, negative indices are not supported.
   * @param end Index after the last element. Defaults to the end of the array.
   * @throws {RangeError} If the range is not in the array
   */
  override subarray(begin: number, end: number = this.length): DeviceArray<T> {
    checkNumber(begin, "the begin of a subarray");
    checkNumber(end, "the end of a subarray");
    if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || begin > end || end > this.length) {
      const isFromEnd = Number.isInteger(begin) && begin < 0 && begin >= -this.length;
      const advice = isFromEnd
        ? `; indices do not count from the end: the last ${-begin} begin at ${this.length + begin}`
        : "";
      throw new RangeError(`Cannot view elements ${begin} to ${end} of an array: it has ${this.length}${advice}`);
    }
    const size = this.type.BYTES_PER_ELEMENT;
    const address = addressForView(this) + BigInt(begin * size);
    const part = { address, byteLength: (end - begin) * size, stream: this.stream };
    // Keep the dtype only if its elements have the size of the typed array's elements, in which `begin` and `end` are
    // counted.
    const keepsDtype = this.#layout?.dtype !== undefined && elementTypeOf(this.dtype)?.bits === 8 * size;
    return new DeviceArray(this.type, allocationOf(this), part, keepsDtype ? { dtype: this.dtype } : undefined);
  }

  /**
   * Returns a copy of the array's elements, like `DeviceBuffer.read`. `type` must be the array's own element type, any
   * unsigned integer type (to inspect the bits), or, for an array of integers, a signed integer type of the same size.
   * To read the bytes as another type, use `array.as(type)`.
   *
   * @throws {RangeError} If the range is not in the array, or its length is not a multiple of the element size
   * @throws {TypeError} If an argument has the wrong type, or the bytes would represent different values as elements of
   * `type`
   * @throws {ReferenceError} If the array was freed or the stream was disposed
   */
  override async read<U extends TypedArray>(
    type: TypedArrayConstructor<U>,
    options?: OrStream<ReadOptions>,
  ): Promise<U> {
    if (type !== this.type as unknown) checkReadAs(this.type, type);
    return await super.read(type, options);
  }

  /**
   * Like `read`, but blocks until the copy is complete.
   *
   * @throws {RangeError} If the range is not in the array, or its length is not a multiple of the element size
   * @throws {TypeError} If an argument has the wrong type, or the bytes would represent different values as elements of
   * `type`
   * @throws {ReferenceError} If the array was freed or the stream was disposed
   */
  override readSync<U extends TypedArray>(
    type: TypedArrayConstructor<U>,
    options?: OrStream<Omit<ReadOptions, "signal">>,
  ): U {
    if (type !== this.type as unknown) checkReadAs(this.type, type);
    return super.readSync(type, options);
  }

  /**
   * Returns a copy of the array's elements, in stream order, without blocking the event loop.
   *
   * @param options The stream to read on, or an object that has it and says which elements to read.
   * @throws {RangeError} If the range is not in the array
   * @throws {ReferenceError} If the array was freed
   */
  toTypedArray(options?: OrStream<ReadOptions>): Promise<T> {
    return super.read(this.type, options);
  }
}

/** The array that `allocateArray` allocates: the elements' type and number, the stream, and the data to copy. */
interface ArrayRequest<T extends TypedArray> {
  readonly type: TypedArrayConstructor<T>;
  readonly length: number;
  readonly stream: OrStream<StreamOption> | undefined;
  readonly data: T | undefined;
  /** The shape and the size. Undefined unless a shape or a dtype was given instead of the length. */
  readonly layout?: ReturnType<typeof arrayLayout>;
}

/** Parses the arguments of `allocateArray`: either a type, a length or shape and a stream, or data and a stream. */
export function arrayRequest<T extends TypedArray>(
  ...[source, lengthOrStream, stream]: [
    source: TypedArrayConstructor<T> | T,
    lengthOrStream: number | ArrayOptions | OrStream<StreamOption> | undefined,
    stream: OrStream<StreamOption> | undefined,
  ]
): ArrayRequest<T> {
  if (ArrayBuffer.isView(source)) {
    const data = source as T;
    const { length } = data;
    return { type: typeOfData(data), length, stream: lengthOrStream as OrStream<StreamOption> | undefined, data };
  }
  if (Array.isArray(source)) {
    throw new TypeError(
      "Cannot allocate an array of the elements of an Array: give a typed array, such as new Float32Array(numbers)",
    );
  }
  if (Array.isArray(lengthOrStream)) {
    throw new TypeError(
      `Cannot use an Array as the length of an array: give it as { shape: [${lengthOrStream.join(", ")}] }`,
    );
  }
  const isLayout = typeof lengthOrStream === "object" && ("shape" in lengthOrStream || "dtype" in lengthOrStream);
  if (!isLayout) return { type: source, length: lengthOrStream as number, stream, data: undefined };
  const layout = arrayLayout(source, lengthOrStream as ArrayOptions);
  return { type: source, length: layout.byteLength / source.BYTES_PER_ELEMENT, stream, data: undefined, layout };
}

/** Creates an array over a new allocation, and copies the data. If the copy fails, the memory is freed. */
export function newArray<T extends TypedArray>(
  { type, data, length, layout }: ArrayRequest<T>,
  allocation: Allocation,
): DeviceArray<T> {
  // Even an array without elements owns memory, so that it has an address and is freed like any other array.
  const part = length === 0 ? { address: allocation.address, byteLength: 0, stream: undefined } : undefined;
  const array = new DeviceArray(type, allocation, part, layout);
  if (data === undefined) return array;
  try {
    array.copyFrom(data);
  } catch (error) {
    array[Symbol.dispose]();
    throw error;
  }
  return array;
}
