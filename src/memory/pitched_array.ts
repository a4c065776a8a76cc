import { countOf, placeOf, printAs } from "../support/printing.ts";
import { checkStream, type CudaStream } from "../objects/streams/cuda_stream.ts";
import {
  type KnownStreamOptions,
  optionsOf,
  type OrStream,
  streamOf,
  type StreamOption,
} from "../objects/streams/stream_option.ts";
import { cannot, ignoreLoss } from "../support/driver_errors.ts";
import { cloneRefusal } from "../support/cloning.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";
import {
  checkArrayType,
  checkNumber,
  checkOptions,
  errorOfAnotherCuda,
  type KnownOptions,
  refuseConstruction,
  type TypedArray,
  type TypedArrayConstructor,
  whatIs,
} from "../support/validation.ts";
import { errorOfWait, throwIfAborted, type WaitOptions } from "../support/waiting/waiting.ts";
import { roundUp } from "../support/rounding.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import type { Session } from "../session.ts";
import type { Allocation } from "./allocation.ts";
import type { CudaArray } from "./arrays/cuda_array.ts";
import { checkNotTransferred } from "./buffer_arguments.ts";
import { allocationOf, type DeviceBuffer, setPitchedView } from "./device_buffer.ts";
import { refusedCopy, refusedFill } from "./transfers/copies.ts";
import {
  checkCopyBetween,
  checkCopyFromView,
  elementBits,
  refuseElementAccess,
  refuseProperty,
} from "./transfers/elements.ts";
import { bytesOfHost, type HostBuffer, sessionOfHost, setPitchedHostView } from "./transfers/host_buffer.ts";
import {
  checkRowsOverlap,
  enqueueRows,
  enqueueRowsOfArray,
  fillRows,
  piecesOfRows,
  type RowsPlace,
} from "./transfers/pitched_copies.ts";
import { readPieces, readPiecesSync } from "./transfers/reads.ts";
import { copyRows, maximumPitch, type RowsShape, spanOf, withoutGaps } from "./transfers/rows.ts";

/** A size: elements in a row, rows in a slice, and slices. Rows and slices default to 1. */
export type Extent = readonly [width: number, height?: number, depth?: number];

/** A position: the element in a row, the row, and the slice. Rows and slices default to 0. */
export type Origin = readonly [x: number, y?: number, z?: number];

/** Where rows of elements lie in memory. */
export interface PitchOptions {
  /** Bytes from row to row, a multiple of the element size. Defaults to the bytes of a row. */
  pitch?: number;
  /** Bytes from slice to slice, a multiple of `pitch`. Defaults to the bytes of a slice's rows. */
  slicePitch?: number;
  /** Where the first element lies, in bytes. Defaults to 0. */
  byteOffset?: number;
}

/** The typed arrays of the class of `T`, whatever memory they show. */
export type ArrayOf<T extends TypedArray> = ArrayBufferView & {
  readonly [Symbol.toStringTag]: T[typeof Symbol.toStringTag];
};

/** Rows of elements in a typed array, with gaps between them. */
export interface PitchedData<T extends TypedArray> extends PitchOptions {
  /** The array that contains the rows. */
  readonly data: ArrayOf<T>;
}

const pitchNames = { pitch: true, slicePitch: true, byteOffset: true } as const;
const pitchOptions: KnownOptions<PitchOptions> = {
  action: "view rows of elements",
  names: pitchNames,
  instead: { stride: "give pitch, the number of bytes from row to row", offset: "give byteOffset, in bytes" },
};
const pitchedData: KnownOptions<PitchedData<TypedArray>> = {
  action: "copy rows of an array",
  names: { data: true, ...pitchNames },
  instead: pitchOptions.instead!,
};
const copyFromOptions: KnownStreamOptions<StreamOption> = {
  action: "copy to rows of elements",
  names: { stream: true },
  usage: "copyFrom(source, stream) or copyFrom(source, { stream })",
};
const copyToOptions: KnownStreamOptions<StreamOption> = {
  action: "copy rows of elements",
  names: { stream: true },
  usage: "copyTo(target, stream) or copyTo(target, { stream })",
};
const fillOptions: KnownStreamOptions<StreamOption> = {
  action: "fill rows of elements",
  names: { stream: true },
  usage: "fill(value, stream) or fill(value, { stream })",
};
const readOptions: KnownStreamOptions<StreamOption & WaitOptions> = {
  action: "read rows of elements",
  names: { stream: true, signal: true },
  usage: "read(stream) or read({ stream })",
};
const readSyncOptions: KnownStreamOptions<StreamOption> = {
  action: "read rows of elements",
  names: { stream: true },
  instead: { signal: "readSync blocks and cannot be aborted; use await read({ signal })" },
  usage: "readSync(stream) or readSync({ stream })",
};

