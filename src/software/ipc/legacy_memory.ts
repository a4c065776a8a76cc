/**
 * Memory outside of pools: `cudaMalloc`, and the handles by which processes share such memory.
 *
 * @module
 */
import { AccessibleRange, type DeviceAllocation, PeerAccess } from "../memory/allocations.ts";
import { IpcFile, ipcKind, openIpcFile } from "./ipc_file.ts";
import { type LinearMemory, wholePages } from "../memory/linear_memory.ts";
import { SystemError } from "../../../ffi/native/shim/shim.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { checkSharing, fail, translateSystemErrors } from "../failure.ts";
import type { VisibleDevices } from "../visible_devices.ts";

/** Memory from `cudaMalloc`, which occupies whole pages. */
export class DeviceMemory extends AccessibleRange {
  readonly kind = "plain";
  readonly #linearMemory: LinearMemory;
  /** The file that contains the memory. Undefined until an IPC handle is requested. */
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
   * Returns the handle with which another process can open the memory until it is released.
   *
   * @throws {SystemError} If the system is out of memory
   */
  handle(deviceUuid: Uint8Array): Uint8Array<ArrayBuffer> {
    this.#file ??= this.#moveToFile(deviceUuid);
    return this.#file.handle();
  }

  /** Releases the memory. Later calls do nothing. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.denyAll();
    this.#file?.close();
    this.#linearMemory.discardAndRelease(this.begin, wholePages(this.byteLength), {
      isShared: this.#file !== undefined,
    });
  }

  /** Moves the memory to a file. No work runs during the call, so nothing else writes to the memory. */
  #moveToFile(deviceUuid: Uint8Array): IpcFile {
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
   * Maps a file with a copy of the memory in place of the memory. If that fails, restores the bytes without the file.
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

/** Memory of another process that was opened by an IPC handle. */
export class OpenedMemory extends AccessibleRange {
  readonly kind = "opened";
  /** The number of opens that have not been closed. The last close releases the memory. */
  openCount = 1;
  readonly #linearMemory: LinearMemory;

  private constructor(linearMemory: LinearMemory, allocation: DeviceAllocation) {
    super(linearMemory, allocation);
    this.#linearMemory = linearMemory;
  }

  /**
   * Maps a file, which the caller still owns. Returns "no room" if linear memory is full, or "not mapped" on failure.
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
      // A failed mapping may have left a hole in linear memory, which discarding closes.
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

/** One driver's memory outside of pools: allocated by `cudaMalloc`, or opened with `cudaIpcOpenMemHandle`. */
export class LegacyMemory {
  readonly peerAccess: PeerAccess = new PeerAccess();
  readonly #linearMemory: LinearMemory;
  readonly #devices: VisibleDevices;
  /** The memory that has not been released, including memory whose free is still pending. */
  readonly #allocated = new Set<DeviceMemory>();
  /** The opened memory, by the device for which it was opened and the handle. */
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

  /** Implements `cudaIpcOpenMemHandle`. Maps a handle's memory once for each device and counts the opens. */
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

  /** Maps a file. Grants access to the kernels of the device that owns the memory and of the device that opens it. */
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

  /** Unmaps memory whose last open was closed. */
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
