import { printAs } from "../support/printing.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import type { CudaStream } from "../objects/cuda_stream.ts";
import { type BufferOwner, DeviceBuffer } from "./device_buffer.ts";
import { exportDataByteLength } from "../driver.ts";
import { SharingError } from "../support/errors.ts";
import { cannot, ignoreLoss } from "../support/error_wording.ts";
import { FreedStreams } from "./freed_streams.ts";
import { ImportedMapping, type ImportedMappings } from "./imported_mappings.ts";
import { type Access, getPoolAccess, setPoolAccess } from "./pool_access.ts";
import type { Session } from "../session.ts";
import { checkByteLength, whatIs } from "../support/validation.ts";

/** Streams that are remembered for a mapping before those that are gone are looked for. */
const sweepSize = 64;

/** Calls back once the pool was given up. */
export let whenGivenUp: (pool: ImportedMemoryPool, callback: () => void) => void;

/**
 * A pool of another process. It cannot allocate: only map what that process allocated. Made by `CudaDevice.importPool`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
 */
export class ImportedMemoryPool implements Disposable {
  /** The device whose memory the pool's is; of a pool in host memory, the one through which it was imported. */
  readonly device: CudaDevice;
  readonly #session: Session;
  readonly #mappings: ImportedMappings;
  readonly #owner: BufferOwner;
  #handle: bigint | undefined;
  #onGivenUp: (() => void) | undefined;
  /** Buffers that were mapped through this object and are not freed. */
  #live = 0;
  readonly #freedOn = new FreedStreams();

  static {
    whenGivenUp = (pool, callback) => {
      pool.#onGivenUp = callback;
    };
    printAs(this, "ImportedMemoryPool", (pool) => {
      const isDisposed = pool.#handle === undefined || pool.#session.hasEnded;
      const state = isDisposed ? "disposed" : `${pool.#mappings.size} mapped`;
      return `ImportedMemoryPool { device ${pool.device.ordinal}, ${state} }`;
    });
  }

