import { printAs } from "../../support/printing.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { MemoryPiece, OpenedObject } from "../../objects/opened_objects.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { Allocation, type AllocationOwner } from "../allocation.ts";
import { DeviceBuffer } from "../device_buffer.ts";
import { sizeMismatch } from "./export_data.ts";
import {
  defaultStream,
  type Driver,
  exportDataByteLength,
  memAccessFlags,
  memHandleType,
  memLocationType,
} from "../../driver.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { FreedStreams } from "../freed_streams.ts";
import type { ImportedMapping, ImportedMappings } from "./imported_mappings.ts";
import { type Access, getPoolAccess, setPoolAccess } from "../pools/pool_attributes.ts";
import type { Session } from "../../session.ts";
import { checkByteLength, refuseConstruction, whatIs } from "../../support/validation.ts";
import { fabricImportHint, ShareableHandle } from "./shareable_handle.ts";
import { cloneRefusal, shareOrOpen } from "../../support/cloning.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/**
 * Whenever the number of streams in a mapping's `earlierFrees` reaches a multiple of this value, disposed streams are
 * removed from it.
 */
const sweepSize = 64;

/** Like `importPointer`, for an allocation that must have exactly `byteLength` bytes. */
export let importWhole: (pool: ImportedMemoryPool, exportData: Uint8Array, byteLength: number) => DeviceBuffer;

/** Returns whether all buffers that were mapped through an imported pool are freed. */
export let isUnused: (pool: ImportedMemoryPool) => boolean;

/** Calls `callback` once, when the imported pool is disposed. Replaces an earlier callback. */
export let whenImportedPoolDisposed: (pool: ImportedMemoryPool, callback: () => void) => void;

/** Sets the function that buffers of the pool have as `AllocationOwner.lenderEnd`. */
export let setLenderEnd: (pool: ImportedMemoryPool, lenderEnd: () => string | undefined) => void;

const refusalToClone = cloneRefusal("an ImportedMemoryPool", shareOrOpen);

/**
 * A pool of another process. It cannot allocate memory, only map memory that the other process has allocated. Comes
 * from `CudaDevice.importPool`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
 */
