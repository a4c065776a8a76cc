import { countOf, placeOf, printAs } from "../support/printing.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkStream, CudaStream } from "../objects/streams/cuda_stream.ts";
import {
  hasStreamAlone,
  type KnownStreamOptions,
  namedOptions,
  optionsOf,
  type OrStream,
  streamOf,
  type StreamOption,
} from "../objects/streams/stream_option.ts";
import { cannot, ignoreLoss } from "../support/driver_errors.ts";
import { type Allocation, type AllocationPart, freedError } from "./allocation.ts";
import {
  checkByte,
  checkElements,
  checkHostSource,
  checkHostTarget,
  checkNotTransferred,
  checkRange,
  refuseElements,
} from "./buffer_arguments.ts";
import { exportHandleOf, exportPointerOf } from "./handles/shareable_handle.ts";
import {
  copyBetween,
  copyFromHost,
  type CopyOptions,
  type CopyPlace,
  copyToHost,
  type FillOptions,
  fillOptions,
  refusedCopy,
  refusedFill,
} from "./transfers/copies.ts";
import type { DeviceArray } from "./device_array.ts";
import { type ArrayDescription, arrayLayout, type ArrayOptions } from "./dtypes.ts";
import { refuseElementAccess, refuseProperty } from "./transfers/elements.ts";
import type { Extent, PitchedArray, PitchOptions } from "./pitched_array.ts";
import { bytesOfHost, HostBuffer, type PitchedViewOf } from "./transfers/host_buffer.ts";
import type { ImportedMemoryPool } from "./handles/imported_memory_pool.ts";
import {
  adviceAbout,
  discardMemory,
  type DiscardOptions,
  discardOptions,
  type MemoryAdvice,
  prefetchMemory,
  prefetchOptions,
} from "./managed/memory_advice.ts";
import type { MemoryLocation } from "./managed/memory_location.ts";
import type { MemoryPool } from "./pools/memory_pool.ts";
import type { Session } from "../session.ts";
import { elementRange, readBytes, readBytesSync, type ReadOptions } from "./transfers/reads.ts";
import {
  bytesOf,
  checkArrayType,
  checkByteLength,
  checkOptions,
  errorOfAnotherCuda,
  type KnownOptions,
  refuseConstruction,
  refuseToReplace,
  type TypedArray,
  type TypedArrayConstructor,
} from "../support/validation.ts";
import { errorOfWait, throwIfAborted } from "../support/waiting/waiting.ts";
import { cloneRefusal } from "../support/cloning.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** The default options of copies and fills, shared so that a call allocates none. */
const noOptions: CopyOptions & FillOptions = {};

/** Creates the view that `as` returns. Set by `DeviceArray`, a subclass, which this file cannot import. */
let viewAs: <T extends TypedArray>(
  type: TypedArrayConstructor<T>,
  allocation: Allocation,
  part: AllocationPart,
  layout: ArrayDescription | undefined,
) => DeviceArray<T>;

/** Sets the function with which `DeviceBuffer.as` creates a view. */
export function setViewAs(create: typeof viewAs): void {
  viewAs = create;
}

/** Creates the view that `pitched` returns. Set by `PitchedArray`, which this file cannot import. */
let viewPitched: PitchedViewOf<DeviceBuffer>;

/** Sets the function with which `DeviceBuffer.pitched` creates a view. */
export function setPitchedView(create: typeof viewPitched): void {
  viewPitched = create;
}