/** Whether a value is a `CudaArray`. Undefined in programs without arrays. */
let isCudaArray: ((value: unknown) => value is CudaArray) | undefined;

/** Sets the function that recognizes arrays. */
export function setIsCudaArray(isArray: (value: unknown) => value is CudaArray): void {
  isCudaArray = isArray;
}

/**
 * The distance of rows from `allocatePitched` is a multiple of this many bytes, as that of `cudaMallocPitch` is, and as
 * textures need it.
 */
const pitchAlignment = 512;

/** Elements in rows and slices, and their distances. */
interface Layout {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly pitch: number;
  readonly slicePitch: number;
  readonly byteOffset: number;
}

const refusalToClone = cloneRefusal(
  "a PitchedArray",
  "its memory belongs to the Cuda object of this thread; send a copy, such as await pitched.read()",
);

/** Returns the allocation that a `PitchedArray` shows; undefined for another value, or for rows of a `HostBuffer`. */
export let allocationOfRows: (value: unknown) => Allocation | undefined;

/** Returns the rows of a `PitchedArray` for copies. Throws if its buffer was freed. */
export let placeOfRows: (rows: PitchedArray<TypedArray>) => { readonly place: RowsPlace; readonly shape: RowsShape };

/**
 * Rows of elements at equal distances, in slices at equal distances: a matrix, a column of it, an image, a volume, or a
 * region of one. It shows the memory of a buffer, or has memory of its own, from `MemoryPool.allocatePitched`. A kernel
 * gets it as a pointer to its first element.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
 *
 * @example Copy a column of a matrix, and fill a region of an image
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * using stream = cuda.device(0).createStream();
 * using pool = cuda.device(0).createPool();
 * using matrix = pool.allocateArray(Float32Array, 64 * 64, stream);
 * matrix.fill(1);
 * const column = matrix.pitched(Float32Array, [1, 64], { pitch: 4 * 64, byteOffset: 4 * 7 });
 * console.log((await column.read()).length); // 64
 * using image = pool.allocatePitched(Uint8Array, [640, 480], stream);
 * image.fill(0);
 * image.region([100, 50], [32, 32]).fill(255);
 * ```
 */
