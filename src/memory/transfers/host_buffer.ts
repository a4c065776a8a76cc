import { refuseElementAccess } from "./elements.ts";
import { cloneRefusal } from "../../support/cloning.ts";
import { countOf, printAs } from "../../support/printing.ts";
import { type HostAllocation, hostAllocFlag } from "../../driver.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import type { Extent, PitchedArray, PitchOptions } from "../pitched_array.ts";
import type { HostRegistration, Session } from "../../session.ts";
import {
  checkBoolean,
  checkOptions,
  type KnownOptions,
  refuseConstruction,
  type TypedArray,
  type TypedArrayConstructor,
} from "../../support/validation.ts";
import { ReferenceError } from "../../support/program_errors.ts";

/** Options of `Cuda.allocateHost`. */
export interface HostOptions {
  /**
   * Whether the memory bypasses the processor's caches: devices may read it faster, and the host reads it very slowly.
   * For memory that the host only writes. Defaults to false.
   */
  writeCombined?: boolean;
}

const hostOptions: KnownOptions<HostOptions> = {
  action: "allocate page-locked memory",
  names: { writeCombined: true },
  instead: { readOnly: "registerHost takes it" },
};

/** Returns the driver's flags for the options of an allocation of page-locked memory. Throws unless they are valid. */
export function hostFlags(options: HostOptions): number {
  checkOptions(options, hostOptions);
  const { writeCombined = false } = options;
  checkBoolean(writeCombined, "writeCombined");
  return writeCombined ? hostAllocFlag.writeCombined : 0;
}

/** Returns the session that a host buffer belongs to. */
export let sessionOfHost: (buffer: HostBuffer) => Session;

/** Creates a view of rows in a buffer. */
export type PitchedViewOf<Buffer> = <T extends TypedArray>(
  buffer: Buffer,
  type: TypedArrayConstructor<T>,
  size: Extent,
  options: PitchOptions | undefined,
) => PitchedArray<T>;

/** Creates the view that `pitched` returns. Set by `PitchedArray`, which this file cannot import. */
let viewPitched: PitchedViewOf<HostBuffer>;

/** Sets the function with which `HostBuffer.pitched` creates a view. */
export function setPitchedHostView(create: typeof viewPitched): void {
  viewPitched = create;
}
/** Returns the first bytes of a host buffer, or all. Throws if it cannot be used any more. */
export let bytesOfHost: (buffer: HostBuffer, byteLength?: number) => Uint8Array<ArrayBuffer>;

/** Returns the buffer that is detached when the memory of a host buffer is freed, or is no longer registered. */
export let lifetimeOfHost: (buffer: HostBuffer) => ArrayBufferLike;

const refusalToClone = cloneRefusal("a HostBuffer", "send a copy of its bytes, such as host.buffer.slice(0)");

/**
 * Page-locked host memory. Copies to and from it run asynchronously to the host, and kernels of all devices read and
 * write it in place if they get it as an argument. Comes from `Cuda.allocateHost`, and from `Cuda.registerHost` for
 * memory that exists already.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
 *
 * @example A kernel that writes to host memory
 * ```ts
 * import { open } from "./mod.ts";
 * import { ptx } from "./kernels/fill.ts";
 *
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using stream = gpu.createStream();
 * using module = gpu.loadModule(ptx);
 * using host = cuda.allocateHost(1024);
 * module.kernel("fill").launch({ grid: 1, block: 64, stream }, host, 1024, 7);
 * await stream.finished();
 * console.log(new Uint32Array(host.buffer));
 * ```
 */
