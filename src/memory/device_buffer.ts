import { countOf, placeOf, printAs } from "../support/printing.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../objects/cuda_stream.ts";
import { CudaError } from "../support/errors.ts";
import { cannot, ignoreLoss } from "../support/error_wording.ts";
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

/** Pieces of a read that are given to the stream before the first is waited for. */
const piecesAtOnce = 4;
/** Those of most copies, made once. */
const noOptions: CopyOptions = {};
const bufferClasses = ["DeviceBuffer", "DeviceArray", "HostBuffer"];

/** Where in the buffer whose method is called a copy starts, in bytes; never in the other. */
export interface CopyOptions {
  /** 0 unless given. */
  byteOffset?: number;
}

/** What to read, and on which stream. */
export interface ReadOptions extends WaitOptions {
  /** The buffer's own unless given. */
  stream?: CudaStream;
  /** 0 unless given. */
  byteOffset?: number;
  /** Elements of the type asked for; the rest of the buffer unless given. */
  length?: number;
}

/** Where in an allocation of a pool a buffer lies that an allocator has cut from it. */
export interface SlabPart {
  /** The allocation, which the allocator frees. */
  readonly slab: DeviceBuffer;
  /** Where in it the buffer begins. */
  readonly byteOffset: number;
}

/** What gives a buffer's memory back. */
export interface BufferOwner {
  /** Frees the memory in the stream's order. */
  release(address: bigint, byteLength: number, stream: CudaStream): void;
  /** Is told that the buffer was freed, and that whoever keeps its memory lets go of it before its release. */
  awaitRelease?(address: bigint, byteLength: number): void;
  /** Whether the memory is the host's: of a pool in host memory. */
  readonly isHostMemory?: boolean;
  /** Of memory that is not from a pool: what another process opens it by. */
  exportHandle?(address: bigint): Uint8Array<ArrayBuffer>;
  /** Why the buffer is nobody's to free; undefined where it is its user's. */
  readonly freeRefusal?: string;
  /** Of a buffer that is a part of an allocation. */
  readonly part?: SlabPart;
}

/** What the constructor of a buffer takes. */
export type DeviceBufferParts = ConstructorParameters<typeof DeviceBuffer>;

/** What a view of a part of a buffer is made of, but for its stream, for the classes that are buffers too. */
export let partsOf: (buffer: DeviceBuffer, byteBegin: number, byteEnd: number) => DeviceBufferParts;

/** Ends the use of a module's global, whose memory is gone without having been freed: reads cannot go on. */
export let retire: (buffer: DeviceBuffer) => void;

/** Ends the use of a buffer that is not freed, and whose memory stays until `isBeingRead` is false: reads go on. */
export let endUse: (buffer: DeviceBuffer) => void;

/** Whether reads of the buffer or of its parts have copies that are not known to be done, or are yet to be given. */
export let isBeingRead: (buffer: DeviceBuffer) => boolean;

/**
 * Lets a stream wait for the copies of all reads of the buffer and of its parts. False where a read has copies yet to
 * give to its stream: `isBeingRead` tells when those are done.
 */
export let awaitCopies: (buffer: DeviceBuffer, stream: CudaStream) => boolean;

/**
 * Keeps the memory of the whole buffer, of which this may be a part, until the function that it returns is called; a
 * second call of that does nothing. A free meanwhile ends the use of the buffer at once and calls `onFree`, but the
 * driver is asked to free only when nobody keeps the memory any more: on the stream that was given to `free`, or where
 * that is gone on the device's default stream, behind the work that was given to the other before the free.
 *
 * @throws {ReferenceError} where the buffer was freed
 * @throws {TypeError} for a module's global, which goes with its module, and for a slot of a channel
 */
export let keepMemory: (buffer: DeviceBuffer, onFree: () => void) => () => void;

/** Frees a buffer that its user may not free, as its holder. */
export let freeAsHolder: (buffer: DeviceBuffer, stream: CudaStream) => void;

/** Where in an allocation the buffer lies, or the part of it; undefined where its memory is an allocation. */
export let slabPartOf: (buffer: DeviceBuffer) => SlabPart | undefined;

/** The buffer that this is a part of, or itself, and where in it the part begins. */
export let wholeOf: (buffer: DeviceBuffer) => { whole: DeviceBuffer; byteOffset: number };

