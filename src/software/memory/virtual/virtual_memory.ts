/**
 * CUDA's virtual memory management: memory without addresses, reserved addresses, and mappings of memory to addresses.
 *
 * @module
 */
import {
  allocationGranularity,
  type Driver,
  type MemAccessDesc,
  memAccessFlags,
  type MemAllocationProps,
  memHandleType,
  type MemLocation,
  memLocationType,
  type OsHandle,
} from "../../../driver.ts";
import { cudaErrorNumbers } from "../../../support/errors.ts";
import { checkSharing, fail, failBecause, translateSystemErrors } from "../../failure.ts";
import type { VisibleDevices } from "../../visible_devices.ts";
import { type Fabric, noDescriptor } from "../fabric.ts";
import type { LinearMemory } from "../linear_memory.ts";
import { addressOfOffset, linearMemoryByteLength, offsetOfAddress } from "../memory_layout.ts";
import type { Range } from "../allocations.ts";
import { SharedFile } from "../shared_file.ts";
import { AddressSpace, type RunListener, virtualGranularity, type VirtualRun } from "./address_space.ts";
import { SoftwareMemory } from "./physical_memory.ts";

const {
  cudaErrorInvalidDevice,
  cudaErrorInvalidValue,
  cudaErrorMemoryAllocation,
  cudaErrorNotPermitted,
  cudaErrorNotSupported,
} = cudaErrorNumbers;
const { posixFileDescriptor, fabric } = memHandleType;

/** The parts of the driver that virtual memory uses. */
export interface VirtualMemoryParts extends RunListener {
  readonly linearMemory: LinearMemory;
  readonly devices: VisibleDevices;
  readonly fabric: Fabric;
  newHandle(): bigint;
}

/** The driver calls that manage virtual memory. */
type VirtualMemoryCalls = Pick<
  Driver,
  | "memGetAllocationGranularity"
  | "memCreate"
  | "memRelease"
  | "memExportToShareableHandle"
  | "memImportFromShareableHandle"
  | "memGetAllocationPropertiesFromHandle"
  | "memAddressReserve"
  | "memAddressFree"
  | "memMap"
  | "memUnmap"
  | "memSetAccess"
  | "memGetAccess"
>;

/** The virtual memory of a driver. */
export class VirtualMemory {
  readonly #parts: VirtualMemoryParts;
  readonly #space: AddressSpace;
  readonly #memories = new Map<bigint, SoftwareMemory>();

  constructor(parts: VirtualMemoryParts) {
    this.#parts = parts;
    this.#space = new AddressSpace(parts.linearMemory, parts);
  }

  /** Returns the driver calls that manage virtual memory. */
  calls(): VirtualMemoryCalls {
    return {
      memGetAllocationGranularity: (_props, option) => this.#granularity(option),
      memCreate: (props, byteLength) => this.#create(props, byteLength),
      memRelease: (memory) => this.#release(memory),
      memExportToShareableHandle: (memory, handleType) => this.#export(memory, handleType),
      memImportFromShareableHandle: (handle, handleType) => this.#import(handle, handleType),
      memGetAllocationPropertiesFromHandle: (memory) => this.#propsOf(memory),
      memAddressReserve: (byteLength, alignment) => this.#reserve(byteLength, alignment),
      memAddressFree: (address, byteLength) => this.#free(address, byteLength),
      memMap: (address, byteLength, memory) => this.#map(address, byteLength, memory),
      memUnmap: (address, byteLength) => this.#unmap(address, byteLength),
      memSetAccess: (address, byteLength, descriptions) => this.#setAccess(address, byteLength, descriptions),
      memGetAccess: (address, location) => this.#getAccess(address, location),
    };
  }

