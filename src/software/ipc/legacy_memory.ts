/**
 * Memory outside of pools: `cudaMalloc`, and the handles by which processes share such memory.
 *
 * @module
 */
import { whileWorkersPause } from "../execution/workers/workers.ts";
import { AccessibleRange, type DeviceAllocation, PeerAccess } from "../memory/allocations.ts";
import { IpcFile, ipcKind, openIpcFile } from "./ipc_file.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";
import { wholePages } from "../memory/memory_layout.ts";
import { SystemError } from "../../../ffi/native/shim/shim.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { checkSharing, fail, translateSystemErrors } from "../failure.ts";
import type { VisibleDevices } from "../visible_devices.ts";

/** Memory from `cudaMalloc`, which occupies whole pages. */
export class DeviceMemory extends AccessibleRange {
  readonly kind = "plain";
  readonly #linearMemory: LinearMemory;
  /** The file that contains the memory. Undefined until an IPC handle of the memory is first requested. */
  #file: IpcFile | undefined;
  #isReleased = false;

  private constructor(linearMemory: LinearMemory, allocation: DeviceAllocation) {
    super(linearMemory, allocation);
    this.#linearMemory = linearMemory;
  }

  /** Allocates memory. Returns undefined if linear memory is full. */
  static allocate(
    linearMemory: LinearMemory,
    { device, byteLength }: { device: number; byteLength: number },
  ): DeviceMemory | undefined {
    const begin = linearMemory.reserve(wholePages(byteLength));
    return begin === undefined ? undefined : new DeviceMemory(linearMemory, { begin, byteLength, device });
  }

  /**
   * Returns the handle with which another process can open the memory. The handle is valid until the memory is
   * released.
   *
   * @throws {SystemError} If the system is out of memory
   */
  handle(deviceUuid: Uint8Array): Uint8Array<ArrayBuffer> {
    this.#file ??= this.#moveToFile(deviceUuid);
    return this.#file.handle();
  }

  /** Releases the memory. Has no effect if it was already released. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.denyAll();
    this.#file?.close();
    this.#linearMemory.discardAndRelease(this.begin, wholePages(this.byteLength), {
      isShared: this.#file !== undefined,
    });
  }

  /**
   * Moves the contents of the memory to a file, and maps the file at the same addresses. No work runs during the call,
   * so nothing else writes to the memory.
   */
  #moveToFile(deviceUuid: Uint8Array): IpcFile {
    return whileWorkersPause(() => this.#move(deviceUuid));
  }

  #move(deviceUuid: Uint8Array): IpcFile {
    const { begin, byteLength } = this;
    const file = IpcFile.create("poolpass-memory", { kind: ipcKind.memory, deviceUuid, byteLength });
    const bytes = this.#linearMemory.bytes.subarray(begin, begin + byteLength);
    try {
      file.write(bytes);
      this.#map(file, bytes);
    } catch (error) {
      file.close();
      throw error;
    }
    return file;
  }

  /**
   * Maps a file, which contains a copy of this memory, at the same addresses. If the mapping fails, copies the contents
   * back from the file.
   */
  #map(file: IpcFile, bytes: Uint8Array): void {
    try {
      file.map(this.#linearMemory, this.begin);
    } catch (error) {
      if (this.#linearMemory.discard(this.begin, wholePages(this.byteLength))) file.readInto(bytes);
      throw error;
    }
  }
}

/** Memory of another process that was opened with an IPC handle. */
export class OpenedMemory extends AccessibleRange {
  readonly kind = "opened";
  /**
   * The number of times that the memory was opened and not yet closed. The memory is released when the count becomes 0.
   */
  openCount = 1;
  readonly #linearMemory: LinearMemory;

  private constructor(linearMemory: LinearMemory, allocation: DeviceAllocation) {
    super(linearMemory, allocation);
    this.#linearMemory = linearMemory;
  }

  /**
   * Maps a file into linear memory. The caller still has to close the file. Returns "no room" if linear memory is full,
   * or "not mapped" if the mapping fails.
   */
  static map(
    linearMemory: LinearMemory,
    { device, file }: { device: number; file: IpcFile },
  ): OpenedMemory | "no room" | "not mapped" {
    const { byteLength } = file.header;
    const begin = linearMemory.reserve(wholePages(byteLength));
    if (begin === undefined) return "no room";
    try {
      file.map(linearMemory, begin);
    } catch (error) {
      // Fills the hole that a failed mapping may have left in linear memory.
      linearMemory.discardAndRelease(begin, wholePages(byteLength), { isShared: true });
      if (error instanceof SystemError) return "not mapped";
      throw error;
    }
    return new OpenedMemory(linearMemory, { begin, byteLength, device });
  }