export class ImportedMemoryPool implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device that the memory is on. For a pool in host memory: the device through which it was imported. */
  readonly device: CudaDevice;
  readonly #session: Session;
  readonly #mappings: ImportedMappings;
  readonly #owner: AllocationOwner;
  readonly #opened: OpenedObject;
  #handle: bigint | undefined;
  #onDispose: (() => void) | undefined;
  /** Number of buffers that were mapped through this object and are not freed. */
  #liveCount = 0;
  #liveBytes = 0;
  readonly #freedOn = new FreedStreams();

  static {
    importWhole = (pool, exportData, byteLength) => {
      void pool.unsafeHandle;
      return pool.#import(exportData, byteLength, byteLength);
    };
    isUnused = (pool) => pool.#liveCount === 0;
    whenImportedPoolDisposed = (pool, callback) => {
      pool.#onDispose = callback;
    };
    setLenderEnd = (pool, lenderEnd) => void (pool.#owner.lenderEnd = lenderEnd);
    printAs(this, "ImportedMemoryPool", (pool) => {
      const isDisposed = pool.#handle === undefined || pool.#session.hasEnded;
      const state = isDisposed ? "disposed" : `${pool.#mappings.size} mapped`;
      return `ImportedMemoryPool { device ${pool.device.ordinal}, ${state} }`;
    }, ["device", ["mapped", (pool) => pool.#mappings.size], [
      "disposed",
      (pool) => pool.#handle === undefined || pool.#session.hasEnded,
    ]]);
  }

  /**
   * Imported pools come from `CudaDevice.importPool`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, handle = refuseConstruction("ImportedMemoryPool", "CudaDevice.importPool") }: {
      device: CudaDevice;
      handle: bigint;
    } = {} as never,
  ) {
    this.#session = session;
    this.device = device;
    this.#handle = handle;
    this.#mappings = session.importedMappings(handle);
    this.#mappings.addImporter();
    this.#owner = {
      release: (address, byteLength, stream, { poolIndex }) => this.#free(poolIndex, address, byteLength, stream),
      isHostMemory: this.#mappings.memoryDevice === "host",
    };
    this.#opened = {
      kind: "imported pool",
      unfreed: () => {
        const kind = "imported buffer";
        return { kind, count: this.#liveCount, byteLength: this.#liveBytes, pieces: () => this.#pieces() };
      },
      release: (driver) => this.#releaseAll(driver, handle),
    };
    session.opened.add(this.#opened);
  }

  /** The `cudaMemPool_t`, for CUDA calls that this library does not make. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) throw new ReferenceError(`Cannot use ${this.#name}: it was disposed`);
    return this.#handle;
  }

  get #name(): string {
    return `the imported pool on device ${this.device.ordinal}`;
  }

  /**
   * Maps a buffer of the exporting process. The two processes must ensure the order of their work, because CUDA does
   * not:
   *
   * - Use the memory only after the exporter's allocation has completed: wait for an interprocess event that the
   *   exporter has recorded on its stream after the allocation, or until the exporter has synchronized the stream.
   * - The exporter must free the memory only after this process's free of the mapping has completed. It is not enough
   *   that this free is enqueued: the exporter must wait for an event that this process records after the free, or
   *   until this process has synchronized the stream. If several streams have used the buffer, the free may run on an
   *   internal stream of the library. In this case, make the buffer's stream wait for the other streams' events before
   *   the free, or wait for `CudaDevice.finished`, which covers all streams.
   *
   * Importing the same export data again through the same `Cuda` object reuses the mapping, which lasts until its last
   * buffer is freed. The driver keeps one mapping per process, so only one `Cuda` object, in only one Worker, should
   * map the memory of an exporter.
   *
   * @param exportData The 64 bytes of the exporter's `DeviceBuffer.exportPointer`.
   * @param byteLength Size of the buffer in bytes. It may be less than the exporter has allocated.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `exportData` is not a `Uint8Array`, such as the exporter's buffer itself
   * @throws {RangeError} If `exportData` does not have 64 bytes, or `byteLength` is not a whole number, or is less than
   * 1
   * @throws {ReferenceError} If the pool was disposed
   * @throws {SharingError} `size-mismatch` if the exporter has allocated less than `byteLength` bytes, `too-large` if
   * it has allocated more than the driver can import: more than 4 GiB, or slightly less, depending on the allocation's
   * offset in the pool. `bad-message` if the export data cannot come from a driver
   * @throws {CudaError} `cudaErrorInvalidValue` if the export data is not from this pool
   */
  importPointer(exportData: Uint8Array, byteLength: number): DeviceBuffer {
    if (!(exportData instanceof Uint8Array)) {
      throw new TypeError(
        `Cannot import a pointer from ${whatIs(exportData)}: give the Uint8Array of the exporter's exportPointer`,
      );
    }
    if (exportData.byteLength !== exportDataByteLength) {
      throw new RangeError(
        `Cannot import ${exportData.byteLength} bytes of export data: it must have ${exportDataByteLength}`,
      );
    }
    checkByteLength(byteLength, "the size of an imported buffer", 1);
    // Throws if this pool was disposed, even if the data is mapped through another object that has imported the same
    // pool.
    void this.unsafeHandle;
    return this.#import(exportData, byteLength, Infinity);
  }

  /** Imports an allocation of at most `most` bytes, and creates a buffer of `byteLength` bytes. */
  #import(exportData: Uint8Array, byteLength: number, most: number): DeviceBuffer {
    const actual = this.#session.exportDataLayout.checkImported(this.device.ordinal, exportData, byteLength, most);
    const data = this.#owner.isHostMemory || most !== Infinity ? exportData.toHex() : undefined;
    const earlier = data === undefined ? undefined : this.#mappings.withData(data);
    const address = earlier === undefined ? this.#map(exportData) : this.#mappings.addressOf(earlier);
    const mapping = earlier ?? this.#mappings.withAddress(address);
    if (mapping.byteLength === 0) {
      mapping.byteLength = actual ?? this.#sizeOf(mapping, address);
      if (data !== undefined) this.#mappings.addData(mapping, data);
    }
    if (mapping.byteLength < byteLength || mapping.byteLength > most) {
      if (mapping.bufferCount === 0) this.#unmap(mapping, address, this.device.defaultStream);
      throw sizeMismatch(byteLength, mapping.byteLength);
    }
    mapping.bufferCount++;
    this.#liveCount++;
    this.#liveBytes += byteLength;
    const { device, device: { defaultStream } } = this;
    const allocation = new Allocation(this.#session, this.#owner, this, address, byteLength, device, defaultStream);
    allocation.poolIndex = mapping.index;
    return new DeviceBuffer(allocation);
  }

  /**
   * Returns what kernels of a device may do with the pool's memory.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `device` is not a device of the same `Cuda` object
   */
  getAccess(device: CudaDevice): Access {
    return getPoolAccess(this.#session, this.unsafeHandle, device);
  }

  /**
   * Sets what kernels of the given devices may do with the pool's memory in this process. The exporter's settings do
   * not apply here.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} If `access` is not a valid access, or a device is not a device of the same `Cuda` object
   * @throws {ReferenceError} If the pool was disposed
   * @throws {CudaError} For the same reasons as `MemoryPool.setAccess`
   */
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access): void {
    const poolDevice = this.#mappings.memoryDevice === "host" ? undefined : this.device;
    setPoolAccess(this.#session, this.unsafeHandle, { devices, access, poolDevice });
  }

  /**
   * Releases the pool. Blocks until the streams on which its buffers were freed have executed the frees.
   *
   * @throws {ReferenceError} If some buffers of the pool have not been freed
   */
  [Symbol.dispose](): void {
    if (this.#handle === undefined) return;
    if (this.#liveCount > 0) {
      throw new ReferenceError(
        `Cannot dispose ${this.#name}: ${this.#liveCount} of its buffers are not freed, or still being read or kept`,
      );
    }
    const handle = this.#handle;
    this.#handle = undefined;
    this.#session.opened.delete(this.#opened);
    try {
      // The driver refuses to destroy a pool while any of its pointers are mapped. So, among the objects that have
      // imported the pool, the last one to be disposed destroys all imports.
      if (!this.#mappings.removeImporter()) return ignoreLoss(() => this.#freedOn.synchronize());
      ignoreLoss(() => {
        this.#mappings.freedOn.synchronize();
        for (let count = 0; count < this.#mappings.imports; count++) this.#session.driver.memPoolDestroy(handle);
      });
    } finally {
      this.#onDispose?.();
    }
  }

  /** Yields the mappings that buffers of any importer use. */
  *#pieces(): Generator<MemoryPiece> {
    if (this.#liveCount === 0) return;
    for (const mapping of this.#mappings) {
      if (mapping.bufferCount > 0) yield { at: this.#mappings.addressOf(mapping), byteLength: mapping.byteLength };
    }
  }

  /** Unmaps all remaining mappings and releases the pool for all its importers, at the end of the session. */
  #releaseAll(driver: Driver, handle: bigint): void {
    const mappings = this.#mappings;
    if (mappings.isReleased) return;
    mappings.isReleased = true;
    const { device } = this;
    for (const mapping of mappings) {
      driver.freeAsync(device.ordinal, mappings.addressOf(mapping), defaultStream);
      mappings.freedOn.add(device.defaultStream);
    }
    mappings.freedOn.synchronizeBy(driver);
    for (let count = 0; count < mappings.imports; count++) driver.memPoolDestroy(handle);
  }

  /**
   * Maps an allocation with the driver, and returns the address. If device memory is mapped already, the driver returns
   * the existing address.
   */
  #map(exportData: Uint8Array): bigint {
    try {
      return this.#session.driver.memPoolImportPointer(this.device.ordinal, this.unsafeHandle, exportData);
    } catch (error) {
      throw cannot(
        `import a pointer into ${this.#name}`,
        error,
        "its export data must come from the exporter of this pool",
      );
    }
  }

  #free(mappingIndex: number, address: bigint, byteLength: number, stream: CudaStream): void {
    const mapping = this.#mappings.at(mappingIndex);
    if (mapping.bufferCount > 1) {
      this.#recordFree(mapping, stream);
      mapping.bufferCount--;
    } else {
      this.#unmap(mapping, address, stream);
    }
    this.#liveCount--;
    this.#liveBytes -= byteLength;
    this.#freedOn.add(stream);
  }

  /**
   * Records an event after a free that does not unmap the memory: the free that finally unmaps it must wait for this
   * event.
   */
  #recordFree(mapping: ImportedMapping, stream: CudaStream): void {
    const { driver } = this.#session;
    const device = stream.device.ordinal;
    const handle = stream.unsafeHandle;
    const earlierFrees = mapping.earlierFrees ??= new Map();
    let event = earlierFrees.get(stream);
    if (event === undefined) {
      event = this.#session.createMarker(device);
      earlierFrees.set(stream, event);
      if (earlierFrees.size % sweepSize === 0) this.#sweepFrees(earlierFrees);
    }
    driver.eventRecord(device, event, handle);
  }

  /**
   * Removes disposed streams that have completed their work, so that the map stays small if a program uses the mapping
   * on a new stream for each task.
   */
  #sweepFrees(earlierFrees: Map<CudaStream, bigint>): void {
    for (const [stream, event] of earlierFrees) {
      if (!stream.disposed || !this.#session.driver.eventQuery(event)) continue;
      earlierFrees.delete(stream);
      this.#session.destroyMarker(event);
    }
  }

  /** Queries the driver for the size of a new mapping. Unmaps the memory if the query fails. */
  #sizeOf(mapping: ImportedMapping, address: bigint): number {
    const { driver } = this.#session;
    try {
      const { base, byteLength } = driver.memGetAddressRange(this.device.ordinal, address);
      // Only the first address of an allocation can be exported, so `base` should equal `address`.
      return base === address ? byteLength : Number(base + BigInt(byteLength) - address);
    } catch (error) {
      this.#unmap(mapping, address, this.device.defaultStream);
      throw cannot(`find the size of a pointer imported into ${this.#name}`, error);
    }
  }

  #unmap(mapping: ImportedMapping, address: bigint, stream: CudaStream): void {
    const { driver } = this.#session;
    const { ordinal } = stream.device;
    const handle = stream.unsafeHandle;
    const { earlierFrees } = mapping;
    if (earlierFrees !== undefined) {
      for (const [earlier, event] of earlierFrees) {
        if (earlier !== stream) driver.streamWaitEvent(ordinal, handle, event);
      }
    }
    driver.freeAsync(ordinal, address, handle);
    if (earlierFrees !== undefined) {
      for (const event of earlierFrees.values()) this.#session.destroyMarker(event);
    }
    this.#mappings.freedOn.add(stream);
    this.#mappings.remove(mapping);
  }
}

