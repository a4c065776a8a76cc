/**
 * Memory that is of no pool: `cudaMalloc`, and the handles by which processes share it.
 *
 * @module
 */
import { cudaErrorNumbers } from "../../support/errors.ts";
import { DeviceMemory } from "../memory/device_memory.ts";
import { checkSharing, fail, translateSystemErrors } from "../failure.ts";
import { IpcFile, openIpcFile } from "./ipc_file.ts";
import { ipcKind } from "./ipc_handle.ts";
import { OpenedMemory } from "./opened_memory.ts";
import { PeerAccess } from "../memory/peer_access.ts";
import type { VisibleDevices } from "../visible_devices.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";

/** One driver's memory outside of pools: allocated by `cudaMalloc`, or opened with `cudaIpcOpenMemHandle`. */
export class LegacyMemory {
  readonly peerAccess: PeerAccess = new PeerAccess();
  readonly #linearMemory: LinearMemory;
  readonly #devices: VisibleDevices;
  /** The memory that has not been released, including memory whose free is still pending. */
  readonly #allocated = new Set<DeviceMemory>();
  /** The opened memory, by the device that it was opened for and its handle. */
  readonly #opened = new Map<string, OpenedMemory>();

  constructor(linearMemory: LinearMemory, devices: VisibleDevices) {
    this.#linearMemory = linearMemory;
    this.#devices = devices;
  }

  /** Returns undefined if linear memory is full. */
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