const partOfSource = "copy a part of the source, such as source.subarray(0, 4)";
const meantByOffset = (value: unknown) => typeof value === "number" ? `{ byteOffset: ${value} }` : undefined;
const copyFromOptions: KnownStreamOptions<CopyOptions> = {
  action: "copy to a buffer",
  names: { stream: true, byteOffset: true },
  usage: "copyFrom(source, stream) or copyFrom(source, { stream, byteOffset })",
  meantBy: meantByOffset,
  instead: { byteLength: partOfSource, length: partOfSource },
};
const partOfBuffer = "copy a part of the buffer, such as buffer.subarray(0, 4).copyTo(target)";
const copyToOptions: KnownStreamOptions<CopyOptions> = {
  action: "copy from a buffer",
  names: { stream: true, byteOffset: true },
  usage: "copyTo(target, stream) or copyTo(target, { stream, byteOffset })",
  meantBy: meantByOffset,
  instead: { byteLength: partOfBuffer, length: partOfBuffer },
};
const freeOptions: KnownStreamOptions<StreamOption> = {
  action: "free a buffer",
  names: { stream: true },
  usage: "free(stream) or free({ stream })",
};
const insteadOfByteLength = "give length, which counts elements: { length: 4 } for 16 bytes of a Float32Array";
const readSyncOptions: KnownOptions<Omit<ReadOptions, "signal">> = {
  action: "read a buffer",
  names: { stream: true, byteOffset: true, length: true },
  instead: {
    byteLength: insteadOfByteLength,
    signal: "readSync blocks and cannot be aborted; use await read(type, { signal })",
  },
  meantBy: meantByReadOptions,
};
const readOptions: KnownOptions<ReadOptions> = {
  action: readSyncOptions.action,
  names: { ...readSyncOptions.names, signal: true },
  instead: { byteLength: insteadOfByteLength },
  meantBy: meantByReadOptions,
};

function meantByReadOptions(value: unknown): string | undefined {
  return typeof value === "number" ? `{ length: ${value} }` : undefined;
}

/**
 * Returns the allocation that a buffer is a view of; undefined for a value that is not a buffer. Used by the launches,
 * allocators and exporters of this library. No public member exposes the allocation, because users could bypass the
 * buffer's checks with it.
 */
export let allocationOf: {
  (buffer: DeviceBuffer): Allocation;
  (value: unknown): Allocation | undefined;
};

/**
 * Returns the address of a buffer for a view of it. Unlike `address`, also works for memory of a graph that does not
 * exist now: views of it can be made before a launch.
 */
export let addressForView: (buffer: DeviceBuffer) => bigint;

/** Returns advice for access to the elements of managed memory. */
export function adviceInPlace(buffer: object): string | undefined {
  if (!(buffer as DeviceBuffer).isManaged) return undefined;
  return "it is managed memory; use a typed array over its hostView(), when the work that uses it is done";
}

const refusalToClone = cloneRefusal(
  "a DeviceBuffer or a DeviceArray",
  "its memory belongs to the Cuda object of this thread; send a copy, such as await buffer.read(Float32Array), or share " +
    "the memory through an Exporter",
);

/**
 * A buffer of device memory. Methods enqueue work on a stream and return at once, unless documented otherwise. Buffers
 * come from the methods that allocate, import, open or wrap memory, such as `MemoryPool.allocate`.
 *
 * @example Fill a buffer and read it back
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * using stream = cuda.device(0).createStream();
 * using pool = cuda.device(0).createPool();
 * using buffer = pool.allocate(1024, stream);
 * buffer.fill(7);
 * console.log(await buffer.read(Uint8Array));
 * ```
 */