export class PitchedArray<T extends TypedArray = TypedArray> implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The element type, as the constructor of a typed array. */
  readonly type: TypedArrayConstructor<T>;
  /** The memory that contains the rows. */
  readonly buffer: DeviceBuffer | HostBuffer;
  /** Number of elements in a row. */
  readonly width: number;
  /** Number of rows in a slice. */
  readonly height: number;
  /** Number of slices. */
  readonly depth: number;
  /** Bytes from row to row. */
  readonly pitch: number;
  /** Bytes from slice to slice. */
  readonly slicePitch: number;
  /** Where the first element lies in `buffer`, in bytes. */
  readonly byteOffset: number;
  /** Whether disposing of the rows frees the memory. */
  readonly #isOwner: boolean;
  /** The memory of a `DeviceBuffer`. */
  readonly #allocation: Allocation | undefined;
  readonly #offset: bigint;

  static {
    const isInstance = (object: object): boolean => #isOwner in object;
    refuseElementAccess(this, {
      isInstance,
      read: "copy it to the host with await pitched.read()",
      write: "use copyFrom, or fill",
    });
    for (const name of ["length", "byteLength"]) {
      refuseProperty(this, name, { isInstance, why: "it has gaps; use width, height and depth" });
    }
    refuseProperty(this, "stream", { isInstance, why: "it uses that of its buffer; give one to each call" });
    allocationOfRows = (value) => {
      const isRows = typeof value === "object" && value !== null && #isOwner in value;
      return isRows ? value.#allocation : undefined;
    };
    placeOfRows = (rows) => ({ place: rows.#place(), shape: rows.#size() });
    setPitchedView((buffer, type, size, options) =>
      new PitchedArray(buffer, type, viewLayout(buffer, { type, size, options }))
    );
    setPitchedHostView((buffer, type, size, options) =>
      new PitchedArray(buffer, type, viewLayout(buffer, { type, size, options }))
    );
    printAs(this, "PitchedArray", describe, [
      ["device", ({ buffer }) => isHostBuffer(buffer) ? undefined : deviceOf(buffer)],
      ["type", (rows) => rows.type.name],
      "width",
      "height",
      "depth",
      "pitch",
      "slicePitch",
      ["address", (rows) => isGone(rows) ? undefined : rows.address],
      ["freed", isGone],
    ]);
  }

  /**
   * Rows come from `pitched` of a buffer, and from `MemoryPool.allocatePitched`.
   *
   * @ignore
   */
  constructor(
    buffer: DeviceBuffer | HostBuffer,
    type: TypedArrayConstructor<T>,
    layout: Layout & { readonly isOwner?: boolean },
  ) {
    if (layout === undefined) refuseConstruction("PitchedArray", "DeviceBuffer.pitched or MemoryPool.allocatePitched");
    const { width, height, depth, pitch, slicePitch, byteOffset, isOwner = false } = layout;
    this.buffer = buffer;
    this.type = type;
    this.width = width;
    this.height = height;
    this.depth = depth;
    this.pitch = pitch;
    this.slicePitch = slicePitch;
    this.byteOffset = byteOffset;
    this.#isOwner = isOwner;
    this.#allocation = allocationOf(buffer as unknown);
    this.#offset = BigInt(byteOffset);
  }

  /**
   * The address of the first element, which a kernel gets.
   *
   * @throws {ReferenceError} If the buffer was freed
   */
  get address(): bigint {
    return this.buffer.address + this.#offset;
  }

  /**
   * Returns a view of some of the elements, which shares the memory.
   *
   * @param origin The first element: its index in the row, the row, and the slice.
   * @param size Elements in a row, rows, and slices.
   * @throws {RangeError} If the region is not within the rows
   * @throws {TypeError} If an argument is not an array of numbers
   */
  region(origin: Origin, size: Extent): PitchedArray<T> {
    const [x, y, z] = checkedExtents(origin, 0, "the origin of a region");
    const [width, height, depth] = checkedExtents(size, 1, "the size of a region");
    if (x + width > this.width || y + height > this.height || z + depth > this.depth) {
      throw new RangeError(
        `Cannot view ${sizeText({ width, height, depth })} elements from (${x}, ${y}, ${z}) on: there are ` +
          `${sizeText(this)} elements`,
      );
    }
    const { type, pitch, slicePitch } = this;
    const byteOffset = this.byteOffset + z * slicePitch + y * pitch + x * type.BYTES_PER_ELEMENT;
    return new PitchedArray(this.buffer, type, { width, height, depth, pitch, slicePitch, byteOffset });
  }

  /**
   * Copies elements into the rows, in stream order.
   *
   * The source may be rows of the same size, on any device or in a `HostBuffer`, or a typed array: its elements in order
   * and without gaps, or `{ data, pitch }` for rows with gaps. A typed array may be changed as soon as this returns,
   * unless it shows page-locked memory, as for `DeviceBuffer.copyFrom`. A `CudaArray` is copied as its `copyTo` does.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param source What to copy. Its elements must have the same type, or be integers of the same size.
   * @param options The stream. Defaults to the stream of this array's buffer, or to that of the source's.
   * @throws {RangeError} If the source has another size, or the source and the target have bytes in common
   * @throws {TypeError} If `source` is not memory of a supported kind, or no stream is given for two arrays in host
   * memory
   * @throws {ReferenceError} If a buffer was freed, or the stream was disposed
   */
  copyFrom(source: PitchedArray<T> | CudaArray | PitchedData<T> | ArrayOf<T>, options?: OrStream<StreamOption>): void {
    if (isCudaArray?.(source)) {
      return source.copyTo(this, this.#streamOfArrayCopy(streamOf(options, copyFromOptions), copyFromOptions));
    }
    const rows = source instanceof PitchedArray ? source : undefined;
    if (rows !== undefined && sessionOfRows(rows) !== sessionOfRows(this)) throw errorOfAnotherCuda("copy rows");
    const stream = this.#stream(streamOf(options, copyFromOptions), copyFromOptions, rows);
    if (rows !== undefined) return this.#copyFromRows(rows, stream);
    const array = checkArrayCopy(source as PitchedData<T> | ArrayOf<T>, this);
    const size = this.#size();
    const target = this.#place();
    if (spanOf(size, this) === 0) return;
    this.#attempt("copy", "to", stream, {}, () => {
      enqueueRowsOfArray(sessionOfRows(this), array, target, { size, stream });
    });
  }

  #copyFromRows(source: PitchedArray<T>, stream: CudaStream): void {
    const { from, to, shape } = checkRowsCopy(source, this);
    if (spanOf(shape, to) === 0) return;
    const allocation = allocationOfRows(source);
    this.#attempt("copy", "to", stream, allocation === undefined ? {} : { source: allocation }, () => {
      enqueueRows(sessionOfRows(this), from, to, { size: shape, stream });
    });
  }

  /**
   * Copies the elements to rows of the same size, in stream order. If the target is in a `HostBuffer`, wait for the
   * stream before reading the copy. To a `CudaArray` they are copied as its `copyFrom` does, from its first element on.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param target Rows whose elements have the same type, or are integers of the same size.
   * @param options The stream. Defaults to the stream of this array's buffer, or to that of the target's.
   * @throws {RangeError} If the target has another size, or the source and the target have bytes in common
   * @throws {TypeError} If `target` is neither a `PitchedArray` nor a `CudaArray`, or no stream is given for two arrays in host memory
   * @throws {ReferenceError} If a buffer was freed, or the stream was disposed
   */
  copyTo(target: PitchedArray<T> | CudaArray, options?: OrStream<StreamOption>): void {
    if (isCudaArray?.(target)) {
      return target.copyFrom(this, this.#streamOfArrayCopy(streamOf(options, copyToOptions), copyToOptions));
    }
    if (!(target instanceof PitchedArray)) {
      const advice = ArrayBuffer.isView(target) ? "use read for a typed array" : pitchedAdvice(target, this);
      throw new TypeError(`Cannot copy rows to ${whatIs(target, "PitchedArray")}: ${advice}`);
    }
    if (sessionOfRows(target) !== sessionOfRows(this)) throw errorOfAnotherCuda("copy rows");
    target.#copyFromRows(this, this.#stream(streamOf(options, copyToOptions), copyToOptions, target));
  }

  /** Returns the stream that a copy from or to an array is given: none for rows in host memory takes the array's. */
  #streamOfArrayCopy(
    stream: CudaStream | undefined,
    options: KnownStreamOptions<StreamOption>,
  ): { stream?: CudaStream } {
    return stream === undefined && isHostBuffer(this.buffer) ? {} : { stream: this.#stream(stream, options) };
  }

  /**
   * Sets all elements to a value, in stream order.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
   * @param value The value: a bigint for an array of bigints, otherwise a number.
   * @param options The stream. Defaults to the buffer's own stream; required for host memory.
   * @throws {RangeError} If the type cannot represent the value
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the buffer was freed, or the stream was disposed
   */
  fill(value: number | bigint, options?: OrStream<StreamOption>): void {
    const stream = this.#stream(streamOf(options, fillOptions), fillOptions);
    const bits = elementBits(this.type, value);
    const { address } = this;
    const size = this.#size();
    const place = this.#place();
    if (spanOf(size, this) === 0) return;
    const allocation = allocationOfRows(this);
    const elementSize = this.type.BYTES_PER_ELEMENT;
    try {
      fillRows(sessionOfRows(this), place, bits, { size, elementSize, address, stream });
    } catch (error) {
      const what = `fill ${this.#elements()} of`;
      if (allocation !== undefined) throw refusedFill(what, error, allocation, stream);
      throw cannot(`${what} a host buffer`, error);
    }
  }

  /**
   * Returns a copy of the elements, without gaps, in stream order and without blocking the event loop. Like
   * `DeviceBuffer.read`, it copies in pieces of 8 MiB. Rows of a `HostBuffer` are copied when the stream has completed
   * its work so far.
   *
   * @param options The stream, which defaults to the buffer's own stream and is required for host memory, and a signal.
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the buffer was freed, or the stream was disposed
   */
  async read(options?: OrStream<StreamOption & WaitOptions>): Promise<T> {
    const { stream: given, signal } = options === undefined ? {} : optionsOf(options);
    if (options !== undefined) checkOptions(optionsOf(options), readOptions);
    const stream = this.#stream(given, readOptions);
    const size = this.#size();
    const place = this.#place();
    const what = `the read of ${this.#elements()}`;
    if (signal !== undefined) throwIfAborted(signal, what);
    try {
      if (spanOf(size, this) === 0) return new this.type(new ArrayBuffer(0));
      const waitOptions = signal === undefined ? {} : { signal };
      if ("bytes" in place) {
        sessionOfRows(this).captures.refuseRead(stream);
        await stream.finished(waitOptions);
        return this.#gathered();
      }
      const bytes = await readPieces(place.allocation, piecesOfRows(place, size), { stream, ...waitOptions });
      return new this.type(bytes.buffer);
    } catch (error) {
      throw cannot(`read ${this.#elements()} of ${this.#bufferText()}`, errorOfWait(error, what, signal && { signal }));
    }
  }

  /**
   * Returns a copy of the elements, without gaps, and blocks until the copy is complete.
   *
   * @param options The stream. Defaults to the buffer's own stream; required for host memory.
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the buffer was freed, or the stream was disposed
   */
  readSync(options?: OrStream<StreamOption>): T {
    const stream = this.#stream(streamOf(options, readSyncOptions), readSyncOptions);
    const size = this.#size();
    const place = this.#place();
    try {
      if (spanOf(size, this) === 0) return new this.type(new ArrayBuffer(0));
      if ("bytes" in place) {
        sessionOfRows(this).captures.refuseRead(stream);
        stream.synchronize();
        return this.#gathered();
      }
      return new this.type(readPiecesSync(place.allocation, piecesOfRows(place, size), stream).buffer);
    } catch (error) {
      throw cannot(`read ${this.#elements()} of ${this.#bufferText()}`, error);
    }
  }

  /** Frees memory of its own, on the buffer's stream. Does nothing for a view of a buffer. */
  [Symbol.dispose](): void {
    if (this.#isOwner) ignoreLoss(() => this.buffer[Symbol.dispose]());
  }

  /** Returns the elements of rows in host memory, without gaps. */
  #gathered(): T {
    const size = this.#size();
    const { bytes } = this.#place() as RowsPlace & { bytes: Uint8Array };
    const result = new Uint8Array(size.width * size.height * size.depth);
    copyRows(result, withoutGaps(size), bytes, this, size);
    return new this.type(result.buffer);
  }

  #size(): RowsShape {
    return { width: this.width * this.type.BYTES_PER_ELEMENT, height: this.height, depth: this.depth };
  }

  /** Returns the rows for copies. Throws if the buffer was freed. */
  #place(): RowsPlace {
    const { pitch, slicePitch } = this;
    const allocation = this.#allocation;
    if (allocation !== undefined) return { allocation, address: this.address, pitch, slicePitch };
    const begin = this.byteOffset;
    const bytes = bytesOfHost(this.buffer as HostBuffer).subarray(begin, begin + spanOf(this.#size(), this));
    return { bytes, pitch, slicePitch };
  }

  /** Checks and returns the stream of a call. Defaults to that of the buffer, or of the other end of a copy. */
  #stream(
    given: CudaStream | undefined,
    { action, usage }: KnownStreamOptions<StreamOption>,
    other?: PitchedArray<TypedArray>,
  ): CudaStream {
    const stream = given !== undefined ? given : ownStream(this) ?? (other && ownStream(other));
    if (stream === undefined) {
      throw new TypeError(
        `Cannot ${action} without a stream: host memory has no stream of its own; give one, as in ${usage}`,
      );
    }
    checkStream(stream, sessionOfRows(this), usage);
    return stream;
  }

  /** Enqueues a copy. Explains the driver's error. */
  #attempt(
    action: string,
    direction: string,
    stream: CudaStream,
    ends: { readonly source?: Allocation },
    enqueue: () => void,
  ): void {
    try {
      enqueue();
    } catch (error) {
      const what = `${action} ${this.#elements()} ${direction}`;
      const target = allocationOfRows(this);
      const buffer = target ?? ends.source;
      const isTooFar = this.pitch > maximumPitch && this.height > 1;
      if (isTooFar) throw cannot(`${what} rows`, error, `their pitch of ${this.pitch} bytes is above ${maximumPitch}`);
      if (buffer === undefined) throw cannot(`${what} a host buffer`, error);
      throw refusedCopy(what, error, target === undefined ? { buffer, ...ends } : { buffer, target, ...ends }, stream);
    }
  }

  #elements(): string {
    return `${sizeText(this)} ${this.width * this.height * this.depth === 1 ? "element" : "elements"}`;
  }

  #bufferText(): string {
    const { buffer } = this;
    return isHostBuffer(buffer) ? "a host buffer" : `the buffer on device ${buffer.device.ordinal}`;
  }
}

