import { printAs, stateOf } from "./custom_inspect.ts";
import { CudaEvent, type EventOptions } from "./cuda_event.ts";
import { CudaModule } from "./cuda_module.ts";
import { CudaStream, type StreamOptions } from "./cuda_stream.ts";
import { type DeviceAttributeName, deviceAttributes } from "./device_attributes.ts";
import type { DeviceBuffer } from "./device_buffer.ts";
import { defaultStream, eventFlags, memAccessFlags, memHandleType, memLocationType, streamFlags } from "./driver.ts";
import { createPool } from "./create_pool.ts";
import { CudaError } from "./errors.ts";
import { cannot } from "./explain.ts";
import { ImportedMemoryPool } from "./imported_memory_pool.ts";
import { allocateMemory, openMemory } from "./legacy_memory.ts";
import { MemoryPool, type PoolOptions } from "./memory_pool.ts";
import { kernelSignatures } from "./ptx/kernel_signature.ts";
import { ptxText } from "./ptx/ptx_text.ts";
import type { Session } from "./session.ts";
import { ShareableHandle } from "./shareable_handle.ts";
import { formatUuid } from "./uuid.ts";
import { whatIs } from "./validation.ts";
import { type WaitOptions, waitUntil } from "./waiting.ts";

const ipcHandleByteLength = 64;

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
    printAs(this, (device) => {
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
   * A device attribute under CUDA's name, "multiProcessorCount" for cudaDevAttrMultiProcessorCount.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {RangeError} for a name that CUDA does not have
   */
  attribute(name: string): number {
    if (!Object.hasOwn(deviceAttributes, name)) {
      throw new RangeError(`Cannot tell the attribute "${name}": CUDA has no cudaDevAttr of that name`);
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

  /** Bytes of the device's memory, and of what is left of it. */
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

  /** A new queue for the device's work. */
  createStream(options: StreamOptions = {}): CudaStream {
    const { priority = 0, nonBlocking = false } = options;
    if (!Number.isSafeInteger(priority)) {
      throw new RangeError(`Cannot use ${priority} as a stream's priority: it must be whole`);
    }
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
   * @throws {TypeError} where it is to be both timing and interprocess
   */
  createEvent(options: EventOptions = {}): CudaEvent {
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
   * A new memory pool on the device.
   *
   * @throws {CudaError} where the device has no such pools
   */
  createPool(options: PoolOptions = {}): MemoryPool {
    const location = { type: memLocationType.device, id: this.ordinal };
    return createPool(this.#session, { location, device: this, name: `on device ${this.ordinal}` }, options);
  }

  /** The pool that the device has from the start. It cannot be shared, and disposing it does nothing. */
  get defaultPool(): MemoryPool {
    return this.#poolOf(() => this.#session.driver.deviceGetDefaultMemPool(this.ordinal));
  }

  /**
   * The pool from which CUDA's own `cudaMallocAsync`, and other libraries by it, allocate in this process. Once it is
   * disposed the default pool takes its place.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   */
  get currentPool(): MemoryPool {
    return this.#poolOf(() => this.#session.driver.deviceGetMemPool(this.ordinal));
  }

  set currentPool(pool: MemoryPool) {
    if (!(pool instanceof MemoryPool)) {
      throw new TypeError(
        `Cannot make ${whatIs(pool)} the current pool of device ${this.ordinal}: it must be a MemoryPool of its own`,
      );
    }
    if (pool.device !== this) {
      const place = pool.device === undefined ? "in host memory" : `of device ${pool.device.ordinal}`;
      throw new RangeError(
        `Cannot make a pool ${place} the current pool of device ${this.ordinal}: it must be its own`,
      );
    }
    try {
      this.#session.driver.deviceSetMemPool(this.ordinal, pool.unsafeHandle);
    } catch (error) {
      throw cannot(`set the current pool of device ${this.ordinal}`, error);
    }
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
   * @throws {CudaError} `cudaErrorMemoryAllocation` where there is too little memory left
   */
  allocate(byteLength: number): DeviceBuffer {
    return allocateMemory(this.#session, this, byteLength);
  }

  /**
   * Loads kernels: PTX text, or the bytes of PTX, a cubin or a fatbin.
   *
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
   * @throws {TypeError} for what is no `ShareableHandle`: a descriptor's number becomes one by `ShareableHandle.fromFd`
   * @throws {RangeError} where the pool's memory is of another device
   * @throws {CudaError} where the descriptor is no pool's
   */
  importPool(handle: ShareableHandle): ImportedMemoryPool {
    if (!(handle instanceof ShareableHandle)) {
      throw new TypeError(
        `Cannot import a pool from ${
          whatIs(handle)
        }: give the ShareableHandle of the exporter's exportHandle, or one ` +
          "that ShareableHandle.fromFd made of a descriptor",
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
      const isOfHandle = !(error instanceof CudaError && error.code === "cudaErrorOperatingSystem");
      const hint = isOfHandle ? "it must be what a pool's exportHandle gave on the same machine" : undefined;
      throw cannot(`import a pool from ${what}`, error, hint);
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
      `Cannot import the pool on device ${this.ordinal}: its memory is of device ${mappings.resident}`,
    );
  }

  /**
   * Opens an interprocess event of another process, by the 64 bytes of its `exportHandle`.
   *
   * A stream that waits for a record that the other process died before reaching never goes on.
   *
   * @throws {CudaError} `cudaErrorDeviceUninitialized` in the process that made the event
   */
  openEvent(handle: Uint8Array): CudaEvent {
    checkIpcHandle(handle, "an event");
    try {
      const opened = this.#session.driver.ipcOpenEventHandle(this.ordinal, handle);
      return new CudaEvent(this.#session, { device: this, handle: opened });
    } catch (error) {
      const hint = "it must be what exportHandle gave in another process, which still has the event";
      throw cannot(`open an event of another process on device ${this.ordinal}`, error, hint);
    }
  }

  /**
   * Maps memory of another process, by the 64 bytes of its `exportHandle`. Peer access is enabled where it is needed. The
   * other process must not free the memory before this one has. Freeing blocks until the stream has got there, and nothing
   * interrupts that: not where the stream waits for an event of a process that has died.
   *
   * @param byteLength How long the memory is said to be; it may be less than there is.
   * @throws {SharingError} `size-mismatch` where the memory is smaller than that
   * @throws {CudaError} `cudaErrorDeviceUninitialized` in the process that allocated the memory
   */
  openMemory(handle: Uint8Array, byteLength: number): DeviceBuffer {
    checkIpcHandle(handle, "memory");
    return openMemory(this.#session, this, { handle, byteLength });
  }

  /** Whether kernels of this device could reach memory of `peer`. */
  canAccessPeer(peer: CudaDevice): boolean {
    try {
      return this.#session.driver.deviceCanAccessPeer(this.ordinal, peer.ordinal);
    } catch (error) {
      throw cannot(`tell whether device ${this.ordinal} can access device ${peer.ordinal}`, error);
    }
  }

  /** Lets this device reach the memory of `peer` that is not of a pool. Pools have `setAccess`. */
  enablePeerAccess(peer: CudaDevice): void {
    try {
      this.#session.driver.deviceEnablePeerAccess(this.ordinal, peer.ordinal);
    } catch (error) {
      throw cannot(`let device ${this.ordinal} access the memory of device ${peer.ordinal}`, error);
    }
  }

  /** Takes back what `enablePeerAccess` gave. */
  disablePeerAccess(peer: CudaDevice): void {
    try {
      this.#session.driver.deviceDisablePeerAccess(this.ordinal, peer.ordinal);
    } catch (error) {
      throw cannot(`keep device ${this.ordinal} from the memory of device ${peer.ordinal}`, error);
    }
  }

  /** Blocks until all work of the device is done. */
  synchronize(): void {
    try {
      this.#session.driver.deviceSynchronize(this.ordinal);
    } catch (error) {
      throw cannot(`wait for device ${this.ordinal}`, error);
    }
  }

  /** Resolves when all work given to the device's streams so far is done; rejects with its CudaError. */
  async finished(options?: WaitOptions): Promise<void> {
    // The default stream comes after all streams but these.
    const streams = [this.defaultStream, ...this.#independentStreams.values()];
    const departures = [...this.#departures].map(async (event) => {
      await waitUntil(() => !this.#departures.has(event) || this.#session.driver.eventQuery(event), options);
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