  /**
   * Returns the granularity of virtual memory, which is the same for all allocation properties. Like CUDA, does not
   * check the properties in this call.
   */
  #granularity(option: number): number {
    const isKnown = Object.values<number>(allocationGranularity).includes(option);
    return isKnown ? virtualGranularity : fail(cudaErrorInvalidValue, "cuMemGetAllocationGranularity");
  }

  #create(props: MemAllocationProps, byteLength: number): bigint {
    const call = "cuMemCreate";
    const { devices, fabric: ownFabric } = this.#parts;
    const { handleTypes, location: { type, id: device } } = props;
    if ((handleTypes & ~(posixFileDescriptor | fabric)) !== 0) fail(cudaErrorInvalidValue, call);
    if (type !== memLocationType.device) fail(cudaErrorInvalidValue, call);
    devices.checkOrdinal(device, call);
    const isInFabric = (handleTypes & fabric) !== 0;
    // Check the fabric first: CUDA, too, reports a missing IMEX channel before errors in later arguments.
    if (isInFabric && ownFabric.refusal !== undefined) failBecause(cudaErrorNotPermitted, call, ownFabric.refusal);
    if (!isWhole(byteLength)) fail(cudaErrorInvalidValue, call);
    if (byteLength > linearMemoryByteLength) fail(cudaErrorMemoryAllocation, call);
    checkSharing(call);
    if (isInFabric) {
      const header = { deviceUuid: devices.uuid(device), handleTypes, byteLength };
      const memory = SoftwareMemory.createIn({ fabric: ownFabric, call }, device, header);
      return typeof memory === "string" ? failBecause(cudaErrorNotPermitted, call, memory) : this.#add(memory);
    }
    const memory = translateSystemErrors(call, () => {
      return SoftwareMemory.create(device, { deviceUuid: devices.uuid(device), handleTypes, byteLength });
    });
    return this.#add(memory);
  }

  #release(handle: bigint): void {
    const memory = this.#memory(handle, "cuMemRelease");
    this.#memories.delete(handle);
    memory.release();
  }

  #export(handle: bigint, handleType: number): OsHandle {
    const call = "cuMemExportToShareableHandle";
    const memory = this.#memory(handle, call);
    const isKnown = handleType === posixFileDescriptor || handleType === fabric;
    if (!isKnown || (memory.handleTypes & handleType) === 0) fail(cudaErrorInvalidValue, call);
    if (handleType === posixFileDescriptor && (memory.handleTypes & fabric) !== 0) {
      failBecause(cudaErrorNotSupported, call, noDescriptor);
    }
    return translateSystemErrors(call, () => memory.export());
  }

  #import(handle: OsHandle, handleType: number): bigint {
    const call = "cuMemImportFromShareableHandle";
    const { devices, fabric: ownFabric } = this.#parts;
    const isFabric = handleType === fabric;
    if ((!isFabric && handleType !== posixFileDescriptor) || isFabric !== (typeof handle !== "number")) {
      fail(cudaErrorInvalidValue, call);
    }
    const findDevice = (uuid: Uint8Array) => devices.find(uuid);
    const memory = translateSystemErrors(call, () => {
      return typeof handle === "number"
        ? SoftwareMemory.open(handle, findDevice)
        : SoftwareMemory.openIn(ownFabric.open("memory", handle, call).file, findDevice);
    });
    if (memory === "no device") fail(cudaErrorInvalidDevice, call);
    if (memory === "no memory") {
      if (typeof handle !== "number") fail(cudaErrorInvalidValue, call);
      fail(SharedFile.isPoolFile(handle) ? cudaErrorNotSupported : cudaErrorNumbers.cudaErrorUnknown, call);
    }
    return this.#add(memory);
  }

  #propsOf(handle: bigint): MemAllocationProps {
    const { device, handleTypes } = this.#memory(handle, "cuMemGetAllocationPropertiesFromHandle");
    return { handleTypes, location: { type: memLocationType.device, id: device } };
  }

  #reserve(byteLength: number, alignment: number): bigint {
    const call = "cuMemAddressReserve";
    if (!isWhole(byteLength)) fail(cudaErrorInvalidValue, call);
    if ((alignment & (alignment - 1)) !== 0) fail(cudaErrorInvalidValue, call);
    const begin = byteLength > linearMemoryByteLength
      ? undefined
      : this.#space.reserve(byteLength, Math.max(alignment, virtualGranularity));
    return addressOfOffset(begin ?? fail(cudaErrorMemoryAllocation, call));
  }

  #free(address: bigint, byteLength: number): void {
    const range = rangeOf(address, byteLength);
    if (range === undefined || !this.#space.free(range)) fail(cudaErrorInvalidValue, "cuMemAddressFree");
  }

  #map(address: bigint, byteLength: number, handle: bigint): void {
    const call = "cuMemMap";
    const memory = this.#memory(handle, call);
    const range = rangeOf(address, byteLength);
    if (range === undefined) fail(cudaErrorInvalidValue, call);
    if (byteLength !== memory.byteLength) fail(cudaErrorNotSupported, call);
    if (!this.#space.isFree(range)) fail(cudaErrorInvalidValue, call);
    if (!this.#parts.linearMemory.ensureBoundsTable(memory.device)) fail(cudaErrorMemoryAllocation, call);
    if (!this.#space.map(range.begin, memory)) fail(cudaErrorMemoryAllocation, call);
  }

  #unmap(address: bigint, byteLength: number): void {
    const range = rangeOf(address, byteLength);
    const mappings = range && this.#space.mappingsWithin(range);
    if (mappings === undefined) fail(cudaErrorInvalidValue, "cuMemUnmap");
    this.#space.unmap(mappings);
  }

  #setAccess(address: bigint, byteLength: number, descriptions: readonly MemAccessDesc[]): void {
    const call = "cuMemSetAccess";
    const mappings = this.#mappingsIn(address, byteLength, call);
    const { devices, linearMemory } = this.#parts;
    if (descriptions.length === 0) fail(cudaErrorInvalidValue, call);
    for (const { location: { type, id }, flags } of descriptions) {
      if (!Object.values<number>(memAccessFlags).includes(flags)) fail(cudaErrorInvalidValue, call);
      if (type === memLocationType.host) fail(cudaErrorNotSupported, call);
      const isDevice = type === memLocationType.device && id >= 0 && id < devices.count;
      if (!isDevice) fail(cudaErrorInvalidValue, call);
      if (!devices.arePeers && mappings.some(({ memory }) => memory.device !== id)) fail(cudaErrorInvalidDevice, call);
      if (!linearMemory.ensureBoundsTable(id)) fail(cudaErrorMemoryAllocation, call);
    }
    for (const { location: { id }, flags } of descriptions) this.#space.setAccess(mappings, id, flags);
  }

  #getAccess(address: bigint, { type, id }: MemLocation): number {
    const call = "cuMemGetAccess";
    const offset = offsetOfAddress(address);
    const mapping = offset === undefined ? undefined : this.#space.mappingAt(offset);
    if (mapping === undefined) fail(cudaErrorInvalidValue, call);
    // As in CUDA, reports that the host has access, although it has none.
    if (type === memLocationType.host) return memAccessFlags.readWrite;
    if (type !== memLocationType.device) fail(cudaErrorInvalidDevice, call);
    this.#parts.devices.checkOrdinal(id, call);
    return mapping.access.get(id) ?? memAccessFlags.none;
  }

  /** Returns the range of the mapping that contains an address within a run. */
  rangeAt(run: VirtualRun, address: bigint): { readonly base: bigint; readonly byteLength: number } {
    const { begin, end } = this.#space.mappingAt(offsetOfAddress(address)!) ?? { begin: run.begin, end: run.begin };
    return { base: addressOfOffset(begin), byteLength: end - begin };
  }

  /** Releases all mappings, address ranges and physical memory when the driver closes. */
  close(): void {
    this.#space.close();
    for (const memory of this.#memories.values()) memory.release();
    this.#memories.clear();
  }

  #add(memory: SoftwareMemory): bigint {
    const handle = this.#parts.newHandle();
    this.#memories.set(handle, memory);
    return handle;
  }

  #memory(handle: bigint, call: string): SoftwareMemory {
    return this.#memories.get(handle) ?? fail(cudaErrorInvalidValue, call);
  }

  #mappingsIn(address: bigint, byteLength: number, call: string): ReturnType<AddressSpace["mappingsIn"]> & object {
    const range = rangeOf(address, byteLength);
    return (range && this.#space.mappingsIn(range)) ?? fail(cudaErrorInvalidValue, call);
  }
}

function isWhole(byteLength: number): boolean {
  return byteLength > 0 && byteLength % virtualGranularity === 0;
}

/**
 * Returns the range of offsets for a range of addresses. Returns undefined if the range is not aligned or lies outside
 * of linear memory.
 */
function rangeOf(address: bigint, byteLength: number): Range | undefined {
  const begin = offsetOfAddress(address);
  if (begin === undefined || begin % virtualGranularity !== 0 || !isWhole(byteLength)) return undefined;
  return { begin, end: begin + byteLength };
}