/** Allocates rows. `allocate` returns memory of a size in bytes. */
export function newPitchedArray<T extends TypedArray>(
  type: TypedArrayConstructor<T>,
  size: Extent,
  allocate: (byteLength: number) => DeviceBuffer,
): PitchedArray<T> {
  checkArrayType(type);
  const [width, height, depth] = checkedExtents(size, 1, "the size of rows");
  if (width < 1 || height < 1 || depth < 1) {
    throw new RangeError(
      `Cannot allocate ${sizeText({ width, height, depth })} elements: give whole numbers, at least 1`,
    );
  }
  const pitch = roundUp(width * type.BYTES_PER_ELEMENT, pitchAlignment);
  const slicePitch = pitch * height;
  const byteLength = slicePitch * depth;
  if (!Number.isSafeInteger(byteLength)) {
    throw new RangeError(`Cannot allocate ${sizeText({ width, height, depth })} elements: there are too many`);
  }
  const layout = { width, height, depth, pitch, slicePitch, byteOffset: 0, isOwner: true };
  return new PitchedArray(allocate(byteLength), type, layout);
}

/** Checks a copy between rows, and returns it. Throws if a buffer was freed. */
export function checkRowsCopy(
  source: PitchedArray,
  target: PitchedArray,
): { readonly from: RowsPlace; readonly to: RowsPlace; readonly shape: RowsShape } {
  if (source.width !== target.width || source.height !== target.height || source.depth !== target.depth) {
    throw new RangeError(
      `Cannot copy ${sizeText(source)} elements to ${
        sizeText(target)
      } elements: copy a region of the same size, as in ` +
        `rows.region([0, 0], [width, height])`,
    );
  }
  checkCopyBetween(source.type, target.type);
  const { place: from } = placeOfRows(source), { place: to, shape } = placeOfRows(target);
  checkRowsOverlap(from, to, shape);
  return { from, to, shape };
}

