import { printAs, stateOf } from "../support/printing.ts";
import { CudaEvent, type EventOptions } from "./cuda_event.ts";
import { CudaModule } from "./cuda_module.ts";
import { CudaStream, type StreamOptions } from "./cuda_stream.ts";
import { type DeviceAttributeName, deviceAttributes } from "../support/device_attributes.ts";
import type { DeviceBuffer } from "../memory/device_buffer.ts";
import { checkDevice, noteDevice } from "./device_sessions.ts";
import {
  defaultStream,
  eventFlags,
  ipcHandleByteLength,
  memAccessFlags,
  memHandleType,
  memLocationType,
  streamFlags,
} from "../driver.ts";
import { createPool } from "../memory/create_pool.ts";
import { CudaError } from "../support/errors.ts";
import { cannot, openingHint } from "../support/error_wording.ts";
import { ImportedMemoryPool } from "../memory/imported_memory_pool.ts";
import { allocateMemory, openMemory } from "../memory/legacy_memory.ts";
import { MemoryPool, type PoolOptions } from "../memory/memory_pool.ts";
import { kernelSignatures } from "../ptx/kernel_signature.ts";
import { ptxText } from "../ptx/ptx_text.ts";
import type { Session } from "../session.ts";
import { ShareableHandle } from "../memory/shareable_handle.ts";
import { formatUuid } from "../support/uuid.ts";
import { checkNumber, checkOptions, whatIs } from "../support/validation.ts";
import { type WaitOptions, waitUntil } from "../support/waiting/waiting.ts";

const attributePrefix = "cudaDevAttr";
/** What a C int holds: runtimes make different things of a number that is none. */
const priorityBits = 32;

/** A GPU, or a software device. One of `Cuda.devices`. */
export class CudaDevice {
  /** The number by which CUDA calls it in this process. */
  readonly ordinal: number;
  /** The stream that work goes to where none is named. */
  readonly defaultStream: CudaStream;
  readonly #session: Session;
  /** Streams that the default stream does not wait for, by handle. */
  readonly #independentStreams = new Map<bigint, CudaStream>();
  /** Events behind the work of such streams that were disposed. */
  readonly #departures = new Set<bigint>();
  readonly #attributes = new Map<number, number>();
  #uuid: string | undefined;
  #name: string | undefined;

  static {
    printAs(this, "CudaDevice", (device) => {
      const { hasEnded } = device.#session;
      return `CudaDevice { device ${device.ordinal}, ` +
        `${hasEnded ? "disposed" : stateOf(() => `${device.name}, ${device.uuid}`)} }`;
    });
  }

  /**
   * Made by `open`.
   *
   * @ignore
   */
  constructor(session: Session, ordinal: number) {
    this.#session = session;
    this.ordinal = ordinal;
    this.defaultStream = new CudaStream(session, { device: this, handle: defaultStream });
    noteDevice(this, session);
  }

  /** The same in every process: "GPU-14e79943-d9b5-ef5b-1063-3010823d4b49"; "MIG-" and so on for a part of a GPU. */
  get uuid(): string {
    return this.#uuid ??= formatUuid(this.#session.driver.deviceGetUuid(this.ordinal), this.#kind);
  }

  /** CUDA says it by the name alone: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
  get #kind(): "GPU" | "MIG" {
    return / MIG \d/.test(this.name) ? "MIG" : "GPU";
  }

  /** What its maker calls it. */
  get name(): string {
    return this.#name ??= this.#session.driver.deviceGetName(this.ordinal);
  }

  /** 9 and 0 for an H200. */
  get computeCapability(): readonly [major: number, minor: number] {
    return [this.attribute("computeCapabilityMajor"), this.attribute("computeCapabilityMinor")];
  }

  /**
   * A device attribute under CUDA's name, "multiProcessorCount" for cudaDevAttrMultiProcessorCount. It is in the unit that
   * CUDA gives it in: sizes are bytes, clock rates kilohertz; what a device can or cannot is 1 or 0.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {RangeError} for a name that CUDA does not have
   * @throws {CudaError} `cudaErrorInvalidValue` for an attribute that the driver is too old for
   */
  attribute(name: string): number {
    if (!Object.hasOwn(deviceAttributes, name)) {
      throw new RangeError(`Cannot tell the attribute "${name}": ${whyNoAttribute(String(name))}`);
    }
    const number = deviceAttributes[name as DeviceAttributeName];
    let value = this.#attributes.get(number);
    if (value === undefined) {
      try {
        value = this.#session.driver.deviceGetAttribute(this.ordinal, number);
      } catch (error) {
        throw cannot(`tell the attribute "${name}" of device ${this.ordinal}`, error, "a newer driver may know it");
      }
      this.#attributes.set(number, value);
    }
    return value;
  }

