import { countOf, placeOf, printAs } from "../support/printing.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../objects/cuda_stream.ts";
import { CudaError } from "../support/errors.ts";
import { cannot, ignoreLoss } from "../support/driver_errors.ts";
import { HostBuffer } from "./host_buffer.ts";
import type { ImportedMemoryPool } from "./imported_memory_pool.ts";
import type { MemoryPool } from "./memory_pool.ts";
import type { Session } from "../session.ts";
import { type StagingBuffer, stagingPieceByteLength } from "./staging.ts";
import { checkArrayType, type TypedArray, type TypedArrayConstructor } from "../support/typed_array.ts";
import {
  bytesOf,
  checkByteLength,
  checkNumber,
  checkOptions,
  errorOfAnotherCuda,
  whatIs,
} from "../support/validation.ts";
import { nextTurn } from "../support/waiting/turn.ts";
import { throwIfAborted, type WaitOptions, waitUntil } from "../support/waiting/waiting.ts";

/** Pieces of a read that are enqueued before the first one is waited for. */
const maximumPiecesInFlight = 4;
/** The default options of copies and fills, shared so that a call allocates none. */
const noOptions: CopyOptions = {};
const bufferClasses = ["DeviceBuffer", "DeviceArray", "HostBuffer"];

/** Where a copy or a fill starts. */
export interface CopyOptions {
  /** Offset in bytes into the buffer whose method is called, never into the other buffer. Defaults to 0. */
  byteOffset?: number;
}

/** Which elements to read, and on which stream. */
export interface ReadOptions extends WaitOptions {
  /** The stream to read on. Defaults to the buffer's own stream. */
  stream?: CudaStream;
  /** Offset of the first element, in bytes. Defaults to 0. */
  byteOffset?: number;
  /** Number of elements to read. Defaults to the rest of the buffer. */
  length?: number;
}

/** The position of an allocator's buffer in the slab that it was cut from. */
export interface SlabPart {
  /** The slab: an allocation of the pool, which the allocator frees. */
  readonly slab: DeviceBuffer;
  /** Offset of the buffer in the slab, in bytes. */
  readonly byteOffset: number;
}

/** The owner of a buffer's memory, which frees it. The optional members describe the memory. */
export interface BufferOwner {
  /** Frees the memory in stream order. */
  release(address: bigint, byteLength: number, stream: CudaStream): void;
  /** Called when a buffer is freed while its memory has holders. `release` follows when the last holder lets go. */
  awaitRelease?(address: bigint, byteLength: number): void;
  /** Whether the memory is from a pool in host memory. */
  readonly isHostMemory?: boolean;
  /** Returns the bytes by which another process opens the memory. Only for memory that is not from a pool. */
  exportHandle?(address: bigint): Uint8Array<ArrayBuffer>;
  /**
   * Why the user may not free the buffer; undefined if the user may. If there is a reason but no `awaitRelease`, the
   * memory cannot be held by `keepMemory` either.
   */
  readonly freeRefusal?: string;
  /** The position in the slab, for a buffer that is part of one. */
  readonly part?: SlabPart;
}

/** The constructor's parameters. */
export type DeviceBufferParameters = ConstructorParameters<typeof DeviceBuffer>;

/**
 * Returns the constructor arguments of a view of the buffer's bytes from `byteBegin` to `byteEnd`, for subclasses. The
 * stream among them is the device's default stream, so the caller must set the view's stream afterwards.
 */
export let viewArguments: (buffer: DeviceBuffer, byteBegin: number, byteEnd: number) => DeviceBufferParameters;

/** Invalidates the buffer of a module's global, whose memory is unloaded with the module: pending reads fail. */
export let markUnloaded: (buffer: DeviceBuffer) => void;

/**
 * Makes a buffer unusable without freeing its memory. Pending reads continue, so the memory must stay until
 * `isBeingRead` is false.
 */
export let endUse: (buffer: DeviceBuffer) => void;

/**
 * Whether a read of the buffer or of its parts has copies that are still to be enqueued or not known to be complete.
 * Also true while `keepMemory` holds the memory.
 */
export let isBeingRead: (buffer: DeviceBuffer) => boolean;

/**
 * Makes a stream wait for the copies that reads of the buffer and of its parts have enqueued. Returns false if a read
 * still has copies to enqueue; when all of them are complete, `isBeingRead` is false.
 */
export let awaitCopies: (buffer: DeviceBuffer, stream: CudaStream) => boolean;