/** Checks a copy from a typed array to rows, and returns the rows of the array. */
export function checkArrayCopy<T extends TypedArray>(
  source: PitchedData<T> | ArrayOf<T>,
  target: PitchedArray<T>,
): { readonly bytes: Uint8Array<ArrayBuffer>; readonly pitch: number; readonly slicePitch: number } {
  const { data, layout: { pitch, slicePitch, byteOffset } } = arrayRows(source, target);
  if (data.constructor !== target.type) checkCopyFromView(data, target.type);
  const { width, height, depth, type } = target;
  const span = spanOf({ width: width * type.BYTES_PER_ELEMENT, height, depth }, { pitch, slicePitch });
  const bytes = new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset + byteOffset, span);
  return { bytes, pitch, slicePitch };
}

/** Returns the number of bytes from the beginning of the first row to the end of the last one. */
export function byteLengthOfRows(rows: PitchedArray): number {
  const { width, height, depth, type } = rows;
  return spanOf({ width: width * type.BYTES_PER_ELEMENT, height, depth }, rows);
}

/** Returns the session that the memory of rows belongs to. */
export function sessionOfRows(rows: PitchedArray<TypedArray>): Session {
  return allocationOfRows(rows)?.session ?? sessionOfHost(rows.buffer as HostBuffer);
}