  /**
   * Bytes of the device's memory, and of what is left of it.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {CudaError} where the device is lost
   */
  memoryInfo(): { free: number; total: number } {
    try {
      return this.#session.driver.memGetInfo(this.ordinal);
    } catch (error) {
      throw cannot(`tell the memory of device ${this.ordinal}`, error);
    }
  }

  /**
   * The priorities that streams can have, from the least to the greatest, which is the lower number: 0 and -5 on an H200.
   * Both are 0 where the device does not tell streams apart so. A stream that is created with another gets the nearest.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   *
   * @example
   * ```ts ignore
   * using urgent = gpu.createStream({ nonBlocking: true, priority: gpu.streamPriorityRange().greatest });
   * ```
   */
  streamPriorityRange(): { least: number; greatest: number } {
    try {
      return this.#session.driver.deviceGetStreamPriorityRange(this.ordinal);
    } catch (error) {
      throw cannot(`tell the priorities of streams on device ${this.ordinal}`, error);
    }
  }

  /**
   * A new queue for the device's work.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {TypeError} for a priority that is no number
   * @throws {RangeError} for one that is not whole, or not of 32 bits
   * @throws {CudaError} where the device has no room for it, or is lost
   */
  createStream(options: StreamOptions = {}): CudaStream {
    checkOptions(options, "createStream");
    const { priority = 0, nonBlocking = false } = options;
    checkPriority(priority);
    const flags = nonBlocking ? streamFlags.nonBlocking : streamFlags.default;
    let handle: bigint;
    try {
      handle = this.#session.driver.streamCreateWithPriority(this.ordinal, flags, priority);
    } catch (error) {
      throw cannot(`create a stream on device ${this.ordinal}`, error);
    }
    if (!nonBlocking) return new CudaStream(this.#session, { device: this, handle });
    const stream = new CudaStream(this.#session, { device: this, handle, onDispose: () => this.#depart(handle) });
    this.#independentStreams.set(handle, stream);
    return stream;
  }

  /** Remembers the work that a stream leaves behind: `finished` waits for it. */
  #depart(stream: bigint): void {
    const { driver } = this.#session;
    this.#independentStreams.delete(stream);
    for (const event of this.#departures) if (driver.eventQuery(event)) this.#forget(event);
    const event = this.#session.createMarker(this.ordinal);
    this.#departures.add(event);
    driver.eventRecord(this.ordinal, event, stream);
  }

  #forget(departure: bigint): void {
    if (this.#departures.delete(departure)) this.#session.destroyMarker(departure);
  }

  /**
   * A new event.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
   * @throws {TypeError} where it is to be both timing and interprocess
   * @throws {CudaError} `cudaErrorNotSupported` for an interprocess one where other processes cannot open it
   */
  createEvent(options: EventOptions = {}): CudaEvent {
    checkOptions(options, "createEvent");
    const { timing = false, blockingSync = false, interprocess = false } = options;
    if (timing && interprocess) {
      throw new TypeError("Cannot create an interprocess event with timing: CUDA has no such events, leave timing out");
    }
    const flags = (timing ? 0 : eventFlags.disableTiming) | (blockingSync ? eventFlags.blockingSync : 0) |
      (interprocess ? eventFlags.interprocess : 0);
    try {
      const handle = this.#session.driver.eventCreateWithFlags(this.ordinal, flags);
      return new CudaEvent(this.#session, { device: this, handle });
    } catch (error) {
      const hint = interprocess ? 'attribute("ipcEventSupport") tells whether other processes can open it' : undefined;
      throw cannot(`create an event on device ${this.ordinal}`, error, hint);
    }
  }

  /**
   * A new memory pool on the device. A `maxSize` needs CUDA 12.2.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for a `handleType` that there is not, or one that other processes can import where nothing can be
   * shared: without FFI, or elsewhere than on Linux
   * @throws {RangeError} for a size that is none
   * @throws {CudaError} where the device has no such pools: `cudaErrorCallRequiresNewerDriver` where a newer driver has
   */
  createPool(options: PoolOptions = {}): MemoryPool {
    checkOptions(options, "createPool");
    const location = { type: memLocationType.device, id: this.ordinal };
    return createPool(this.#session, { location, device: this, name: `on device ${this.ordinal}` }, options);
  }

  /**
   * The pool that the device has from the start. It cannot be shared, and disposing it does nothing.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   */
  get defaultPool(): MemoryPool {
    return this.#poolOf(() => this.#session.driver.deviceGetDefaultMemPool(this.ordinal));
  }

  /**
   * The pool from which CUDA's own `cudaMallocAsync`, and other libraries by it, allocate in this process. Once it is
   * disposed the default pool takes its place.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} when it is set to what is no `MemoryPool`, an `ImportedMemoryPool` for one
   * @throws {RangeError} when it is set to a pool of another device, or in host memory
   * @throws {ReferenceError} when it is set to a pool that was disposed
   */
  get currentPool(): MemoryPool {
    return this.#poolOf(() => this.#session.driver.deviceGetMemPool(this.ordinal));
  }

  set currentPool(pool: MemoryPool) {
    if (!(pool instanceof MemoryPool)) {
      throw new TypeError(
        `Cannot make ${
          whatIs(pool, "MemoryPool")
        } the current pool of device ${this.ordinal}: it must be a MemoryPool of its own`,
      );
    }
    if (pool.device !== this) {
      throw new RangeError(
        `Cannot make a pool ${this.#placeOf(pool)} the current pool of device ${this.ordinal}: it must be its own`,
      );
    }
    try {
      this.#session.driver.deviceSetMemPool(this.ordinal, pool.unsafeHandle);
    } catch (error) {
      throw cannot(`set the current pool of device ${this.ordinal}`, error);
    }
  }

  #placeOf({ device }: MemoryPool): string {
    if (device === undefined) return "in host memory";
    return device.ordinal === this.ordinal ? "of another Cuda object" : `of device ${device.ordinal}`;
  }

  #poolOf(ask: () => bigint): MemoryPool {
    let handle: bigint;
    try {
      handle = ask();
    } catch (error) {
      throw cannot(`tell the pool of device ${this.ordinal}`, error);
    }
    return this.#session.pools.get(handle) ??
      new MemoryPool(this.#session, { device: this, handle, handleType: "none", isOwned: false });
  }

  /**
   * Memory that is not from a pool, by `cudaMalloc`: what legacy IPC handles need. Freeing it blocks until the device's
   * work is done.
   *
   * @param byteLength Bytes, at least 1.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @throws {TypeError} for a size that is no number
   * @throws {RangeError} for one that is no whole number, or 0
   * @throws {CudaError} `cudaErrorMemoryAllocation` where there is too little memory left
   */
  allocate(byteLength: number): DeviceBuffer {
    return allocateMemory(this.#session, this, byteLength);
  }

  /**
   * Loads kernels: PTX text, or the bytes of PTX, a cubin or a fatbin.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
   * @throws {CudaError} `cudaErrorInvalidPtx` with the compiler's words where the PTX is not right
   */
  loadModule(image: string | Uint8Array): CudaModule {
    const ptx = ptxText(image);
    let handle: bigint;
    try {
      handle = this.#session.driver.moduleLoadData(this.ordinal, image);
    } catch (error) {
      throw cannot(`load a module on device ${this.ordinal}`, error);
    }
    try {
      const signatures = ptx === undefined ? [] : kernelSignatures(ptx);
      return new CudaModule(this.#session, { device: this, handle, signatures });
    } catch (error) {
      this.#session.driver.moduleUnload(this.ordinal, handle);
      throw error;
    }
  }

  /**
   * Takes a pool of another process, by what its `exportHandle` gave. The handle stays the caller's.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html
   * @throws {TypeError} for what is no `ShareableHandle`: a descriptor's number becomes one by `ShareableHandle.fromFd`
   * @throws {RangeError} where the pool's memory is of another device
   * @throws {CudaError} where the descriptor is no pool's
   */
  importPool(handle: ShareableHandle): ImportedMemoryPool {
    if (!(handle instanceof ShareableHandle)) {
      throw new TypeError(
        `Cannot import a pool from ${whatIs(handle, "ShareableHandle")}: give the ShareableHandle of the exporter's ` +
          "exportHandle, or one that ShareableHandle.fromFd made of a descriptor",
      );
    }
    const isFd = handle.type === "posix-fd";
    let imported: bigint;
    try {
      imported = this.#session.driver.memPoolImportFromShareableHandle(
        this.ordinal,
        isFd ? handle.fd : handle.bytes,
        isFd ? memHandleType.posixFileDescriptor : memHandleType.fabric,
      );
    } catch (error) {
      const what = isFd ? `the descriptor ${handle.fd}` : "a fabric handle";
      throw cannot(
        `import a pool from ${what}`,
        error,
        "it must be what a pool's exportHandle gave on the same machine",
      );
    }
    try {
      this.#checkResident(imported);
      return new ImportedMemoryPool(this.#session, { device: this, handle: imported });
    } catch (error) {
      const mappings = this.#session.importedMappings(imported);
      // Destroyed with the last of the others, where there are any: the driver refuses while pointers are mapped.
      if (mappings.importers > 0) mappings.imports++;
      else mappings.abandon(() => this.#session.driver.memPoolDestroy(imported));
      throw error;
    }
  }

  /** At its first import the device of a pool has access to it, and no other has; of a host pool none has. */
  #checkResident(imported: bigint): void {
    const { driver } = this.#session;
    const mappings = this.#session.importedMappings(imported);
    mappings.resident ??= Array.from({ length: driver.getDeviceCount() }, (_, id) => id)
      .find((id) => driver.memPoolGetAccess(imported, { type: memLocationType.device, id }) !== memAccessFlags.none) ??
      "host";
    if (mappings.resident === "host" || mappings.resident === this.ordinal) return;
    throw new RangeError(
      `Cannot import the pool on device ${this.ordinal}: its memory is of device ${mappings.resident}; import it there`,
    );
  }

  /**
   * Opens an interprocess event of another process, by the 64 bytes of its `exportHandle`.
   *
   * A stream that waits for a record that the other process died before reaching never goes on.
   *
   * @param handle The 64 bytes of `CudaEvent.exportHandle`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} for what is no `Uint8Array`
   * @throws {RangeError} for another number of bytes than 64
   * @throws {CudaError} `cudaErrorDeviceUninitialized` in the process that made the event,
   * `cudaErrorMapBufferObjectFailed` where that has gone
   */
  openEvent(handle: Uint8Array): CudaEvent {
    checkIpcHandle(handle, "an event");
    try {
      const opened = this.#session.driver.ipcOpenEventHandle(this.ordinal, handle);
      return new CudaEvent(this.#session, { device: this, handle: opened });
    } catch (error) {
      const hint = openingHint(error, "event");
      throw cannot(`open an event of another process on device ${this.ordinal}`, error, hint);
    }
  }

  /**
   * Maps memory of another process, by the 64 bytes of its `exportHandle`. Peer access is enabled where it is needed. The
   * other process must not free the memory before this one has. Freeing blocks until the stream has got there, and nothing
   * interrupts that: not where the stream waits for an event of a process that has died.
   *
   * @param handle The 64 bytes of `DeviceBuffer.exportHandle`.
   * @param byteLength How long the memory is said to be; it may be less than there is.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {TypeError} for what is no `Uint8Array`
   * @throws {RangeError} for another number of bytes than 64, or a size that is none
   * @throws {SharingError} `size-mismatch` where the memory is smaller than that
   * @throws {CudaError} `cudaErrorDeviceUninitialized` in the process that allocated the memory
   */
  openMemory(handle: Uint8Array, byteLength: number): DeviceBuffer {
    checkIpcHandle(handle, "memory");
    return openMemory(this.#session, this, { handle, byteLength });
  }

  /**
   * Whether kernels of this device could reach memory of `peer`; false for the device itself.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html
   * @throws {TypeError} for what is no device of the same `Cuda` object
   */
  canAccessPeer(peer: CudaDevice): boolean {
    checkDevice(peer, this.#session);
    try {
      return this.#session.driver.deviceCanAccessPeer(this.ordinal, peer.ordinal);
    } catch (error) {
      throw cannot(`tell whether device ${this.ordinal} can access device ${peer.ordinal}`, error);
    }
  }

  /**
   * Lets this device reach the memory of `peer` that is not of a pool. Pools have `setAccess`.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html
   * @throws {TypeError} for what is no device of the same `Cuda` object
   * @throws {CudaError} `cudaErrorPeerAccessAlreadyEnabled` the second time, `cudaErrorPeerAccessUnsupported` where the two
   * are no peers
   */
  enablePeerAccess(peer: CudaDevice): void {
    checkDevice(peer, this.#session);
    try {
      this.#session.driver.deviceEnablePeerAccess(this.ordinal, peer.ordinal);
    } catch (error) {
      const what = `let device ${this.ordinal} access the memory of device ${peer.ordinal}`;
      throw cannot(what, error, peer === this ? "a device has access to its own memory" : peerHint(error));
    }
  }

  /**
   * Takes back what `enablePeerAccess` gave.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html
   * @throws {TypeError} for what is no device of the same `Cuda` object
   * @throws {CudaError} `cudaErrorPeerAccessNotEnabled` where it is not enabled
   */
  disablePeerAccess(peer: CudaDevice): void {
    checkDevice(peer, this.#session);
    try {
      this.#session.driver.deviceDisablePeerAccess(this.ordinal, peer.ordinal);
    } catch (error) {
      const what = `keep device ${this.ordinal} from the memory of device ${peer.ordinal}`;
      throw cannot(what, error, peer === this ? "a device has access to its own memory" : peerHint(error));
    }
  }

  /**
   * Blocks until all work of the device is done.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {CudaError} that of the work, where it has failed
   */
  synchronize(): void {
    try {
      this.#session.driver.deviceSynchronize(this.ordinal);
    } catch (error) {
      throw cannot(`wait for device ${this.ordinal}`, error);
    }
  }

  /**
   * Resolves when all work given to the device's streams so far is done; rejects with its CudaError. To pools this is no
   * synchronization: they give nothing back to the system at it, as they do at `synchronize`.
   *
   * @throws {CudaError} that of the work, where it has failed
   */
  async finished(options?: WaitOptions): Promise<void> {
    // The default stream comes after all streams but these.
    const streams = [this.defaultStream, ...this.#independentStreams.values()];
    const departures = [...this.#departures].map(async (event) => {
      try {
        await waitUntil(() => !this.#departures.has(event) || this.#session.driver.eventQuery(event), options);
      } catch (error) {
        throw cannot(`wait for device ${this.ordinal}`, error);
      }
      this.#forget(event);
    });
    await Promise.all([...streams.map((stream) => stream.finished(options)), ...departures]);
  }
}

function checkIpcHandle(handle: Uint8Array, what: string): void {
  if (!(handle instanceof Uint8Array)) throw new TypeError(`Cannot open ${what}: its handle is a Uint8Array`);
  if (handle.byteLength === ipcHandleByteLength) return;
  throw new RangeError(`Cannot open ${what} by ${handle.byteLength} bytes: its handle has ${ipcHandleByteLength}`);
}

function checkPriority(priority: number): void {
  checkNumber(priority, "a stream's priority");
  if ((priority | 0) !== priority) {
    throw new RangeError(
      `Cannot use ${priority} as a stream's priority: it must be a whole number of ${priorityBits} bits, ` +
        "CudaDevice.streamPriorityRange tells which there are",
    );
  }
}

function whyNoAttribute(name: string): string {
  const rest = name.startsWith(attributePrefix) ? name.slice(attributePrefix.length) : "";
  const plain = rest.charAt(0).toLowerCase() + rest.slice(1);
  return Object.hasOwn(deviceAttributes, plain)
    ? `leave the prefix out: "${plain}"`
    : `CUDA has no ${attributePrefix} of that name`;
}

/** What to try where the access of a peer cannot be enabled or disabled. */
function peerHint(error: unknown): string | undefined {
  switch (error instanceof CudaError ? error.code : undefined) {
    case "cudaErrorPeerAccessAlreadyEnabled":
      return "it is enabled already, and once is enough";
    case "cudaErrorPeerAccessNotEnabled":
      return "it is not enabled, so there is nothing to take back";
    case "cudaErrorPeerAccessUnsupported":
      return "the two are no peers, copy the memory instead";
  }
  return undefined;
}