  /** Unmaps the memory. */
  release(): void {
    this.denyAll();
    this.#linearMemory.discardAndRelease(this.begin, wholePages(this.byteLength), { isShared: true });
  }
}

/**
 * The memory of a driver outside of pools: memory allocated by `cudaMalloc`, and memory of other processes opened with
 * `cudaIpcOpenMemHandle`.
 */
export class LegacyMemory {
  readonly peerAccess: PeerAccess = new PeerAccess();
  readonly #linearMemory: LinearMemory;
  readonly #devices: VisibleDevices;
  /** The memory that has not been released, including memory whose free is still pending. */
  readonly #allocated = new Set<DeviceMemory>();
  /** The opened memory. The key consists of the handle and of the device for which the memory was opened. */
  readonly #opened = new Map<string, OpenedMemory>();

  constructor(linearMemory: LinearMemory, devices: VisibleDevices) {
    this.#linearMemory = linearMemory;
    this.#devices = devices;
  }

  /** Implements `cudaMalloc`. Returns undefined if linear memory is full. */
  allocate(device: number, byteLength: number): DeviceMemory | undefined {
    const memory = DeviceMemory.allocate(this.#linearMemory, { device, byteLength });
    if (memory === undefined) return undefined;
    this.#allocated.add(memory);
    this.peerAccess.add(memory);
    return memory;
  }

  release(memory: DeviceMemory): void {
    this.peerAccess.remove(memory);
    this.#allocated.delete(memory);
    memory.release();
  }

  /** Implements `cudaIpcGetMemHandle`. */
  handleOf(memory: DeviceMemory): Uint8Array<ArrayBuffer> {
    const call = "cudaIpcGetMemHandle";
    checkSharing(call);
    return translateSystemErrors(call, () => memory.handle(this.#devices.uuid(memory.device)));
  }

  /**
   * Implements `cudaIpcOpenMemHandle`. Maps the memory of a handle once for each device, and counts how often it is
   * opened.
   */
  open(device: number, handle: Uint8Array): OpenedMemory {
    const key = `${device} ${handle.toHex()}`;
    const known = this.#opened.get(key);
    if (known !== undefined) {
      known.openCount++;
      return known;
    }
    const call = "cudaIpcOpenMemHandle";
    const file = openIpcFile(ipcKind.memory, handle, call);
    if (file === "no process") fail(cudaErrorNumbers.cudaErrorInvalidResourceHandle, call);
    if (!(file instanceof IpcFile)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    try {
      const memory = this.#map(device, file);
      this.#opened.set(key, memory);
      return memory;
    } finally {
      file.close();
    }
  }

  /**
   * Maps a file into linear memory. Grants access to the kernels of the device that owns the memory and of the device
   * that opens it.
   */
  #map(device: number, file: IpcFile): OpenedMemory {
    const call = "cudaIpcOpenMemHandle";
    const owner = this.#devices.find(file.header.deviceUuid);
    if (owner === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
    if (owner !== device && !this.#devices.arePeers) fail(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, call);
    for (const accessing of [device, owner]) {
      if (!this.#linearMemory.ensureBoundsTable(accessing)) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    }
    const memory = OpenedMemory.map(this.#linearMemory, { device: owner, file });
    if (memory === "no room") fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    if (memory === "not mapped") fail(cudaErrorNumbers.cudaErrorMapBufferObjectFailed, call);
    for (const accessing of [device, owner]) memory.allow(accessing);
    return memory;
  }

  /** Unmaps memory that has been closed as often as it was opened. */
  unmap(memory: OpenedMemory): void {
    for (const [key, opened] of this.#opened) if (opened === memory) this.#opened.delete(key);
    memory.release();
  }

  /** Releases all memory when the driver closes. */
  close(): void {
    for (const memory of this.#allocated) this.release(memory);
    for (const memory of this.#opened.values()) this.unmap(memory);
  }
}