  /**
   * Made by `CudaDevice.importPool`.
   *
   * @ignore
   */
  constructor(session: Session, { device, handle }: { device: CudaDevice; handle: bigint }) {
    this.#session = session;
    this.device = device;
    this.#handle = handle;
    this.#mappings = session.importedMappings(handle);
    this.#mappings.join();
    this.#owner = {
      release: (address, _byteLength, stream) => this.#free(address, stream),
      isHostMemory: this.#mappings.resident === "host",
    };
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
   * Maps a buffer of the exporting process. Two things are between the processes, and CUDA sees to neither:
   *
   * - The memory may be used once its allocation in the exporter is done: in the order of the exporter's stream, which an
   *   interprocess event carries over, or after a synchronization there.
   * - The exporter may free it when the free of the mapping here is done, and not merely given to a stream: after a
   *   synchronization here, or behind an event recorded after that free.
   *
   * The same data map once, and are counted, however often they are imported through one `Cuda` object. A driver has one
   * mapping for a whole process: let only one `Cuda` object, and only one Worker, map what one exporter shares.
   *
   * @param exportData The 64 bytes of `DeviceBuffer.exportPointer`.
   * @param byteLength How long the buffer is said to be; it may be less than there is.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for what is no `Uint8Array`, the exporter's buffer for one
   * @throws {RangeError} for another number of bytes than 64, or a size that is none
   * @throws {ReferenceError} where the pool was given up
   * @throws {SharingError} `size-mismatch` where the buffer is smaller than that
   * @throws {CudaError} `cudaErrorInvalidValue` for data that are not of this pool
   */
  importPointer(exportData: Uint8Array, byteLength: number): DeviceBuffer {
    if (!(exportData instanceof Uint8Array)) {
      throw new TypeError(
        `Cannot import a pointer from ${whatIs(exportData)}: give the Uint8Array of the exporter's exportPointer`,
      );
    }
    if (exportData.byteLength !== exportDataByteLength) {
      throw new RangeError(
        `Cannot import ${exportData.byteLength} bytes of export data: there are ${exportDataByteLength}`,
      );
    }
    checkByteLength(byteLength, "the size of an imported buffer", 1);
    // Asked first: what another importer of the pool has mapped is not this one's any more.
    void this.unsafeHandle;
    const mapping = this.#mappings.withData(exportData) ?? this.#map(exportData);
    if (mapping.byteLength < byteLength) {
      if (mapping.count === 0) this.#unmap(mapping, this.device.defaultStream);
      throw new SharingError(
        "size-mismatch",
        `Cannot import a buffer of ${byteLength} bytes: the exporter has allocated ${mapping.byteLength}`,
      );
    }
    mapping.count++;
    this.#live++;
    const { address } = mapping;
    return new DeviceBuffer(this.#session, this.#owner, this, address, byteLength, this.device.defaultStream);
  }

  /**
   * What kernels of a device may do with the pool's memory.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for what is no device of the same `Cuda` object
   */
  getAccess(device: CudaDevice): Access {
    return getPoolAccess(this.#session, this.unsafeHandle, { device });
  }

  /**
   * Says what kernels of some devices of this process may do with the pool's memory; it is not inherited.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for an access that there is not, and for what is no device of the same `Cuda` object
   * @throws {ReferenceError} where the pool was given up
   * @throws {CudaError} as `MemoryPool.setAccess`
   */
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access): void {
    const resident = this.#mappings.resident === "host" ? undefined : this.device;
    setPoolAccess(this.#session, this.unsafeHandle, { devices, access, resident });
  }

  /**
   * Gives the pool up. This blocks until the streams on which its buffers were freed have got there.
   *
   * @throws {ReferenceError} while buffers of it are not freed
   */
  [Symbol.dispose](): void {
    if (this.#handle === undefined) return;
    if (this.#live > 0) {
      throw new ReferenceError(
        `Cannot dispose ${this.#name}: ${this.#live} of its buffers are not freed, or still being read or kept`,
      );
    }
    const handle = this.#handle;
    this.#handle = undefined;
    try {
      // The driver refuses while pointers are mapped, by whichever importer: so all its imports go with the last.
      if (!this.#mappings.leave()) return ignoreLoss(() => this.#freedOn.synchronize());
      ignoreLoss(() => {
        this.#mappings.freedOn.synchronize();
        for (let count = 0; count < this.#mappings.imports; count++) this.#session.driver.memPoolDestroy(handle);
      });
    } finally {
      this.#onGivenUp?.();
    }
  }

  #map(exportData: Uint8Array): ImportedMapping {
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
    let mapping = this.#mappings.at(address);
    if (mapping === undefined) {
      mapping = new ImportedMapping(address, this.#sizeOf(address));
      this.#mappings.add(mapping);
    }
    this.#mappings.nameByLatest(mapping);
    return mapping;
  }

  #free(address: bigint, stream: CudaStream): void {
    const mapping = this.#mappings.at(address)!;
    if (mapping.count > 1) this.#noteFree(mapping, stream);
    else this.#unmap(mapping, stream);
    mapping.count--;
    this.#live--;
    this.#freedOn.note(stream);
  }

  /** Remembers how far the stream was: the memory may be unmapped only after that. */
  #noteFree(mapping: ImportedMapping, stream: CudaStream): void {
    const { driver } = this.#session;
    const device = stream.device.ordinal;
    const handle = stream.unsafeHandle;
    const earlierFrees = mapping.earlierFrees ??= new Map();
    let event = earlierFrees.get(stream);
    if (event === undefined) {
      event = this.#session.createMarker(device);
      earlierFrees.set(stream, event);
      if (earlierFrees.size % sweepSize === 0) this.#forgetDone(earlierFrees);
    }
    driver.eventRecord(device, event, handle);
  }

  /** There may be a stream for each of a program's tasks, and a mapping that stays through all of them. */
  #forgetDone(earlierFrees: Map<CudaStream, bigint>): void {
    for (const [stream, event] of earlierFrees) {
      if (!stream.disposed || !this.#session.driver.eventQuery(event)) continue;
      earlierFrees.delete(stream);
      this.#session.destroyMarker(event);
    }
  }

  #sizeOf(address: bigint): number {
    const { driver } = this.#session;
    try {
      const { base, byteLength } = driver.memGetAddressRange(this.device.ordinal, address);
      // Only the begin of an allocation can be exported.
      return base === address ? byteLength : Number(base + BigInt(byteLength) - address);
    } catch (error) {
      driver.freeAsync(this.device.ordinal, address, this.device.defaultStream.unsafeHandle);
      throw cannot(`find the size of a pointer imported into ${this.#name}`, error);
    }
  }

  #unmap(mapping: ImportedMapping, stream: CudaStream): void {
    const { driver } = this.#session;
    const { ordinal } = stream.device;
    const handle = stream.unsafeHandle;
    const { earlierFrees } = mapping;
    if (earlierFrees !== undefined) {
      for (const [earlier, event] of earlierFrees) {
        if (earlier !== stream) driver.streamWaitEvent(ordinal, handle, event);
      }
    }
    driver.freeAsync(ordinal, mapping.address, handle);
    if (earlierFrees !== undefined) {
      for (const event of earlierFrees.values()) this.#session.destroyMarker(event);
    }
    this.#mappings.freedOn.note(stream);
    this.#mappings.remove(mapping);
  }
}