function isHostBuffer(buffer: DeviceBuffer | HostBuffer): buffer is HostBuffer {
  return allocationOf(buffer as unknown) === undefined;
}

function ownStream({ buffer }: PitchedArray<TypedArray>): CudaStream | undefined {
  return isHostBuffer(buffer) ? undefined : buffer.stream;
}

/** Returns "640 x 480", or "4" for a single row. */
export function sizeText({ width, height, depth }: { width: number; height: number; depth: number }): string {
  if (depth !== 1) return `${width} x ${height} x ${depth}`;
  return height === 1 ? String(width) : `${width} x ${height}`;
}

/** Checks and returns a size or a position, in which later numbers may be left out. */
export function checkedExtents(given: Extent | Origin, rest: number, what: string): [number, number, number] {
  if (!Array.isArray(given)) {
    const example = typeof given === "number" ? `[${given}, ${rest === 0 ? 0 : 480}]` : "[640, 480]";
    throw new TypeError(`Cannot use ${whatIs(given)} as ${what}: give an array, such as ${example}`);
  }
  if (given.length < 1 || given.length > 3) {
    throw new RangeError(`Cannot use ${countOf(given.length, "number")} as ${what}: give one, two or three`);
  }
  const [x, y = rest, z = rest] = given as unknown as Extent;
  for (const value of [x, y, z]) {
    checkNumber(value, `a number in ${what}`);
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new RangeError(`Cannot use ${value} in ${what}: it must be a whole number, at least 0`);
    }
  }
  return [x, y, z];
}

