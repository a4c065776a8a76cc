/**
 * Memory that is of no pool: `cudaMalloc`, and the handles by which processes share it.
 *
 * @module
 */
import { cudaErrorNumbers } from "../../support/cuda_error_codes.ts";
import { DeviceMemory } from "../memory/device_memory.ts";
import { checkSharing, fail, outOfSystem } from "../failure.ts";
import { IpcFile, openIpcFile } from "./ipc_file.ts";
import { ipcKind } from "./ipc_handle.ts";
import { OpenedMemory } from "./opened_memory.ts";
import { PeerAccess } from "../memory/peer_access.ts";
import type { VisibleDevices } from "../visible_devices.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";

/** One driver's memory that is of no pool. */
export class LegacyMemory {
  readonly peerAccess: PeerAccess = new PeerAccess();
  readonly #linearMemory: LinearMemory;
  readonly #devices: VisibleDevices;
  /** What has not been released, whether its free was asked for or not. */
  readonly #allocated = new Set<DeviceMemory>();
  /** By the device that it was opened for, and the handle. */
  readonly #opened = new Map<string, OpenedMemory>();

  constructor(linearMemory: LinearMemory, devices: VisibleDevices) {
    this.#linearMemory = linearMemory;
    this.#devices = devices;
  }

  /** Undefined where linear memory has no room. */
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

  /** `cudaIpcGetMemHandle`. */
  handleOf(memory: DeviceMemory): Uint8Array<ArrayBuffer> {
    const call = "cudaIpcGetMemHandle";
    checkSharing(call);
    return outOfSystem(call, () => memory.handle(this.#devices.uuid(memory.device)));
  }

  /** `cudaIpcOpenMemHandle`: what a handle names is mapped once for each device, and counted. */
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

  /** The kernels of the device that has the memory may access it, and those of the one that it is opened for. */
  #map(device: number, file: IpcFile): OpenedMemory {
    const call = "cudaIpcOpenMemHandle";
    const owner = this.#devices.find(file.header.deviceUuid);
    if (owner === undefined) fail(cudaErrorNumbers.cudaErrorInvalidDevice, call);
    if (owner !== device && !this.#devices.arePeers) fail(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, call);
    for (const accessing of [device, owner]) {
      if (!this.#linearMemory.hasBoundsTable(accessing)) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    }
    const memory = OpenedMemory.map(this.#linearMemory, { device: owner, file });
    if (memory === "no room") fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
    if (memory === "not mapped") fail(cudaErrorNumbers.cudaErrorMapBufferObjectFailed, call);
    for (const accessing of [device, owner]) memory.allow(accessing);
    return memory;
  }

  /** Unmaps memory that was closed as often as it was opened. */
  unmap(memory: OpenedMemory): void {
    for (const [key, opened] of this.#opened) if (opened === memory) this.#opened.delete(key);
    memory.release();
  }

  /** Gives everything back at once: the driver goes. */
  close(): void {
    for (const memory of this.#allocated) this.release(memory);
    for (const memory of this.#opened.values()) this.unmap(memory);
  }
}