/**
 * Holds the memory of the whole buffer, of which `buffer` may be a part, until the returned function is called. Calling
 * that function again does nothing.
 *
 * If the buffer is freed before that, it becomes unusable at once and `onFree` is called, but the driver frees the
 * memory only after the last holder has let go. It frees the memory on the stream that was passed to `free` or, if that
 * stream was disposed, on the device's default stream after the work that preceded the free.
 *
 * @throws {ReferenceError} If the buffer was freed
 * @throws {TypeError} If the buffer is a module's global, which is unloaded with its module, or a slot of a channel
 */
export let keepMemory: (buffer: DeviceBuffer, onFree: () => void) => () => void;

/** Frees a buffer despite its `freeRefusal`. For the object that allocated it, such as the allocator of a slab. */
export let freeAsOwner: (buffer: DeviceBuffer, stream: CudaStream) => void;

/** The position of a buffer, or of a part of one, in its slab; undefined if its memory does not come from a slab. */
export let slabPartOf: (buffer: DeviceBuffer) => SlabPart | undefined;

/** Returns the whole buffer that `buffer` is a part of, or `buffer` itself, and the part's offset in it, in bytes. */
export let wholeOf: (buffer: DeviceBuffer) => { whole: DeviceBuffer; byteOffset: number };

/** The session that a buffer belongs to. */
export let sessionOfBuffer: (buffer: DeviceBuffer) => Session;

/**
 * A holder of a buffer's memory, which is not released before all holders let go. `onFree` is called if the user frees
 * the buffer before that.
 */
interface MemoryHolder {
  readonly onFree: (() => void) | undefined;
}

/** The release of freed memory, deferred until its last holder lets go. */
interface DeferredRelease {
  readonly stream: CudaStream;
  /** An event recorded on the stream when the buffer was freed, in case the stream is disposed before the release. */
  readonly marker: bigint | undefined;
}

/** State that few buffers have. */
interface RareData {
  /** Whether the memory was unloaded with its module: reads with copies still to enqueue fail. */
  isUnloaded?: boolean;
  /** The result of `hostView`, once it was called. */
  hostView?: ArrayBuffer;
  /** The host views of this buffer and of its parts. */
  hostViews?: ArrayBuffer[] | undefined;
  /** Copies of reads that are not known to be complete. */
  copies?: Set<StagingBuffer>;
  /** Holders of the memory: reads with copies still to enqueue, and callers of `keepMemory`. */
  holders?: Set<MemoryHolder>;
  deferredRelease?: DeferredRelease | undefined;
}