export class DeviceBuffer implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** Size in bytes. */
  readonly byteLength: number;
  readonly #allocation: Allocation;
  readonly #address: bigint;
  /**
   * The stream of a view that `subarray` has returned; undefined for a whole buffer, which uses the allocation's
   * stream. A view cannot be freed, even if it covers the whole buffer.
   */
  #partStream: CudaStream | undefined;

  static {
    refuseElementAccess(this, {
      isInstance: (object) => #allocation in object,
      read: "it is in device memory; copy it to the host with await buffer.read(Uint8Array)",
      write: "it is in device memory; use copyFrom, or fill",
      inPlace: adviceInPlace,
    });
    refuseProperty(this, "length", {
      isInstance: (object) => #allocation in object,
      why: "it has no elements; use byteLength, or buffer.as(type).length",
    });
    refuseProperty(this, "size", {
      isInstance: (object) => #allocation in object,
      why: "there is no such property; use byteLength, or the length of an array",
    });
    refuseToReplace(this, "advice", "set one of its properties, such as buffer.advice.readMostly");
    const find = (value: unknown): Allocation | undefined =>
      typeof value === "object" && value !== null && #allocation in value ? value.#allocation : undefined;
    allocationOf = find as typeof allocationOf;
    addressForView = (buffer) => {
      const { owner, suspension } = buffer.#allocation;
      return owner.isGraphMemory === true && suspension !== undefined ? buffer.#address : buffer.address;
    };
    printAs(this, "DeviceBuffer", (buffer) => describe(buffer, buffer.#allocation, buffer.#address), [
      ["device", (buffer) => {
        const { isHostMemory, isManaged } = buffer.#allocation.owner;
        return isHostMemory || isManaged ? undefined : buffer.device;
      }],
      ["isManaged", (buffer) => buffer.isManaged || undefined],
      // `type` and `length` are properties of the subclass `DeviceArray`.
      ["type", (buffer) => "type" in buffer ? (buffer.type as { readonly name: string }).name : undefined],
      ["length", (buffer) => "type" in buffer ? (buffer as unknown as ArrayLike<unknown>).length : undefined],
      "byteLength",
      ["address", (buffer) => buffer.#isFreed ? undefined : buffer.#address],
      ["freed", (buffer) => buffer.#isFreed],
    ]);
  }

  /**
   * Buffers come from the methods that allocate, import, open or wrap memory.
   *
   * @ignore
   */
  constructor(allocation: Allocation, part?: AllocationPart) {
    if (allocation?.session === undefined) refuseConstruction("DeviceBuffer", "MemoryPool.allocate or allocateArray");
    this.#allocation = allocation;
    this.#address = part === undefined ? allocation.address : part.address;
    this.#partStream = part === undefined ? undefined : part.stream;
    this.byteLength = part === undefined ? allocation.byteLength : part.byteLength;
  }

  /** Whether the buffer was freed, or its `Cuda` object was disposed. */
  get #isFreed(): boolean {
    return this.#allocation.isFreed || this.#allocation.session.hasEnded;
  }

  /** The pool that the memory is from; undefined if it is not from a pool. */
  get pool(): MemoryPool | ImportedMemoryPool | undefined {
    return this.#allocation.pool;
  }

  /**
   * The device that the memory is on. For a buffer of a pool in host memory, and for managed memory: the device of the
   * stream it was allocated on, or the device through which it was imported.
   */
  get device(): CudaDevice {
    return this.#allocation.device;
  }

  /** Whether the memory is managed: the host and all devices access it at the same address. */
  get isManaged(): boolean {
    return this.#allocation.owner.isManaged === true;
  }

  /**
   * How managed memory will be used: an object whose properties can be set, and ask CUDA when they are read.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} If the memory is not managed, or a property is set to a value that it cannot have
   * @throws {ReferenceError} From each property, if the buffer was freed
   * @throws {CudaError} From each property: `cudaErrorNotSupported` when it is set for memory of a pool, about which CUDA
   * 13.0 takes no advice; `cudaErrorInvalidDevice` for a device whose attribute `concurrentManagedAccess` is 0;
   * `cudaErrorCallRequiresNewerDriver` for a NUMA node before CUDA 12.2
   *
   * @example
   * ```ts ignore
   * using table = cuda.device(0).allocateManaged(2 ** 20);
   * table.advice.readMostly = true; // each device that reads it gets a copy
   * table.advice.accessedBy = cuda.devices;
   * console.log(table.advice.preferredLocation);
   * ```
   */
  get advice(): MemoryAdvice {
    return adviceAbout({ allocation: this.#allocation, buffer: this });
  }

  /**
   * The stream that the methods use by default and on which the buffer is freed. Can be set. Initially it is the stream
   * of the allocation. For memory that was imported or opened, for a module's global, and for memory from
   * `CudaDevice.allocate`, it is the device's default stream.
   *
   * @throws {TypeError} If it is set to a value that is not a stream of the same `Cuda` object
   */
  get stream(): CudaStream {
    return this.#partStream ?? this.#allocation.stream;
  }

  set stream(stream: CudaStream) {
    checkStream(stream, this.#allocation.session);
    if (this.#partStream === undefined) this.#allocation.stream = stream;
    else this.#partStream = stream;
  }

  /**
   * The device address. A kernel receives it when the buffer is passed as an argument.
   *
   * @throws {ReferenceError} If the buffer was freed
   */
  get address(): bigint {
    if (this.#allocation.isFreed && !this.#allocation.isForNodes) throw freedError(this.#allocation, this.byteLength);
    return this.#address;
  }

  /**
   * Copies all of `source` into the buffer, in stream order.
   *
   * If `source` is pageable memory, such as an ordinary typed array, its bytes are captured before this returns,
   * usually without waiting for earlier work of the stream. If pending copies have already captured 256 MiB of pageable
   * memory, this blocks until enough earlier copies on this stream are complete. If `source` is page-locked, the device
   * reads it later: do not change a `HostBuffer`, or a view of `HostBuffer.buffer` or of a `hostView`, until the stream
   * has completed the copy.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param source A typed array, a DataView, an ArrayBuffer, a HostBuffer, or a DeviceBuffer on any device.
   * @param options The stream to copy on, or an object that has it and says where in this buffer the copy starts. The
   * stream defaults to the buffer's own.
   * @throws {RangeError} If the source does not fit, or the copied ranges overlap
   * @throws {TypeError} If `source` is not memory of a supported kind
   * @throws {ReferenceError} If the buffer or the source was freed, or the stream was disposed
   */
  copyFrom(
    source: ArrayBufferView | ArrayBuffer | HostBuffer | DeviceBuffer,
    options?: OrStream<CopyOptions>,
  ): void;
  /** @ignore */
  copyFrom(
    source: ArrayBufferView | ArrayBuffer | HostBuffer | DeviceBuffer,
    stream: CudaStream | undefined,
    options: Omit<CopyOptions, "stream"> | undefined,
  ): void;
  copyFrom(
    source: ArrayBufferView | ArrayBuffer | HostBuffer | DeviceBuffer,
    given?: OrStream<CopyOptions>,
    rest?: CopyOptions,
  ): void {
    const options = hasStreamAlone(given, rest) ? noOptions : namedOptions(given, rest, copyFromOptions);
    const stream = given instanceof CudaStream ? given : options.stream === undefined ? this.stream : options.stream;
    if (stream !== this.#allocation.stream) checkStream(stream, this.#allocation.session, copyFromOptions.usage);
    const { byteOffset = 0 } = options;
    if (!ArrayBuffer.isView(source)) this.#checkOther(source, checkHostSource);
    const length = source.byteLength;
    checkRange(byteOffset, length, this.byteLength, source);
    const destination = this.address + BigInt(byteOffset);
    if (length === 0) return checkNotTransferred(source);
    try {
      const target = { allocation: this.#allocation, address: destination };
      if (source instanceof DeviceBuffer) copyBetween(source.#place(), target, { byteLength: length, stream });
      else copyFromHost(target, source instanceof HostBuffer ? bytesOfHost(source) : bytesOf(source), stream);
    } catch (error) {
      const buffer = this.#allocation;
      const ends = source instanceof DeviceBuffer ? { source: source.#allocation } : {};
      throw refusedCopy(`copy ${length} bytes to`, error, { buffer, target: buffer, ...ends }, stream);
    }
  }

  /**
   * Copies the buffer, from `byteOffset` to its end, to the start of `target`, in stream order. If `target` is a
   * `HostBuffer`, wait for the stream before reading the copy.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param target A buffer at least as large as the copied bytes.
   * @param options The stream to copy on, or an object that has it and says where in this buffer the copy starts. The
   * stream defaults to the buffer's own.
   * @throws {RangeError} If the target is too small, or the copied ranges overlap
   * @throws {TypeError} If `target` is not a HostBuffer or a DeviceBuffer; for typed arrays, use `read`
   * @throws {ReferenceError} If the buffer or the target was freed, or the stream was disposed
   */
  copyTo(target: HostBuffer | DeviceBuffer, options?: OrStream<CopyOptions>): void;
  /** @ignore */
  copyTo(
    target: HostBuffer | DeviceBuffer,
    stream: CudaStream | undefined,
    options: Omit<CopyOptions, "stream"> | undefined,
  ): void;
  copyTo(target: HostBuffer | DeviceBuffer, given?: OrStream<CopyOptions>, rest?: CopyOptions): void {
    const options = hasStreamAlone(given, rest) ? noOptions : namedOptions(given, rest, copyToOptions);
    const stream = given instanceof CudaStream ? given : options.stream === undefined ? this.stream : options.stream;
    if (stream !== this.#allocation.stream) checkStream(stream, this.#allocation.session, copyToOptions.usage);
    const { byteOffset = 0 } = options;
    this.#checkOther(target, checkHostTarget);
    checkRange(byteOffset, 0, this.byteLength);
    const length = this.byteLength - byteOffset;
    if (length > target.byteLength) {
      throw new RangeError(`Cannot reach bytes 0 to ${length} of the target: it has ${target.byteLength} bytes`);
    }
    const source = this.address + BigInt(byteOffset);
    if (length === 0) return;
    try {
      const place = { allocation: this.#allocation, address: source };
      if (target instanceof DeviceBuffer) copyBetween(place, target.#place(), { byteLength: length, stream });
      else copyToHost(place, bytesOfHost(target, length), stream);
    } catch (error) {
      const buffer = this.#allocation;
      const ends = target instanceof DeviceBuffer ? { target: target.#allocation } : {};
      throw refusedCopy(`copy ${length} bytes from`, error, { buffer, source: buffer, ...ends }, stream);
    }
  }

  /**
   * Sets `byteLength` bytes of the buffer, from `byteOffset`, to `byte`, in stream order. `DeviceArray` overrides this
   * to set elements instead of bytes.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   *
   * @param byte From 0 to 255.
   * @param options The stream to use, or an object that has it and says which bytes to set. The stream defaults to the
   * buffer's own, the bytes to all; `byteLength` defaults to the rest of the buffer.
   * @throws {RangeError} If `byte` is not an integer from 0 to 255, or the range is not in the buffer
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   */
  fill(byte: number | bigint, options?: OrStream<FillOptions>): void;
  /** @ignore */
  fill(byte: number | bigint, stream: CudaStream | undefined, options: Omit<FillOptions, "stream"> | undefined): void;
  fill(byte: number | bigint, given?: OrStream<FillOptions>, rest?: FillOptions): void {
    const options = hasStreamAlone(given, rest) ? noOptions : namedOptions(given, rest, fillOptions);
    const stream = given instanceof CudaStream ? given : options.stream === undefined ? this.stream : options.stream;
    if (stream !== this.#allocation.stream) checkStream(stream, this.#allocation.session, fillOptions.usage);
    const { byteOffset = 0, begin, end } = options;
    checkByte(byte);
    if (begin !== undefined || end !== undefined) refuseElements();
    if (byteOffset !== 0) checkRange(byteOffset, 0, this.byteLength);
    const { byteLength = this.byteLength - byteOffset } = options;
    if (byteLength !== this.byteLength) checkByteLength(byteLength, "the byteLength to fill");
    checkRange(byteOffset, byteLength, this.byteLength);
    const address = this.address + BigInt(byteOffset);
    if (byteLength === 0) return;
    try {
      const { driver } = this.#allocation.session;
      driver.memsetAsync(stream.device.ordinal, address, byte, byteLength, stream.unsafeHandle);
      this.#allocation.noteUse(stream);
    } catch (error) {
      throw refusedFill(`fill ${byteLength} bytes of`, error, this.#allocation, stream);
    }
  }

  /**
   * Returns a view of the buffer's bytes as elements of a type. The view shares the buffer's memory. Only the whole
   * buffer can be freed.
   *
   * @param type The element type, as the constructor of a typed array.
   * @param options The shape, which defaults to one dimension, and the dtype, which defaults to that of the type. For
   * example, use `Uint16Array` with `{ dtype: "bfloat16" }`.
   * @throws {RangeError} If the buffer does not consist of whole elements, its address is not a multiple of their size,
   * or the shape does not match the buffer's size
   * @throws {TypeError} If `type` is not the constructor of a typed array, or cannot represent elements of the dtype
   * @throws {ReferenceError} If the buffer was freed
   */
  as<T extends TypedArray>(type: TypedArrayConstructor<T>, options?: ArrayOptions): DeviceArray<T> {
    const { byteLength } = this;
    const address = addressForView(this);
    checkElements(type, { address, byteLength });
    const layout = options === undefined ? undefined : arrayLayout(type, options, byteLength);
    const part = { address, byteLength, stream: this.stream };
    return viewAs(type, this.#allocation, part, layout);
  }

  /**
   * Returns a view of rows of elements in the buffer: a matrix, one of its columns, every second row. The view shares
   * the buffer's memory.
   *
   * @param type The element type, as the constructor of a typed array.
   * @param size Elements in a row, rows, and slices of rows.
   * @param options The distances of rows and slices, which default to no gaps, and where the first row begins.
   * @throws {RangeError} If the rows are not in the buffer, or a distance is too small or not a multiple of the element
   * size
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the buffer was freed
   */
  pitched<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    size: Extent,
    options?: PitchOptions,
  ): PitchedArray<T> {
    return viewPitched(this, type, size, options);
  }

  /**
   * Returns a copy of the buffer's elements, in stream order, without blocking the event loop.
   *
   * The copy goes through page-locked memory in pieces of 8 MiB, of which at most four are enqueued at a time. A read
   * of more than 32 MiB is therefore not atomic: if other work changes the memory before the promise resolves, the
   * result may mix old and new contents. If the buffer is freed during the read, on any stream, its memory stays until
   * the read is done.
   *
   * @param type The element type, as the constructor of a typed array.
   * @param options The stream to read on, or an object that has it and says which elements to read.
   * @throws {RangeError} If the range is not in the buffer, or its length is not a multiple of the element size
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   */
  async read<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    options: OrStream<ReadOptions> = {},
  ): Promise<T> {
    options = optionsOf(options);
    checkOptions(options, readOptions);
    const { stream, place, byteLength } = this.#readRange(type, options);
    const { signal } = options;
    if (signal !== undefined) throwIfAborted(signal, this.#readOf(byteLength));
    try {
      const bytes = await readBytes(place, byteLength, { stream, signal: signal! });
      return new type(bytes.buffer);
    } catch (error) {
      const failed = errorOfWait(error, this.#readOf(byteLength), options);
      throw cannot(`read ${byteLength} bytes of the buffer on device ${this.device.ordinal}`, failed);
    }
  }

  #readOf(byteLength: number): string {
    return `the read of ${byteLength} bytes of a buffer on device ${this.device.ordinal}`;
  }

  /**
   * Returns a copy of the buffer's elements, and blocks until the copy is complete.
   *
   * @param type The element type, as the constructor of a typed array.
   * @param options The stream to read on, or an object that has it and says which elements to read.
   * @throws {RangeError} If the range is not in the buffer, or its length is not a multiple of the element size
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   */
  readSync<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    options: OrStream<Omit<ReadOptions, "signal">> = {},
  ): T {
    options = optionsOf(options);
    checkOptions(options, readSyncOptions);
    const { stream, place, byteLength } = this.#readRange(type, options);
    try {
      return new type(readBytesSync(place, byteLength, stream).buffer);
    } catch (error) {
      throw cannot(`read ${byteLength} bytes of the buffer on device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Returns a view of the bytes from `byteBegin` up to, but not including, `byteEnd`. The view shares the buffer's
   * memory. Only the whole buffer can be freed.
   *
   * @param byteBegin Offset of the first byte. Negative offsets are not supported.
   * @param byteEnd Offset after the last byte. Defaults to the end of the buffer.
   * @throws {RangeError} If the range is not in the buffer
   */
  subarray(byteBegin: number, byteEnd: number = this.byteLength): DeviceBuffer {
    checkByteLength(byteBegin, "a byteBegin");
    checkRange(byteBegin, 0, this.byteLength);
    checkByteLength(byteEnd, "a byteEnd");
    if (byteEnd < byteBegin) {
      throw new RangeError(`Cannot view bytes ${byteBegin} to ${byteEnd} of the buffer: the end is before the start`);
    }
    checkRange(byteBegin, byteEnd - byteBegin, this.byteLength);
    const address = addressForView(this) + BigInt(byteBegin);
    return new DeviceBuffer(this.#allocation, { address, byteLength: byteEnd - byteBegin, stream: this.stream });
  }

  /**
   * Declares that work on `stream` uses the buffer. The memory is then freed only once all work that was enqueued on
   * this stream before the free is complete. Only needed if the stream is not the buffer's own and this library does
   * not know of the use: for work that other libraries enqueue, and for kernels that get the address as a bigint or
   * read it from memory. Copies, and launches with the buffer as an argument, are tracked automatically.
   *
   * @param stream The stream that uses the buffer.
   * @throws {TypeError} If `stream` is not a stream of the same `Cuda` object
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   */
  usedOn(stream: CudaStream): void {
    checkStream(stream, this.#allocation.session);
    void stream.unsafeHandle;
    void this.address;
    if (stream !== this.#allocation.stream) this.#allocation.noteUseBefore(stream, Infinity);
  }

  /**
   * Moves managed memory to a place, in stream order, so that those who access it there need not wait for it. Nothing but
   * time depends on it: the memory has the same address, and the same contents, wherever it is.
   *
   * @param location A device, `"host"`, a NUMA node such as `{ numaNode: 0 }`, or `"host-numa-current"`.
   * @param options The stream to use, or `{ stream }`. Defaults to the buffer's own stream.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} If the memory is not managed, or `location` is not a place
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   * @throws {CudaError} `cudaErrorInvalidDevice` if the attribute `concurrentManagedAccess` of the stream's device, or of
   * the device to move to, is 0; `cudaErrorStreamCaptureUnsupported` if the stream is being captured
   */
  prefetch(location: MemoryLocation, options?: OrStream<StreamOption>): void {
    const given = streamOf(options, prefetchOptions);
    const stream = given === undefined ? this.stream : given;
    if (stream !== this.#allocation.stream) checkStream(stream, this.#allocation.session, prefetchOptions.usage);
    prefetchMemory({ allocation: this.#allocation, buffer: this }, location, stream);
  }

  /**
   * Discards the contents of managed memory, in stream order. CUDA then need not copy them when it moves the memory.
   * Write the memory before reading it again. Needs CUDA 13.
   *
   * Work that uses the memory must be ordered before the discard, or after it.
   *
   * @param options The stream to use, or `{ stream, prefetch }`: with `prefetch`, the memory is moved to that place
   * without what it holds. The stream, which defaults to the buffer's own, must not be a default stream.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} If the memory is not managed, or `prefetch` is not a place
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   * @throws {CudaError} `cudaErrorInvalidValue` for a default stream; `cudaErrorCallRequiresNewerDriver` before CUDA 13;
   * `cudaErrorStreamCaptureUnsupported` if the stream is being captured
   */
  discard(options: OrStream<DiscardOptions> = {}): void {
    const given = options instanceof CudaStream
      ? { stream: options }
      : namedOptions(options, undefined, discardOptions);
    const { stream = this.stream, prefetch }: DiscardOptions = given;
    if (stream !== this.#allocation.stream) checkStream(stream, this.#allocation.session, discardOptions.usage);
    discardMemory({ allocation: this.#allocation, buffer: this }, { stream, prefetch });
  }

  /**
   * Returns 64 bytes of export data, with which another process that has imported the pool can map this buffer.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If the buffer is part of another buffer or of an allocator's slab, or its memory is not from a
   * pool
   * @throws {CudaError} `cudaErrorInvalidValue` if the pool cannot be shared, or its handle was not exported yet
   */
  exportPointer(): Uint8Array<ArrayBuffer> {
    return exportPointerOf(this, this.#allocation, this.#partStream !== undefined);
  }

  /**
   * Returns a handle of 64 bytes for `CudaDevice.openMemory` in another process. Only memory from `CudaDevice.allocate`
   * has one; for memory of a pool, use `exportPointer`.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} If the buffer is part of another buffer, or its memory is not from `CudaDevice.allocate`
   */
  exportHandle(): Uint8Array<ArrayBuffer> {
    return exportHandleOf(this, this.#allocation, this.#partStream !== undefined);
  }

  /**
   * Returns the memory of a buffer from a pool in host memory, or of managed memory, without copying it. The ArrayBuffer
   * is detached when the buffer is freed: views of it then have no elements. Do not transfer it: memory whose view was
   * transferred is not freed before the process exits. Before reading what a stream's work writes, wait for the stream;
   * wait too before writing what it reads, and before using memory that it allocates.
   *
   * @throws {TypeError} If the buffer wraps memory that other code owns, or is managed memory of a device whose attribute
   * `concurrentManagedAccess` is 0
   * @throws {CudaError} `cudaErrorInvalidValue` for device memory, `cudaErrorNotSupported` if the runtime cannot access
   * foreign memory
   */
  hostView(): ArrayBuffer {
    return this.#allocation.hostView(this.address, this.byteLength);
  }

  /**
   * Frees the memory in stream order: work that was enqueued before may still use it. This includes work on other
   * streams that was enqueued by methods of this library or declared with `usedOn`: unless `stream` is known to be
   * ordered after that work, the memory is freed on an internal stream of the library, which waits for all of these
   * streams. Memory that is not from a pool is not stream-ordered: freeing it blocks until the stream's work is done.
   * Memory from `CudaDevice.wrap` is not freed: only the buffer becomes unusable. If the memory is still being read or
   * is lent to other processes, it is freed when the reads are done and the other processes have released it.
   *
   * @param options The stream to free on, or an object that has it. Defaults to the buffer's own stream. Another stream
   * must be ordered after the work on the buffer's own stream, by waiting for an event. If the buffer's own stream was
   * disposed, the memory is freed on the device's default stream, after all work of the disposed stream.
   * @throws {ReferenceError} If the buffer was freed already, or a given stream was disposed
   * @throws {TypeError} If the buffer is part of another buffer or a module's global, or `stream` is not a stream of
   * the same `Cuda` object
   */
  free(options?: OrStream<StreamOption>): void {
    const { stream: own } = this.#allocation;
    const stream = streamOf(options, freeOptions);
    if (stream !== undefined && stream !== own) checkStream(stream, this.#allocation.session, freeOptions.usage);
    if (this.#partStream !== undefined) {
      throw new TypeError(
        "Cannot free a part of a buffer, or what as() returns of it: free the whole buffer, which allocate() has returned",
      );
    }
    this.#allocation.checkFreeable();
    if (stream === undefined && own.disposed) this.#allocation.freeAfterDisposed(own);
    else this.#allocation.free(stream ?? own);
  }

  /**
   * Frees the buffer on its stream. Does nothing if the buffer was freed already, is part of another buffer, or was
   * returned by `as`: declare the buffer itself with `using`.
   */
  [Symbol.dispose](): void {
    const { isGone, isAwaitingLaunch, owner } = this.#allocation;
    if (isGone || isAwaitingLaunch || this.#partStream !== undefined || owner.freeRefusal !== undefined) return;
    ignoreLoss(() => this.#allocation.freeAtDispose());
  }

  /**
   * Throws unless `other`, the source or target of a copy, is a buffer of the same `Cuda` object, or host memory that
   * passes `checkHostMemory`.
   */
  #checkOther(other: unknown, checkHostMemory: (memory: unknown, session: Session) => void): void {
    const { session } = this.#allocation;
    if (!(other instanceof DeviceBuffer)) return checkHostMemory(other, session);
    if (other.#allocation.session === session) return;
    throw errorOfAnotherCuda("copy to or from a buffer");
  }

  #place(): CopyPlace {
    return { allocation: this.#allocation, address: this.address };
  }

  #readRange<T extends TypedArray>(type: TypedArrayConstructor<T>, options: ReadOptions): {
    stream: CudaStream;
    place: CopyPlace;
    byteLength: number;
  } {
    checkArrayType(type);
    const { stream = this.stream } = options;
    if (stream !== this.#allocation.stream) checkStream(stream, this.#allocation.session);
    const { byteOffset, byteLength } = elementRange(type, options, this.byteLength);
    return { stream, place: { allocation: this.#allocation, address: this.address + BigInt(byteOffset) }, byteLength };
  }
}

/** Returns the printed form of a buffer or an array: `"DeviceBuffer { device 0, 1024 bytes, 0x302000000 }"`. */
function describe(buffer: DeviceBuffer, allocation: Allocation, address: bigint): string {
  const freed = allocation.isReleaseDeferred ? "freed, still kept" : "freed";
  const live = allocation.session.hasEnded ? "Cuda disposed" : `0x${address.toString(16)}`;
  const { isHostMemory, isManaged } = allocation.owner;
  const place = isManaged ? "managed" : placeOf(isHostMemory ? undefined : allocation.device);
  // `type` and `length` are properties of DeviceArray, a subclass. Reading `length` of any other buffer throws.
  const { type } = buffer as { readonly type?: { readonly name: string } };
  const elements = type === undefined ? "" : `${type.name}(${(buffer as unknown as ArrayLike<unknown>).length}), `;
  const state = allocation.suspension !== undefined ? "asleep" : allocation.isFreed ? freed : live;
  // The class's name is written out, because a bundler may have renamed the constructor.
  const name = type === undefined ? "DeviceBuffer" : "DeviceArray";
  return `${name} { ${place}, ${elements}${countOf(buffer.byteLength, "byte")}, ${state} }`;
}