/** Returns the layout of rows in memory of `byteLength` bytes. Throws unless they are in it. */
function layoutOf(
  type: TypedArrayConstructor<TypedArray>,
  [width, height, depth]: readonly [number, number, number],
  options: PitchOptions,
  byteLength: number,
): Layout {
  const elementSize = type.BYTES_PER_ELEMENT;
  const rowLength = width * elementSize;
  const { pitch = rowLength } = options;
  if (pitch !== rowLength) checkDistance(pitch, "a pitch", elementSize);
  if (pitch < rowLength) {
    throw new RangeError(
      `Cannot use a pitch of ${pitch} bytes: a row of ${width} ${type.name} elements has ${rowLength} bytes`,
    );
  }
  const { slicePitch = pitch * height } = options;
  if (slicePitch !== pitch * height) checkDistance(slicePitch, "a slicePitch", pitch);
  if (slicePitch < pitch * height) {
    throw new RangeError(
      `Cannot use a slicePitch of ${slicePitch} bytes: ${countOf(height, "row")} with a pitch of ${pitch} bytes take ` +
        `${pitch * height}`,
    );
  }
  const { byteOffset = 0 } = options;
  checkDistance(byteOffset, "a byteOffset", 1);
  const layout = { width, height, depth, pitch, slicePitch, byteOffset };
  const end = byteOffset + spanOf({ width: rowLength, height, depth }, layout);
  if (end <= byteLength) return layout;
  const gaps = pitch === rowLength ? "" : ` with a pitch of ${pitch} bytes`;
  throw new RangeError(
    `Cannot view ${
      sizeText(layout)
    } ${type.name} elements${gaps} from byte ${byteOffset} on: they end at byte ${end}, ` +
      `and the memory has ${byteLength} bytes`,
  );
}

/** Throws unless a number of bytes is a multiple of `unit`. */
function checkDistance(value: number, what: string, unit: number): void {
  checkNumber(value, what);
  if (!Number.isSafeInteger(value) || value < 0 || unit > 0 && value % unit !== 0) {
    const needed = unit > 1 ? `a multiple of ${unit} bytes` : "a whole number of bytes, at least 0";
    throw new RangeError(`Cannot use ${value} as ${what}: it must be ${needed}`);
  }
}

/** Returns the layout of a view of a buffer. */
function viewLayout(
  buffer: DeviceBuffer | HostBuffer,
  { type, size, options = {} }: {
    type: TypedArrayConstructor<TypedArray>;
    size: Extent;
    options?: PitchOptions | undefined;
  },
): Layout {
  checkArrayType(type);
  checkOptions(options, pitchOptions);
  const extents = checkedExtents(size, 1, "the size of rows");
  const layout = layoutOf(type, extents, options, buffer.byteLength);
  // Page-locked memory begins at the beginning of a page, unless it is a part of a buffer of the program.
  const begin = isHostBuffer(buffer) ? (void buffer.buffer, BigInt(buffer.byteOffset)) : buffer.address;
  const unit = type.BYTES_PER_ELEMENT;
  if ((begin + BigInt(layout.byteOffset)) % BigInt(unit) === 0n) return layout;
  throw new RangeError(
    `Cannot view ${type.name} elements from byte ${layout.byteOffset} on: the address of the first one must be a ` +
      `multiple of ${unit}`,
  );
}