/**
 * A buffer of device memory. Methods enqueue work on a stream and return at once, unless documented otherwise. Buffers
 * come from the methods that allocate, import or open memory, such as `MemoryPool.allocate`.
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
  /** Size in bytes. */
  readonly byteLength: number;
  /** The pool that the memory is from; undefined if it is not from a pool. */
  readonly pool: MemoryPool | ImportedMemoryPool | undefined;
  /**
   * The device that the memory is on. For a buffer of a pool in host memory: the device of the stream it was allocated
   * on, or the device through which it was imported.
   */
  readonly device: CudaDevice;
  #stream: CudaStream;
  readonly #session: Session;
  readonly #owner: BufferOwner;
  readonly #address: bigint;
  /** The buffer that this is a part of, or this buffer itself. */
  readonly #whole: DeviceBuffer;
  #isFreed = false;
  /** Allocated on first use, so that most buffers stay small. */
  #rareData: RareData | undefined;

  static {
    sessionOfBuffer = (buffer) => buffer.#session;
    viewArguments = (buffer, byteBegin, byteEnd) => buffer.#viewArguments(byteBegin, byteEnd);
    markUnloaded = (buffer) => {
      buffer.#allocatedRareData.isUnloaded = true;
      buffer.#markFreed();
    };
    endUse = (buffer) => buffer.#markFreed();
    isBeingRead = (buffer) => buffer.#whole.#hasHolders || (buffer.#whole.#rareData?.copies?.size ?? 0) > 0;
    awaitCopies = (buffer, stream) => {
      buffer.#whole.#awaitCopies(stream);
      return !buffer.#whole.#hasHolders;
    };
    keepMemory = (buffer, onFree) => {
      void buffer.address;
      const { freeRefusal, awaitRelease } = buffer.#owner;
      if (freeRefusal !== undefined && awaitRelease === undefined) {
        throw new TypeError(`Cannot keep the buffer: ${freeRefusal}`);
      }
      return buffer.#whole.#hold(onFree);
    };
    freeAsOwner = (buffer, stream) => buffer.#free(stream);
    slabPartOf = (buffer) => {
      const { part } = buffer.#owner;
      if (part === undefined) return undefined;
      return { slab: part.slab, byteOffset: part.byteOffset + Number(buffer.#address - buffer.#whole.#address) };
    };
    wholeOf = (buffer) => {
      const whole = buffer.#whole;
      return { whole, byteOffset: Number(buffer.#address - whole.#address) };
    };
    printAs(this, "DeviceBuffer", (buffer) => {
      const whole = buffer.#whole;
      const freed = whole.#rareData?.deferredRelease === undefined ? "freed" : "freed, still kept";
      const live = buffer.#session.hasEnded ? "Cuda disposed" : `0x${buffer.#address.toString(16)}`;
      const place = placeOf(buffer.#owner.isHostMemory ? undefined : buffer.device);
      // Properties of DeviceArray, a subclass.
      const { length, type } = buffer as { readonly length?: number; readonly type?: { readonly name: string } };
      const elements = type === undefined ? "" : `${type.name}(${length}), `;
      const state = whole.#isFreed ? freed : live;
      // Not the constructor's name: a bundler may have changed it.
      const name = type === undefined ? "DeviceBuffer" : "DeviceArray";
      return `${name} { ${place}, ${elements}${countOf(buffer.byteLength, "byte")}, ${state} }`;
    });
  }

  /**
   * Buffers come from the methods that allocate, import or open memory.
   *
   * @ignore
   */
  constructor(
    session: Session,
    owner: BufferOwner,
    pool: MemoryPool | ImportedMemoryPool | undefined,
    address: bigint,
    byteLength: number,
    stream: CudaStream,
    whole?: DeviceBuffer,
  ) {
    this.#session = session;
    this.#owner = owner;
    this.#address = address;
    this.#whole = whole ?? this;
    this.pool = pool;
    this.byteLength = byteLength;
    this.#stream = stream;
    this.device = pool?.device ?? stream.device;
  }

  /**
   * The stream that the methods use by default and on which the buffer is freed. Can be set. Initially it is the stream
   * of the allocation. For memory that was imported or opened, for a module's global, and for memory from
   * `CudaDevice.allocate`, it is the device's default stream.
   *
   * @throws {TypeError} If it is set to a value that is not a stream of the same `Cuda` object
   */
  get stream(): CudaStream {
    return this.#stream;
  }

  set stream(stream: CudaStream) {
    checkStream(stream, this.#session);
    this.#stream = stream;
  }

  /**
   * The device address. A kernel receives it when the buffer is passed as an argument.
   *
   * @throws {ReferenceError} If the buffer was freed
   */
  get address(): bigint {
    if (this.#whole.#isFreed) {
      throw new ReferenceError(`Cannot use the buffer of ${this.byteLength} bytes: it was freed`);
    }
    return this.#address;
  }

  /**
   * Copies all of `source` into the buffer, in stream order.
   *
   * If `source` is pageable, as ordinary typed arrays are, its bytes have been captured when this returns; CUDA may
   * first wait for earlier work of the stream. If it is page-locked, the device reads it later: do not change a
   * `HostBuffer`, or a view of `HostBuffer.buffer` or of a `hostView`, until the stream has completed the copy.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param source A typed array, a DataView, an ArrayBuffer, a HostBuffer, or a DeviceBuffer on any device.
   * @param stream The stream to copy on. Defaults to the buffer's own stream.
   * @param options Where in this buffer the copy starts.
   * @throws {RangeError} If the source does not fit
   * @throws {TypeError} If `source` has another type
   * @throws {ReferenceError} If the buffer or the source was freed, or the stream was disposed
   */
  copyFrom(
    source: ArrayBufferView | ArrayBuffer | HostBuffer | DeviceBuffer,
    stream: CudaStream = this.stream,
    options: CopyOptions = noOptions,
  ): void {
    if (stream !== this.#stream) checkStream(stream, this.#session);
    checkOptions(options, "copyFrom");
    const { byteOffset = 0 } = options;
    if (!ArrayBuffer.isView(source)) this.#checkSource(source);
    const length = source.byteLength;
    this.#checkRange(byteOffset, length);
    const destination = this.address + BigInt(byteOffset);
    if (length === 0) return;
    try {
      if (source instanceof DeviceBuffer) {
        this.#copyBetween(source, this, { to: destination, from: source.address, length, stream });
      } else {
        const bytes = bytesOf(source instanceof HostBuffer ? source.buffer : source);
        this.#session.driver.memcpyHtoDAsync(this.#deviceForHostCopy(stream), destination, bytes, stream.unsafeHandle);
      }
    } catch (error) {
      throw cannot(`copy ${length} bytes to the buffer on device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Copies the buffer, from `byteOffset` to its end, to the start of `target`, in stream order. If `target` is a
   * `HostBuffer`, wait for the stream before reading the copy.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param target A buffer at least as large as the copied bytes.
   * @param stream The stream to copy on. Defaults to the buffer's own stream.
   * @param options Where in this buffer the copy starts.
   * @throws {RangeError} If the target is too small
   * @throws {TypeError} If `target` is not a HostBuffer or a DeviceBuffer; for typed arrays, use `read`
   * @throws {ReferenceError} If the buffer or the target was freed, or the stream was disposed
   */
  copyTo(
    target: HostBuffer | DeviceBuffer,
    stream: CudaStream = this.stream,
    options: CopyOptions = noOptions,
  ): void {
    if (stream !== this.#stream) checkStream(stream, this.#session);
    checkOptions(options, "copyTo");
    const { byteOffset = 0 } = options;
    this.#checkTarget(target);
    this.#checkRange(byteOffset, 0);
    const length = this.byteLength - byteOffset;
    if (length > target.byteLength) {
      throw new RangeError(`Cannot reach bytes 0 to ${length} of the target: it has ${target.byteLength} bytes`);
    }
    const source = this.address + BigInt(byteOffset);
    if (length === 0) return;
    try {
      if (target instanceof DeviceBuffer) {
        this.#copyBetween(this, target, { to: target.address, from: source, length, stream });
      } else {
        const bytes = new Uint8Array(target.buffer, 0, length);
        this.#session.driver.memcpyDtoHAsync(this.#deviceForHostCopy(stream), bytes, source, stream.unsafeHandle);
      }
    } catch (error) {
      throw cannot(`copy ${length} bytes from the buffer on device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Sets `byteLength` bytes of the buffer, from `byteOffset`, to `byte`, in stream order.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param byte From 0 to 255.
   * @param stream The stream to use. Defaults to the buffer's own stream.
   * @param options Which bytes to set. Defaults to all bytes; `byteLength` defaults to the rest of the buffer.
   * @throws {RangeError} If `byte` is not an integer from 0 to 255, or the range is not in the buffer
   * @throws {TypeError} If an argument has another type
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   */
  fill(
    byte: number,
    stream: CudaStream = this.stream,
    options: CopyOptions & { byteLength?: number } = noOptions,
  ): void {
    if (stream !== this.#stream) checkStream(stream, this.#session);
    checkOptions(options, "fill");
    const { byteOffset = 0 } = options;
    checkNumber(byte, "a byte to fill with");
    if (!Number.isInteger(byte) || byte < 0 || byte > 255) {
      throw new RangeError(`Cannot fill with ${byte}: a byte is a whole number from 0 to 255`);
    }
    if (byteOffset !== 0) this.#checkRange(byteOffset, 0);
    const { byteLength = this.byteLength - byteOffset } = options;
    if (byteLength !== this.byteLength) checkByteLength(byteLength, "the byteLength to fill");
    this.#checkRange(byteOffset, byteLength);
    const address = this.address + BigInt(byteOffset);
    if (byteLength === 0) return;
    try {
      this.#session.driver.memsetAsync(stream.device.ordinal, address, byte, byteLength, stream.unsafeHandle);
    } catch (error) {
      throw cannot(`fill ${byteLength} bytes of the buffer on device ${this.device.ordinal}`, error);
    }
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
   * @param options Which elements to read, and on which stream.
   * @throws {RangeError} If the range is not in the buffer, or its length is not a multiple of the element size
   * @throws {TypeError} If an argument has another type
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   */
  async read<T extends TypedArray>(type: TypedArrayConstructor<T>, options: ReadOptions = {}): Promise<T> {
    const { stream, byteOffset, byteLength } = this.#readRange(type, options);
    throwIfAborted(options.signal);
    const result = new Uint8Array(byteLength);
    const pieces = piecesOf(byteLength);
    const inFlight: { begin: number; length: number; staging: StagingBuffer }[] = [];
    const endHold = this.#whole.#hold();
    try {
      for (let next = 0, taken = 0; taken < pieces.length; taken++) {
        for (; next < pieces.length && next < taken + maximumPiecesInFlight; next++) {
          const { begin, length } = pieces[next]!;
          inFlight.push({ begin, length, staging: this.#enqueuePiece(byteOffset + begin, length, stream) });
        }
        if (next === pieces.length) endHold();
        const { begin, length, staging } = inFlight[0]!;
        await waitUntil(() => this.#session.driver.eventQuery(staging.event), options);
        result.set(new Uint8Array(staging.allocation.buffer, 0, length), begin);
        inFlight.shift();
        this.#releaseStaging(staging);
        // Yields to the event loop between pieces, even if the device is so fast that the host never waits for it.
        if (taken + 1 < pieces.length) await nextTurn();
      }
    } catch (error) {
      throw cannot(`read ${byteLength} bytes of the buffer on device ${this.device.ordinal}`, error);
    } finally {
      this.#releaseStagingWhenDone(inFlight.map(({ staging }) => staging));
      endHold();
    }
    return new type(result.buffer);
  }

  /**
   * Returns a copy of the buffer's elements, and blocks until the copy is complete.
   *
   * @param type The element type, as the constructor of a typed array.
   * @param options Which elements to read, and on which stream.
   * @throws {RangeError} If the range is not in the buffer, or its length is not a multiple of the element size
   * @throws {TypeError} If an argument has another type
   * @throws {ReferenceError} If the buffer was freed or the stream was disposed
   */
  readSync<T extends TypedArray>(type: TypedArrayConstructor<T>, options: Omit<ReadOptions, "signal"> = {}): T {
    const { stream, byteOffset, byteLength } = this.#readRange(type, options);
    const result = new Uint8Array(byteLength);
    try {
      for (const { begin, length } of piecesOf(byteLength)) {
        const staging = this.#enqueuePiece(byteOffset + begin, length, stream);
        try {
          this.#session.driver.eventSynchronize(staging.event);
          result.set(new Uint8Array(staging.allocation.buffer, 0, length), begin);
        } finally {
          this.#releaseStaging(staging);
        }
      }
    } catch (error) {
      throw cannot(`read ${byteLength} bytes of the buffer on device ${this.device.ordinal}`, error);
    }
    return new type(result.buffer);
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
    this.#checkRange(byteBegin, 0);
    checkByteLength(byteEnd, "a byteEnd");
    if (byteEnd < byteBegin) {
      throw new RangeError(`Cannot view bytes ${byteBegin} to ${byteEnd} of the buffer: the end is before the start`);
    }
    this.#checkRange(byteBegin, byteEnd - byteBegin);
    const part = new DeviceBuffer(...this.#viewArguments(byteBegin, byteEnd));
    part.#stream = this.#stream;
    return part;
  }

  /**
   * Returns 64 bytes of export data, by which another process that has imported the pool maps this buffer.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If the buffer is part of another buffer or of an allocator's slab, or its memory is not from a
   * pool
   * @throws {CudaError} `cudaErrorInvalidValue` if the pool cannot be shared, or its handle was not exported yet
   */
  exportPointer(): Uint8Array<ArrayBuffer> {
    this.#checkIsWhole("export");
    if (this.pool === undefined) {
      throw new TypeError(
        "Cannot export a pointer to memory that is not from a pool: allocate it from one, or use exportHandle",
      );
    }
    try {
      return this.#session.driver.memPoolExportPointer(this.address);
    } catch (error) {
      throw cannot(`export the buffer on device ${this.device.ordinal}`, error, this.#exportHint());
    }
  }

  /**
   * Returns a handle of 64 bytes for `CudaDevice.openMemory` in another process. Only memory from `CudaDevice.allocate`
   * has one; for memory of a pool, use `exportPointer`.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} If the buffer is part of another buffer, or its memory is not from `CudaDevice.allocate`
   */
  exportHandle(): Uint8Array<ArrayBuffer> {
    const { exportHandle } = this.#owner;
    if (exportHandle === undefined) {
      throw new TypeError(
        "Cannot export a handle to this memory: only memory from CudaDevice.allocate has one; use exportPointer for " +
          "memory of a pool",
      );
    }
    this.#checkIsWhole("export");
    try {
      return exportHandle(this.address);
    } catch (error) {
      throw cannot(`export the memory on device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Returns the memory of a buffer from a pool in host memory, without copying it. The ArrayBuffer is detached when the
   * buffer is freed: views of it then have no elements. Before reading what a stream's work writes, wait for the
   * stream.
   *
   * @throws {CudaError} `cudaErrorInvalidValue` for device memory, `cudaErrorNotSupported` if the runtime cannot access
   * foreign memory
   */
  hostView(): ArrayBuffer {
    const { address } = this;
    const rareData = this.#allocatedRareData;
    if (rareData.hostView !== undefined && !rareData.hostView.detached) return rareData.hostView;
    try {
      rareData.hostView = this.#session.hostView(address, this.byteLength);
    } catch (error) {
      const hint = error instanceof CudaError && error.code === "cudaErrorInvalidValue"
        ? "only memory of a pool from Cuda.createHostPool can be viewed in place; use read to copy other memory"
        : "use read to copy the memory";
      throw cannot(`view the buffer of ${this.byteLength} bytes on the host`, error, hint);
    }
    (this.#whole.#allocatedRareData.hostViews ??= []).push(rareData.hostView);
    return rareData.hostView;
  }

  /**
   * Frees the memory in stream order: work that was enqueued before may still use it. Memory that is not from a pool is
   * not stream-ordered: freeing it blocks until that work is done. If the memory is still being read, or is lent to
   * other processes, it is freed when the reads and the other processes are done with it.
   *
   * @param stream The stream to free on. Defaults to the buffer's own stream.
   * @throws {ReferenceError} If the buffer was freed already
   * @throws {TypeError} If the buffer is part of another buffer or a module's global, or `stream` is not a stream of
   * the same `Cuda` object
   */
  free(stream: CudaStream = this.stream): void {
    if (stream !== this.#stream) checkStream(stream, this.#session);
    if (this.#whole !== this) throw new TypeError("Cannot free a part of a buffer: free the whole buffer");
    if (this.#owner.freeRefusal !== undefined) {
      throw new TypeError(`Cannot free the buffer: ${this.#owner.freeRefusal}`);
    }
    if (this.#isFreed) throw new ReferenceError(`Cannot free the buffer of ${this.byteLength} bytes: it was freed`);
    this.#free(stream);
  }

  /** Frees the buffer on its stream. Does nothing if it was freed already, or is part of another buffer. */
  [Symbol.dispose](): void {
    if (this.#isFreed || this.#whole !== this || this.#owner.freeRefusal !== undefined) return;
    ignoreLoss(() => this.free());
  }

  #free(stream: CudaStream): void {
    // Throws for a disposed stream before anything changes: the memory could not be freed later.
    void stream.unsafeHandle;
    if (!this.#hasHolders) {
      this.#release(stream);
      this.#markFreed();
      return;
    }
    this.#rareData!.deferredRelease = { stream, marker: this.#recordFreeMarker(stream) };
    this.#owner.awaitRelease?.(this.#address, this.byteLength);
    this.#markFreed();
    for (const { onFree } of this.#rareData!.holders!) onFree?.();
  }

  #exportHint(): string {
    if (!("handleType" in this.pool!)) {
      return "only the process that allocated it can: forward its pool's handle and the 64 bytes that it was imported " +
        "from";
    }
    return this.pool.handleType === "none"
      ? 'allocate it from a pool created with handleType "posix-fd"'
      : "export its pool first, with exportHandle";
  }

  #checkIsWhole(what: string): void {
    if (this.#owner.part !== undefined) {
      // If the buffer was freed, throws that error instead.
      void this.address;
      throw new TypeError(
        `Cannot ${what} the buffer: it is a part of a slab; offer it with an Exporter, or ${what} the slab that its ` +
          "allocator's slabOf returns, and send the offset with it",
      );
    }
    if (this.#whole === this) return;
    throw new TypeError(
      `Cannot ${what} a part of a buffer: ${what} the whole buffer, and send the part's offset with it`,
    );
  }

  #markFreed(): void {
    this.#isFreed = true;
    if (this.#rareData?.hostViews === undefined) return;
    for (const view of this.#rareData.hostViews) this.#session.detach(view);
    this.#rareData.hostViews = undefined;
  }

  /** Throws unless the range is in the buffer. `length` is a whole number. */
  #checkRange(byteOffset: number, length: number): void {
    // The fast path: every copy comes here.
    if (Number.isSafeInteger(byteOffset) && byteOffset >= 0 && byteOffset + length <= this.byteLength) return;
    checkByteLength(byteOffset, "a byteOffset");
    if (byteOffset > this.byteLength) {
      throw new RangeError(`Cannot start at byte ${byteOffset} of the buffer: it has ${this.byteLength} bytes`);
    }
    throw new RangeError(
      `Cannot reach bytes ${byteOffset} to ${byteOffset + length} of the buffer: it has ${this.byteLength} bytes`,
    );
  }

  /** Throws unless `source` can be copied from. Views are checked by the caller. */
  #checkSource(source: unknown): void {
    if (source instanceof DeviceBuffer) return this.#checkSameCuda(source);
    // Checks the tag, because an ArrayBuffer may come from another realm, where instanceof is false.
    if (source instanceof HostBuffer || Object.prototype.toString.call(source) === "[object ArrayBuffer]") return;
    const sources = "a typed array, a DataView, an ArrayBuffer, a HostBuffer or a DeviceBuffer";
    throw new TypeError(`Cannot copy from ${whatIs(source, ...bufferClasses)}: give ${sources}`);
  }

  /** Throws unless `target` can be copied to. */
  #checkTarget(target: unknown): void {
    if (target instanceof DeviceBuffer) return this.#checkSameCuda(target);
    if (target instanceof HostBuffer) return;
    throw new TypeError(
      `Cannot copy to ${
        whatIs(target, ...bufferClasses)
      }: give a HostBuffer or a DeviceBuffer, or use read for a typed array`,
    );
  }

  #checkSameCuda(other: DeviceBuffer): void {
    if (other.#session === this.#session) return;
    throw errorOfAnotherCuda("copy to or from a buffer");
  }

  #viewArguments(byteBegin: number, byteEnd: number): DeviceBufferParameters {
    const address = this.address + BigInt(byteBegin);
    // The view takes its device from this stream. The caller then sets the view's own stream, which may be on another
    // device.
    const { defaultStream } = this.device;
    return [this.#session, this.#owner, this.pool, address, byteEnd - byteBegin, defaultStream, this.#whole];
  }

  get #allocatedRareData(): RareData {
    return this.#rareData ??= {};
  }

  get #hasHolders(): boolean {
    return this.#rareData?.holders !== undefined && this.#rareData.holders.size > 0;
  }

  #awaitCopies(stream: CudaStream): void {
    if (this.#rareData?.copies === undefined) return;
    for (const { event, stream: readStream } of this.#rareData.copies) {
      if (readStream !== stream) {
        this.#session.driver.streamWaitEvent(stream.device.ordinal, stream.unsafeHandle, event);
      }
    }
  }

  #release(stream: CudaStream): void {
    try {
      this.#awaitCopies(stream);
      this.#owner.release(this.#address, this.byteLength, stream);
    } catch (error) {
      throw cannot(`free the buffer of ${this.byteLength} bytes on device ${this.device.ordinal}`, error);
    }
  }

  #copyBetween(
    source: DeviceBuffer,
    target: DeviceBuffer,
    { to, from, length, stream }: { to: bigint; from: bigint; length: number; stream: CudaStream },
  ): void {
    const { driver } = this.#session;
    const { ordinal } = stream.device;
    const handle = stream.unsafeHandle;
    if (source.#owner.isHostMemory || target.#owner.isHostMemory) {
      const onDevice = source.#owner.isHostMemory ? target : source;
      driver.memcpyAsync(onDevice.#deviceForHostCopy(stream), to, from, length, handle);
    } else {
      driver.memcpyPeerAsync(ordinal, to, target.device.ordinal, from, source.device.ordinal, length, handle);
    }
  }

  /**
   * The device to make current for a copy to or from the host: the buffer's own, which needs no access rights to its
   * memory. For a default stream it is the stream's device, because its handle means the default stream of the current
   * device.
   */
  #deviceForHostCopy(stream: CudaStream): number {
    return stream === stream.device.defaultStream ? stream.device.ordinal : this.device.ordinal;
  }

  #readRange<T extends TypedArray>(type: TypedArrayConstructor<T>, options: ReadOptions): {
    stream: CudaStream;
    byteOffset: number;
    byteLength: number;
  } {
    checkArrayType(type);
    checkOptions(options, "a read");
    const { stream = this.stream, byteOffset = 0, length } = options;
    if (stream !== this.#stream) checkStream(stream, this.#session);
    this.#checkRange(byteOffset, 0);
    const size = type.BYTES_PER_ELEMENT;
    if (length === undefined && (this.byteLength - byteOffset) % size !== 0) {
      const rest = this.byteLength - byteOffset;
      throw new RangeError(`Cannot read ${rest} bytes as elements of ${size} bytes: give a length`);
    }
    const elements = length ?? (this.byteLength - byteOffset) / size;
    checkNumber(elements, "a number of elements");
    if (!Number.isSafeInteger(elements) || elements < 0) {
      throw new RangeError(`Cannot read ${elements} elements: a length is a whole number, at least 0`);
    }
    this.#checkRange(byteOffset, elements * size);
    // Throws if the buffer was freed.
    void this.address;
    return { stream, byteOffset, byteLength: elements * size };
  }

  /** Enqueues the copy of one piece to page-locked memory. */
  #enqueuePiece(byteOffset: number, length: number, stream: CudaStream): StagingBuffer {
    if (this.#whole.#rareData?.isUnloaded) {
      throw new ReferenceError("Cannot finish the read of the buffer: its module was disposed");
    }
    const { driver, staging } = this.#session;
    const { ordinal } = stream.device;
    const handle = stream.unsafeHandle;
    const buffer = staging.acquire(stream, length);
    try {
      const target = new Uint8Array(buffer.allocation.buffer, 0, length);
      driver.memcpyDtoHAsync(this.#deviceForHostCopy(stream), target, this.#address + BigInt(byteOffset), handle);
      driver.eventRecord(ordinal, buffer.event, handle);
    } catch (error) {
      staging.release(buffer);
      throw error;
    }
    (this.#whole.#allocatedRareData.copies ??= new Set()).add(buffer);
    return buffer;
  }

  #releaseStaging(staging: StagingBuffer): void {
    this.#whole.#rareData?.copies?.delete(staging);
    this.#session.staging.release(staging);
  }

  /**
   * Releases the staging buffers of an abandoned read when their copies are complete: until then the device may write
   * to them.
   */
  #releaseStagingWhenDone(buffers: readonly StagingBuffer[]): void {
    for (const staging of buffers) {
      waitUntil(() => this.#session.driver.eventQuery(staging.event)).then(
        () => this.#releaseStaging(staging),
        // If the device was lost or the session has ended, the memory is gone too, and nothing is being read.
        () => this.#whole.#rareData?.copies?.delete(staging),
      );
    }
  }

  /** Adds a holder of the memory until the returned function is called. */
  #hold(onFree?: () => void): () => void {
    const holder = { onFree };
    const rareData = this.#allocatedRareData;
    const holders = rareData.holders ??= new Set();
    holders.add(holder);
    return () => {
      if (!holders.delete(holder) || holders.size > 0 || rareData.deferredRelease === undefined) return;
      const deferred = rareData.deferredRelease;
      rareData.deferredRelease = undefined;
      ignoreLoss(() => this.#releaseDeferred(deferred));
    };
  }

  /**
   * Records an event after the work that precedes a free. Returns undefined for a default stream, which is never
   * disposed, and if the context is lost, which leaves no work to wait for.
   */
  #recordFreeMarker(stream: CudaStream): bigint | undefined {
    if (stream === stream.device.defaultStream) return undefined;
    let marker: bigint | undefined;
    ignoreLoss(() => {
      marker = this.#session.createMarker(stream.device.ordinal);
      this.#session.driver.eventRecord(stream.device.ordinal, marker, stream.unsafeHandle);
    });
    return marker;
  }

  #releaseDeferred({ stream, marker }: DeferredRelease): void {
    try {
      if (!stream.disposed) return this.#release(stream);
      const { defaultStream } = this.device;
      if (marker !== undefined) {
        this.#session.driver.streamWaitEvent(this.device.ordinal, defaultStream.unsafeHandle, marker);
      }
      this.#release(defaultStream);
    } finally {
      if (marker !== undefined) this.#session.destroyMarker(marker);
    }
  }
}

function piecesOf(byteLength: number): { begin: number; length: number }[] {
  return Array.from({ length: Math.ceil(byteLength / stagingPieceByteLength) }, (_, index) => {
    const begin = index * stagingPieceByteLength;
    return { begin, length: Math.min(stagingPieceByteLength, byteLength - begin) };
  });
}