/** Imports a pool of another process with `cudaMemPoolImportFromShareableHandle`. */
export function importPool(session: Session, device: CudaDevice, handle: ShareableHandle): ImportedMemoryPool {
  if (!(handle instanceof ShareableHandle)) {
    throw new TypeError(
      `Cannot import a pool from ${whatIs(handle, "ShareableHandle")}: give the ShareableHandle of the exporter's ` +
        "exportHandle, or one that ShareableHandle.fromFd made of a descriptor",
    );
  }
  const isFd = handle.type === "posix-fd";
  let imported: bigint;
  try {
    imported = session.driver.memPoolImportFromShareableHandle(
      device.ordinal,
      isFd ? handle.fd : handle.bytes,
      isFd ? memHandleType.posixFileDescriptor : memHandleType.fabric,
    );
  } catch (error) {
    const what = isFd ? `the descriptor ${handle.fd}` : "a fabric handle";
    const hint = "it must come from a pool's exportHandle on the same machine";
    throw cannot(`import a pool from ${what}`, error, isFd ? hint : fabricImportHint(error, "a pool"));
  }
  try {
    checkMemoryDevice(session, device, imported);
    return new ImportedMemoryPool(session, { device, handle: imported });
  } catch (error) {
    const mappings = session.importedMappings(imported);
    // The driver refuses to destroy a pool while any of its pointers are mapped. So if other objects have imported the
    // pool, this import is counted among theirs: the last of these objects to be disposed destroys all imports.
    if (mappings.importers > 0) mappings.imports++;
    else mappings.discard(() => session.driver.memPoolDestroy(imported));
    throw error;
  }
}

/**
 * Throws if the pool's memory is on another device. When a pool is first imported, only the device that it is on has
 * access to it; no device has access to a pool in host memory.
 */
function checkMemoryDevice(session: Session, { ordinal }: CudaDevice, imported: bigint): void {
  const { driver } = session;
  const mappings = session.importedMappings(imported);
  mappings.memoryDevice ??= Array.from({ length: driver.getDeviceCount() }, (_, id) => id)
    .find((id) => driver.memPoolGetAccess(imported, { type: memLocationType.device, id }) !== memAccessFlags.none) ??
    "host";
  if (mappings.memoryDevice === "host" || mappings.memoryDevice === ordinal) return;
  throw new RangeError(
    `Cannot import the pool on device ${ordinal}: its memory is on device ${mappings.memoryDevice}; import it there`,
  );
}