/** Returns a typed array that a copy reads, and the layout of the rows in it. */
function arrayRows<T extends TypedArray>(
  source: PitchedData<T> | ArrayOf<T>,
  target: PitchedArray<T>,
): { data: TypedArray; layout: Layout } {
  const { width, height, depth } = target;
  if (ArrayBuffer.isView(source) && !(source instanceof DataView)) {
    const { length } = source as unknown as TypedArray;
    const needed = width * height * depth;
    if (length !== needed) {
      checkNotTransferred(source);
      throw new RangeError(
        `Cannot copy ${countOf(length, "element")} to ${sizeText(target)} elements: give ${needed}, without gaps, or ` +
          "{ data, pitch } for rows with gaps",
      );
    }
    return {
      data: source as unknown as TypedArray,
      layout: layoutOf(target.type, [width, height, depth], {}, source.byteLength),
    };
  }
  const { data } = Object(source) as Partial<PitchedData<T>>;
  if (!ArrayBuffer.isView(data) || data instanceof DataView) {
    throw new TypeError(`Cannot copy rows from ${whatIs(source, "PitchedArray")}: ${pitchedAdvice(source, target)}`);
  }
  checkNotTransferred(data);
  checkOptions(source as PitchedData<T>, pitchedData as unknown as KnownOptions<PitchedData<T>>);
  const layout = layoutOf(target.type, [width, height, depth], source as PitchedData<T>, data.byteLength);
  return { data: data as unknown as TypedArray, layout };
}

/** Returns advice on what to give in the place of a value that is not rows. */
function pitchedAdvice(value: unknown, rows: PitchedArray<TypedArray>): string {
  if (value instanceof Promise) return "await the promise first";
  const hasRows = typeof value === "object" && value !== null && "pitched" in value;
  if (hasRows) {
    const { width, height, depth } = rows;
    const size = depth === 1 ? [width, height] : [width, height, depth];
    return `give its rows, as in buffer.pitched(${rows.type.name}, [${size.join(", ")}])`;
  }
  return "give a PitchedArray, a typed array, or { data, pitch } with a typed array";
}

/** Returns the printed form of rows. */
function describe(rows: PitchedArray<TypedArray>): string {
  const { buffer, type, pitch, depth } = rows;
  const isManaged = !isHostBuffer(buffer) && buffer.isManaged;
  const place = isManaged ? "managed" : placeOf(isHostBuffer(buffer) ? undefined : deviceOf(buffer));
  const slices = depth === 1 ? "" : `, slicePitch ${rows.slicePitch}`;
  return `PitchedArray { ${place}, ${type.name} ${sizeText(rows)}, pitch ${pitch}${slices}, ${stateOf(rows)} }`;
}

/** Returns the device that a buffer is on; undefined for memory of a pool in host memory, and for managed memory. */
function deviceOf(buffer: DeviceBuffer): CudaDevice | undefined {
  const { isHostMemory, isManaged } = allocationOf(buffer).owner;
  return isHostMemory || isManaged ? undefined : buffer.device;
}

/** Whether the memory cannot be used any more. */
function isGone({ buffer }: PitchedArray<TypedArray>): boolean {
  if (!isHostBuffer(buffer)) return allocationOf(buffer).isFreed || allocationOf(buffer).session.hasEnded;
  try {
    void buffer.buffer;
    return false;
  } catch {
    return true;
  }
}

/** Returns the address, or why there is none. */
function stateOf(rows: PitchedArray<TypedArray>): string {
  const { buffer } = rows;
  if (isHostBuffer(buffer)) return isGone(rows) ? "disposed" : "page-locked";
  const { suspension, session } = allocationOf(buffer);
  if (session.hasEnded) return "Cuda disposed";
  if (suspension !== undefined) return "asleep";
  return isGone(rows) ? "freed" : `0x${rows.address.toString(16)}`;
}
