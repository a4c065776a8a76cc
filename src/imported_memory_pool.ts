import { printAs } from "./custom_inspect.ts";
import type { CudaDevice } from "./cuda_device.ts";
import type { CudaStream } from "./cuda_stream.ts";
import { type BufferOwner, DeviceBuffer } from "./device_buffer.ts";
import { SharingError } from "./errors.ts";
import { cannot } from "./explain.ts";
import { type Access, getPoolAccess, setPoolAccess } from "./pool_access.ts";
import type { Session } from "./session.ts";
import { checkByteLength } from "./validation.ts";

const exportDataByteLength = 64;

interface Mapping {
  readonly key: string;
  readonly address: bigint;
  /** What the driver says of it. */
  readonly byteLength: number;
  /** Buffers that show it: the driver unmaps at the first free, so that has to be the last buffer's. */
  count: number;
}

/**
 * A pool of another process. It cannot allocate: only map what that process allocated.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
 */
export class ImportedMemoryPool implements Disposable {
  /** The device whose memory the pool's is. */
  readonly device: CudaDevice;
  readonly #session: Session;
  readonly #byData = new Map<string, Mapping>();
  readonly #byAddress = new Map<bigint, Mapping>();
  readonly #owner: BufferOwner = { release: (address, _byteLength, stream) => this.#free(address, stream) };
  #handle: bigint | undefined;

  static {
    printAs(this, (pool) => {
      const state = pool.#handle === undefined ? "disposed" : `${pool.#byData.size} mapped`;
      return `ImportedMemoryPool { device ${pool.device.ordinal}, ${state} }`;
    });
  }

  /** Made by `CudaDevice.importPool`. */
  constructor(session: Session, { device, handle }: { device: CudaDevice; handle: bigint }) {
    this.#session = session;
    this.device = device;
    this.#handle = handle;
  }

  /** The `cudaMemPool_t`, for calls that this library does not make. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) throw new ReferenceError(`Cannot use ${this.#name}: it was disposed`);
    return this.#handle;
  }

  get #name(): string {
    return `the imported pool on device ${this.device.ordinal}`;
  }

  /**
   * Maps a buffer of the exporting process. Its owner must not free it before this process has freed the mapping.
   *
   * @param exportData The 64 bytes of `DeviceBuffer.exportPointer`.
   * @param byteLength How long the buffer is said to be; it may be less than there is.
   * @throws {SharingError} `size-mismatch` where the buffer is smaller than that
   * @throws {CudaError} `cudaErrorInvalidValue` for data that are not of this pool
   */
  importPointer(exportData: Uint8Array, byteLength: number): DeviceBuffer {
    if (exportData.byteLength !== exportDataByteLength) {
      throw new RangeError(
        `Cannot import ${exportData.byteLength} bytes of export data: there are ${exportDataByteLength}`,
      );
    }
    checkByteLength(byteLength, "the size of an imported buffer", 1);
    const key = String.fromCharCode(...exportData);
    const mapping = this.#byData.get(key) ?? this.#map(key, exportData);
    if (mapping.byteLength < byteLength) {
      if (mapping.count === 0) this.#unmap(mapping, this.device.defaultStream);
      throw new SharingError(
        "size-mismatch",
        `Cannot import a buffer of ${byteLength} bytes: the exporter has allocated ${mapping.byteLength}`,
      );
    }
    mapping.count++;
    return new DeviceBuffer({
      session: this.#session,
      owner: this.#owner,
      pool: this,
      address: mapping.address,
      byteLength,
      stream: this.device.defaultStream,
    });
  }

  /** What kernels of a device may do with the pool's memory. */
  getAccess(device: CudaDevice): Access {
    return getPoolAccess(this.#session.driver, this.unsafeHandle, { device });
  }

  /** Says what kernels of some devices of this process may do with the pool's memory; it is not inherited. */
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access): void {
    setPoolAccess(this.#session.driver, this.unsafeHandle, { devices, access, resident: this.device });
  }

  /**
   * Gives the pool up.
   *
   * @throws {ReferenceError} while buffers of it are not freed
   */
  [Symbol.dispose](): void {
    if (this.#handle === undefined) return;
    if (this.#byData.size > 0) {
      throw new ReferenceError(`Cannot dispose ${this.#name}: ${this.#byData.size} of its buffers are not freed`);
    }
    const handle = this.#handle;
    this.#handle = undefined;
    this.#session.driver.memPoolDestroy(handle);
  }

  #map(key: string, exportData: Uint8Array): Mapping {
    const { driver } = this.#session;
    const { ordinal } = this.device;
    let address: bigint;
    try {
      address = driver.memPoolImportPointer(ordinal, this.unsafeHandle, exportData);
    } catch (error) {
      throw cannot(
        `import a pointer into ${this.#name}`,
        error,
        "its export data must come from the exporter of this pool",
      );
    }
    const mapping: Mapping = { key, address, byteLength: this.#sizeOf(address), count: 0 };
    this.#byData.set(key, mapping);
    this.#byAddress.set(address, mapping);
    return mapping;
  }

  #free(address: bigint, stream: CudaStream): void {
    const mapping = this.#byAddress.get(address)!;
    if (mapping.count === 1) this.#unmap(mapping, stream);
    mapping.count--;
  }

  #sizeOf(address: bigint): number {
    const { driver } = this.#session;
    try {
      const { base, byteLength } = driver.memGetAddressRange(this.device.ordinal, address);
      return Number(base + BigInt(byteLength) - address);
    } catch (error) {
      driver.freeAsync(this.device.ordinal, address, this.device.defaultStream.unsafeHandle);
      throw cannot(`find the size of a pointer imported into ${this.#name}`, error);
    }
  }

  #unmap(mapping: Mapping, stream: CudaStream): void {
    this.#session.driver.freeAsync(stream.device.ordinal, mapping.address, stream.unsafeHandle);
    this.#byData.delete(mapping.key);
    this.#byAddress.delete(mapping.address);
  }
}