export class HostBuffer implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** Size in bytes. */
  readonly byteLength: number;
  /** Where the memory begins in `buffer`, in bytes: 0, but for a part of a buffer that was registered. */
  readonly byteOffset: number;
  readonly #session: Session;
  readonly #allocation: HostAllocation;
  /** The registration, if the memory is the program's own. */
  readonly #registration: HostRegistration | undefined;
  #isDisposed = false;

  static {
    sessionOfHost = (buffer) => buffer.#session;
    bytesOfHost = (host, byteLength = host.byteLength) => new Uint8Array(host.buffer, host.byteOffset, byteLength);
    lifetimeOfHost = (host) => host.#registration?.lifetime ?? host.#allocation.buffer;
    const view = "it has no type; use new Float32Array(host.buffer), or another typed array";
    refuseElementAccess(this, { isInstance: (object) => #allocation in object, read: view, write: view });
    printAs(this, "HostBuffer", (buffer) => {
      const state = buffer.#isDisposed || buffer.#session.hasEnded
        ? "disposed"
        : buffer.#registration === undefined
        ? "page-locked"
        : "registered";
      return `HostBuffer { host, ${countOf(buffer.byteLength, "byte")}, ${state} }`;
    }, ["byteLength", ["disposed", (buffer) => buffer.#isDisposed || buffer.#session.hasEnded]]);
  }

  /**
   * Host buffers come from `Cuda.allocateHost` and `Cuda.registerHost`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    memory: { readonly byteLength: number; readonly flags: number } | { readonly registration: HostRegistration },
  ) {
    if (session?.opened === undefined) refuseConstruction("HostBuffer", "Cuda.allocateHost");
    this.#session = session;
    const registration = this.#registration = "registration" in memory ? memory.registration : undefined;
    if (registration === undefined) {
      const { byteLength, flags } = memory as { readonly byteLength: number; readonly flags: number };
      this.#allocation = session.allocateHost(byteLength, "host buffer", flags);
      this.byteLength = byteLength;
      this.byteOffset = 0;
    } else {
      const { address, bytes } = registration;
      this.#allocation = { address, buffer: bytes.buffer as ArrayBuffer };
      this.byteLength = bytes.byteLength;
      this.byteOffset = bytes.byteOffset;
    }
  }

  /**
   * The memory itself, not a copy. It is detached when the HostBuffer is disposed: views of it then have no elements.
   * For registered memory, it is the program's own ArrayBuffer or SharedArrayBuffer, which stays as it is.
   *
   * Do not transfer it, whether with `transfer()` or to a worker: the receiver could access the memory after it is
   * freed. Memory that was transferred is therefore not freed before the process exits, and is reported when the `Cuda`
   * object is disposed.
   *
   * @throws {ReferenceError} If the buffer was disposed, or the ArrayBuffer was transferred
   */
  get buffer(): ArrayBuffer {
    this.#checkUsable();
    return this.#allocation.buffer;
  }

  /**
   * The address through which the kernels of all devices read and write the memory in place. A kernel receives it when
   * the HostBuffer is passed as an argument. Wait for the stream before reading what a kernel has written, and before
   * changing what a kernel reads.
   *
   * Each access of a kernel crosses the bus: memory that a kernel accesses more than once is better copied to a
   * `DeviceBuffer`.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {ReferenceError} If the buffer was disposed, or the ArrayBuffer was transferred
   * @throws {CudaError} `cudaErrorNotSupported` on the software device without permission to use FFI
   */
  get address(): bigint {
    this.#checkUsable();
    try {
      return this.#session.driver.hostGetDevicePointer(this.#allocation);
    } catch (error) {
      const hint = "copy it to a DeviceBuffer for the kernel";
      throw cannot(`get the device address of ${this.byteLength} bytes of page-locked memory`, error, hint);
    }
  }

  /**
   * Returns a view of rows of elements in the memory, for copies to and from rows of a device. The view shares the
   * memory. Its methods need a stream.
   *
   * @param type The element type, as the constructor of a typed array.
   * @param size Elements in a row, rows, and slices of rows.
   * @param options The distances of rows and slices, which default to no gaps, and where the first row begins.
   * @throws {RangeError} If the rows are not in the memory, or a distance is too small or not a multiple of the element
   * size
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If the buffer was disposed, or the ArrayBuffer was transferred
   */
  pitched<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    size: Extent,
    options?: PitchOptions,
  ): PitchedArray<T> {
    return viewPitched(this, type, size, options);
  }

  #checkUsable(): void {
    if (this.#isDisposed || this.#session.hasEnded) {
      throw new ReferenceError("Cannot use the host buffer: it was disposed");
    }
    if (this.#allocation.buffer.detached) {
      throw new ReferenceError(
        "Cannot use the host buffer: its ArrayBuffer was transferred; transfer a copy instead, such as buffer.slice()",
      );
    }
  }

  /**
   * Frees the memory; memory that was registered is only unlocked. CUDA waits for the copies and kernels that use it.
   */
  [Symbol.dispose](): void {
    if (this.#isDisposed || this.#session.hasEnded) return;
    this.#isDisposed = true;
    const registration = this.#registration;
    ignoreLoss(() =>
      registration === undefined ? this.#session.freeHost(this.#allocation) : this.#session.unregisterHost(registration)
    );
  }
}