/** What a buffer is of. */
export let sessionOfBuffer: (buffer: DeviceBuffer) => Session;

/** Somebody who needs the memory for longer than its user may: `onFree` tells when that is. */
interface MemoryHolder {
  readonly onFree: (() => void) | undefined;
}

/** What is to be done when the last holder of memory that was freed has let go. */
interface LaterRelease {
  readonly stream: CudaStream;
  /** Recorded on the stream when the buffer was freed, in case that the stream goes first. */
  readonly marker: bigint | undefined;
}

/** What a buffer may have besides. */
interface RareData {
  /** Whether the memory went without having been freed: reads that have copies yet to give cannot go on. */
  isRetired?: boolean;
  /** The memory as the host sees it, where it has asked. */
  hostView?: ArrayBuffer;
  /** That of this buffer and of its parts. */
  hostViews?: ArrayBuffer[] | undefined;
  /** Copies of reads that are not known to be done. */
  copies?: Set<StagingBuffer>;
  /** Those who keep the memory: reads that have copies yet to give to their stream, and callers of `keepMemory`. */
  holders?: Set<MemoryHolder>;
  laterRelease?: LaterRelease | undefined;
}

/**
 * Memory of a device. Its methods give work to a stream and return at once, unless their names say that they wait. Made
 * by what allocates, imports and opens memory: `MemoryPool.allocate` for one.
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
  /** How many bytes there are. */
  readonly byteLength: number;
  /** The pool that it is from; undefined for memory that is from none. */
  readonly pool: MemoryPool | ImportedMemoryPool | undefined;
  /**
   * The device whose memory it is; for memory of a host pool, that of the stream it was allocated on, or through which it
   * was imported.
   */
  readonly device: CudaDevice;
  #stream: CudaStream;
  readonly #session: Session;
  readonly #owner: BufferOwner;
  readonly #address: bigint;
  /** The buffer that this is a part of, or itself. */
  readonly #whole: DeviceBuffer;
  #isFreed = false;
  /** What most buffers never need: so that each is small. */
  #rareData: RareData | undefined;

  static {
    sessionOfBuffer = (buffer) => buffer.#session;
    partsOf = (buffer, byteBegin, byteEnd) => buffer.#partsOf(byteBegin, byteEnd);
    retire = (buffer) => {
      buffer.#moreToHave.isRetired = true;
      buffer.#end();
    };
    endUse = (buffer) => buffer.#end();
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
      return buffer.#whole.#keep(onFree);
    };
    freeAsHolder = (buffer, stream) => buffer.#free(stream);
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
      const freed = whole.#rareData?.laterRelease === undefined ? "freed" : "freed, still kept";
      const living = buffer.#session.hasEnded ? "Cuda disposed" : `0x${buffer.#address.toString(16)}`;
      const place = placeOf(buffer.#owner.isHostMemory ? undefined : buffer.device);
      // Those of an array, which is a buffer too.
      const { length, type } = buffer as { readonly length?: number; readonly type?: { readonly name: string } };
      const elements = type === undefined ? "" : `${type.name}(${length}), `;
      const state = whole.#isFreed ? freed : living;
      // A bundler may have given the class another name.
      const name = type === undefined ? "DeviceBuffer" : "DeviceArray";
      return `${name} { ${place}, ${elements}${countOf(buffer.byteLength, "byte")}, ${state} }`;
    });
  }

  /**
   * Made by what allocates, imports and opens memory.
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
   * The stream that its methods use and on which it is freed, until set to another: the allocating one, or the device's
   * default stream for memory that was imported, opened, a module's global or from `CudaDevice.allocate`.
   *
   * @throws {TypeError} where it is set to what is no stream, or to one of another `Cuda` object
   */
  get stream(): CudaStream {
    return this.#stream;
  }

  set stream(stream: CudaStream) {
    checkStream(stream, this.#session);
    this.#stream = stream;
  }

  /** Where the memory lies: what a kernel gets when the buffer is passed to it. */
  get address(): bigint {
    if (this.#whole.#isFreed) {
      throw new ReferenceError(`Cannot use the buffer of ${this.byteLength} bytes: it was freed`);
    }
    return this.#address;
  }

  /**
   * Copies all of `source` into the buffer. A typed array's bytes have been taken when this returns, for which CUDA may
   * wait for the stream's earlier work. A `HostBuffer`'s have not, nor have those of a typed array over page-locked memory,
   * which is `HostBuffer.buffer` and what `hostView` gives: leave them as they are until the stream has got there.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param source A typed array, a DataView, an ArrayBuffer, a HostBuffer, or a DeviceBuffer, of any device.
   * @param stream The buffer's own unless given.
   * @param options Where in this buffer the copy begins.
   * @throws {RangeError} where the source does not fit
   * @throws {TypeError} for another kind of source
   * @throws {ReferenceError} where the buffer, the source or the stream is gone
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
        this.#session.driver.memcpyHtoDAsync(this.#currentFor(stream), destination, bytes, stream.unsafeHandle);
      }
    } catch (error) {
      throw cannot(`copy ${length} bytes to the buffer on device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Copies the buffer from `byteOffset` on to the begin of `target`. Before a `HostBuffer` is looked at, the stream must
   * have got there.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param target What has at least as many bytes.
   * @param stream The buffer's own unless given.
   * @param options Where in this buffer the copy begins.
   * @throws {RangeError} where the target is too small
   * @throws {TypeError} for a typed array: `read` gives one
   * @throws {ReferenceError} where the buffer, the target or the stream is gone
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
        this.#session.driver.memcpyDtoHAsync(this.#currentFor(stream), bytes, source, stream.unsafeHandle);
      }
    } catch (error) {
      throw cannot(`copy ${length} bytes from the buffer on device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Sets bytes of the buffer, from `byteOffset` on, `byteLength` of them or all the rest.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param byte From 0 to 255.
   * @param stream The buffer's own unless given.
   * @param options Which bytes; all unless given.
   * @throws {RangeError} where it is no byte, or the range is not in the buffer
   * @throws {TypeError} where an argument is of another kind
   * @throws {ReferenceError} where the buffer or the stream is gone
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
   * Copies the buffer out, in the stream's order, without blocking the event loop: through page-locked memory, in pieces
   * of 8 MiB. Four pieces are given to the stream at once; of a longer read, memory that other work changes before the
   * promise resolves may be seen either way. A buffer that is freed meanwhile, on whichever stream, stays until it is
   * read.
   *
   * @param type What to read the bytes as: a typed array's constructor.
   * @param options Which elements, and on which stream.
   * @throws {RangeError} where the range is not in the buffer or no multiple of the element's size
   * @throws {TypeError} where an argument is of another kind
   * @throws {ReferenceError} where the buffer or the stream is gone
   */
  async read<T extends TypedArray>(type: TypedArrayConstructor<T>, options: ReadOptions = {}): Promise<T> {
    const { stream, byteOffset, byteLength } = this.#readRange(type, options);
    throwIfAborted(options.signal);
    const result = new Uint8Array(byteLength);
    const pieces = piecesOf(byteLength);
    const sent: { begin: number; length: number; staging: StagingBuffer }[] = [];
    const endSending = this.#whole.#keep();
    try {
      for (let next = 0, taken = 0; taken < pieces.length; taken++) {
        for (; next < pieces.length && next < taken + piecesAtOnce; next++) {
          const { begin, length } = pieces[next]!;
          sent.push({ begin, length, staging: this.#sendPiece(byteOffset + begin, length, stream) });
        }
        if (next === pieces.length) endSending();
        const { begin, length, staging } = sent[0]!;
        await waitUntil(() => this.#session.driver.eventQuery(staging.event), options);
        result.set(new Uint8Array(staging.allocation.buffer, 0, length), begin);
        sent.shift();
        this.#giveBackStaging(staging);
        // The device may be faster than the host copies: the event loop turns all the same.
        if (taken + 1 < pieces.length) await nextTurn();
      }
    } catch (error) {
      throw cannot(`read ${byteLength} bytes of the buffer on device ${this.device.ordinal}`, error);
    } finally {
      this.#giveBackLater(sent.map(({ staging }) => staging));
      endSending();
    }
    return new type(result.buffer);
  }

  /**
   * Copies the buffer out and blocks until that is done.
   *
   * @param type What to read the bytes as: a typed array's constructor.
   * @param options Which elements, and on which stream.
   * @throws {RangeError} where the range is not in the buffer or no multiple of the element's size
   * @throws {TypeError} where an argument is of another kind
   * @throws {ReferenceError} where the buffer or the stream is gone
   */
  readSync<T extends TypedArray>(type: TypedArrayConstructor<T>, options: Omit<ReadOptions, "signal"> = {}): T {
    const { stream, byteOffset, byteLength } = this.#readRange(type, options);
    const result = new Uint8Array(byteLength);
    try {
      for (const { begin, length } of piecesOf(byteLength)) {
        const staging = this.#sendPiece(byteOffset + begin, length, stream);
        try {
          this.#session.driver.eventSynchronize(staging.event);
          result.set(new Uint8Array(staging.allocation.buffer, 0, length), begin);
        } finally {
          this.#giveBackStaging(staging);
        }
      }
    } catch (error) {
      throw cannot(`read ${byteLength} bytes of the buffer on device ${this.device.ordinal}`, error);
    }
    return new type(result.buffer);
  }

  /**
   * A view of a part, from `byteBegin` up to but not including `byteEnd`. Freeing is the whole buffer's alone.
   *
   * @param byteBegin Its first byte, counted from the begin, never from the end.
   * @param byteEnd The byte behind its last; all the rest unless given.
   * @throws {RangeError} where the buffer does not have these bytes
   */
  subarray(byteBegin: number, byteEnd: number = this.byteLength): DeviceBuffer {
    checkByteLength(byteBegin, "a byteBegin");
    this.#checkRange(byteBegin, 0);
    checkByteLength(byteEnd, "a byteEnd");
    if (byteEnd < byteBegin) {
      throw new RangeError(`Cannot view bytes ${byteBegin} to ${byteEnd} of the buffer: they end before they begin`);
    }
    this.#checkRange(byteBegin, byteEnd - byteBegin);
    const part = new DeviceBuffer(...this.#partsOf(byteBegin, byteEnd));
    part.#stream = this.#stream;
    return part;
  }

  /**
   * 64 bytes by which another process that has imported the pool maps this buffer.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for a part of a buffer, for an allocator's buffer, which is a part of a slab, and for memory that
   * is not of a pool
   * @throws {CudaError} `cudaErrorInvalidValue` for memory of a pool that cannot be shared, or whose handle was not
   * exported yet
   */
  exportPointer(): Uint8Array<ArrayBuffer> {
    this.#checkIsWhole("export");
    if (this.pool === undefined) {
      throw new TypeError(
        "Cannot export a pointer to memory that is of no pool: allocate from one, or use exportHandle",
      );
    }
    try {
      return this.#session.driver.memPoolExportPointer(this.address);
    } catch (error) {
      throw cannot(`export the buffer on device ${this.device.ordinal}`, error, this.#exportHint());
    }
  }

  /**
   * 64 bytes for another process's `openMemory`. Memory from `CudaDevice.allocate` only: of a pool's memory there is
   * `exportPointer`.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} for a part of a buffer, and for other memory
   */
  exportHandle(): Uint8Array<ArrayBuffer> {
    const { exportHandle } = this.#owner;
    if (exportHandle === undefined) {
      throw new TypeError(
        "Cannot export a handle to this memory: only memory from CudaDevice.allocate has one; a pool's has exportPointer",
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
   * Memory of a pool in host memory, seen in place. It is detached when the buffer is freed: views of it then have no
   * elements. What a stream does with the memory is seen once the stream has been waited for.
   *
   * @throws {CudaError} `cudaErrorInvalidValue` for memory of a device, `cudaErrorNotSupported` where the runtime cannot
   * see foreign memory
   */
  hostView(): ArrayBuffer {
    const { address } = this;
    const rareData = this.#moreToHave;
    if (rareData.hostView !== undefined && !rareData.hostView.detached) return rareData.hostView;
    try {
      rareData.hostView = this.#session.hostView(address, this.byteLength);
    } catch (error) {
      const hint = error instanceof CudaError && error.code === "cudaErrorInvalidValue"
        ? "only memory of a pool from Cuda.createHostPool can be seen in place, read copies other memory"
        : "read copies the memory instead";
      throw cannot(`see the buffer of ${this.byteLength} bytes on the host`, error, hint);
    }
    (this.#whole.#moreToHave.hostViews ??= []).push(rareData.hostView);
    return rareData.hostView;
  }

  /**
   * Gives the memory back in the stream's order: work given to it before may still use it. Memory that is not of a pool
   * has no such order: freeing it blocks until that work is done. Memory that is being read, or that other processes were
   * lent, stays until they are done with it.
   *
   * @param stream The buffer's own unless given.
   * @throws {ReferenceError} where it has been freed already
   * @throws {TypeError} for a part of a buffer, for a module's global, and for what is no stream
   */
  free(stream: CudaStream = this.stream): void {
    if (stream !== this.#stream) checkStream(stream, this.#session);
    if (this.#whole !== this) throw new TypeError("Cannot free a part of a buffer: free the whole");
    if (this.#owner.freeRefusal !== undefined) {
      throw new TypeError(`Cannot free the buffer: ${this.#owner.freeRefusal}`);
    }
    if (this.#isFreed) throw new ReferenceError(`Cannot free the buffer of ${this.byteLength} bytes: it was freed`);
    this.#free(stream);
  }

  /** Frees the buffer on its stream, unless that is done. A part is left to the whole. */
  [Symbol.dispose](): void {
    if (this.#isFreed || this.#whole !== this || this.#owner.freeRefusal !== undefined) return;
    ignoreLoss(() => this.free());
  }

  #free(stream: CudaStream): void {
    // Asked first: a stream that was disposed must not cost the memory.
    void stream.unsafeHandle;
    if (!this.#hasHolders) {
      this.#release(stream);
      this.#end();
      return;
    }
    this.#rareData!.laterRelease = { stream, marker: this.#markFree(stream) };
    this.#owner.awaitRelease?.(this.#address, this.byteLength);
    this.#end();
    for (const { onFree } of this.#rareData!.holders!) onFree?.();
  }

  #exportHint(): string {
    if (!("handleType" in this.pool!)) {
      return "only the process that allocated it can: forward the pool's handle and the 64 bytes that it was imported by";
    }
    return this.pool.handleType === "none"
      ? 'allocate it from a pool created with handleType "posix-fd"'
      : "export its pool first, with exportHandle";
  }

  #checkIsWhole(what: string): void {
    if (this.#owner.part !== undefined) {
      // A freed one is a part of nothing.
      void this.address;
      throw new TypeError(
        `Cannot ${what} the buffer: it is a part of a slab; offer it with an Exporter, or ${what} the slab that its ` +
          "allocator's slabOf names, and send the offset beside it",
      );
    }
    if (this.#whole === this) return;
    throw new TypeError(`Cannot ${what} a part of a buffer: ${what} the whole, and send the part's offset beside it`);
  }

  #end(): void {
    this.#isFreed = true;
    if (this.#rareData?.hostViews === undefined) return;
    for (const view of this.#rareData.hostViews) this.#session.detach(view);
    this.#rareData.hostViews = undefined;
  }

  /** Throws unless the range, whose length is a whole number, lies within the buffer. */
  #checkRange(byteOffset: number, length: number): void {
    // At once, because every copy asks.
    if (Number.isSafeInteger(byteOffset) && byteOffset >= 0 && byteOffset + length <= this.byteLength) return;
    checkByteLength(byteOffset, "a byteOffset");
    if (byteOffset > this.byteLength) {
      throw new RangeError(`Cannot start at byte ${byteOffset} of the buffer: it has ${this.byteLength} bytes`);
    }
    throw new RangeError(
      `Cannot reach bytes ${byteOffset} to ${byteOffset + length} of the buffer: it has ${this.byteLength} bytes`,
    );
  }

  /** Throws unless it is what bytes can be copied from, other than a view. */
  #checkSource(source: unknown): void {
    if (source instanceof DeviceBuffer) return this.#checkSameCuda(source);
    // An ArrayBuffer of another realm is one too.
    if (source instanceof HostBuffer || Object.prototype.toString.call(source) === "[object ArrayBuffer]") return;
    const sources = "a typed array, a DataView, an ArrayBuffer, a HostBuffer or a DeviceBuffer";
    throw new TypeError(`Cannot copy from ${whatIs(source, ...bufferClasses)}: give ${sources}`);
  }

  /** Throws unless it is what bytes can be copied to. */
  #checkTarget(target: unknown): void {
    if (target instanceof DeviceBuffer) return this.#checkSameCuda(target);
    if (target instanceof HostBuffer) return;
    throw new TypeError(
      `Cannot copy to ${
        whatIs(target, ...bufferClasses)
      }: give a HostBuffer or a DeviceBuffer, read gives typed arrays`,
    );
  }

  #checkSameCuda(other: DeviceBuffer): void {
    if (other.#session === this.#session) return;
    throw errorOfAnotherCuda("copy to or from a buffer");
  }

  #partsOf(byteBegin: number, byteEnd: number): DeviceBufferParts {
    const address = this.address + BigInt(byteBegin);
    // By which a part is of the same device. Its own stream, which may be of another, is set when it is made.
    const { defaultStream } = this.device;
    return [this.#session, this.#owner, this.pool, address, byteEnd - byteBegin, defaultStream, this.#whole];
  }

  get #moreToHave(): RareData {
    return this.#rareData ??= {};
  }

  get #hasHolders(): boolean {
    return this.#rareData?.holders !== undefined && this.#rareData.holders.size > 0;
  }

  #awaitCopies(stream: CudaStream): void {
    if (this.#rareData?.copies === undefined) return;
    for (const { event, stream: readOn } of this.#rareData.copies) {
      if (readOn !== stream) this.#session.driver.streamWaitEvent(stream.device.ordinal, stream.unsafeHandle, event);
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
      driver.memcpyAsync(onDevice.#currentFor(stream), to, from, length, handle);
    } else {
      driver.memcpyPeerAsync(ordinal, to, target.device.ordinal, from, source.device.ordinal, length, handle);
    }
  }

  /**
   * The device to copy to and from the host by: the buffer's own, whose memory needs no access of another. A default
   * stream is the one of whichever device is current.
   */
  #currentFor(stream: CudaStream): number {
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
    // A freed buffer must not be read.
    void this.address;
    return { stream, byteOffset, byteLength: elements * size };
  }

  /** Gives the copy of a piece to the stream. */
  #sendPiece(byteOffset: number, length: number, stream: CudaStream): StagingBuffer {
    if (this.#whole.#rareData?.isRetired) {
      throw new ReferenceError("Cannot read the buffer on: its module was disposed");
    }
    const { driver, staging } = this.#session;
    const { ordinal } = stream.device;
    const handle = stream.unsafeHandle;
    const lent = staging.lend(stream, length);
    try {
      const target = new Uint8Array(lent.allocation.buffer, 0, length);
      driver.memcpyDtoHAsync(this.#currentFor(stream), target, this.#address + BigInt(byteOffset), handle);
      driver.eventRecord(ordinal, lent.event, handle);
    } catch (error) {
      staging.giveBack(lent);
      throw error;
    }
    (this.#whole.#moreToHave.copies ??= new Set()).add(lent);
    return lent;
  }

  #giveBackStaging(lent: StagingBuffer): void {
    this.#whole.#rareData?.copies?.delete(lent);
    this.#session.staging.giveBack(lent);
  }

  /** The device may still write to what an abandoned read has lent: it is given back when the copies are done. */
  #giveBackLater(lent: readonly StagingBuffer[]): void {
    for (const staging of lent) {
      waitUntil(() => this.#session.driver.eventQuery(staging.event)).then(
        () => this.#giveBackStaging(staging),
        // Where the device was lost, or the session has ended, so is the memory, and nothing is read any more.
        () => this.#whole.#rareData?.copies?.delete(staging),
      );
    }
  }

  /** Keeps the memory until the function that this returns is called. */
  #keep(onFree?: () => void): () => void {
    const holder = { onFree };
    const rareData = this.#moreToHave;
    const holders = rareData.holders ??= new Set();
    holders.add(holder);
    return () => {
      if (!holders.delete(holder) || holders.size > 0 || rareData.laterRelease === undefined) return;
      const later = rareData.laterRelease;
      rareData.laterRelease = undefined;
      ignoreLoss(() => this.#releaseLater(later));
    };
  }

  /** An event behind the work that comes before a free. A default stream is never gone, and a lost one has no work. */
  #markFree(stream: CudaStream): bigint | undefined {
    if (stream === stream.device.defaultStream) return undefined;
    let marker: bigint | undefined;
    ignoreLoss(() => {
      marker = this.#session.createMarker(stream.device.ordinal);
      this.#session.driver.eventRecord(stream.device.ordinal, marker, stream.unsafeHandle);
    });
    return marker;
  }

  #releaseLater({ stream, marker }: LaterRelease): void {
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
