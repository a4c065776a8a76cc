/**
 * The driver calls that allocate and free device memory and page-locked memory, and that query addresses.
 *
 * @module
 */
import {
  type Driver,
  hostAllocFlag,
  hostRegisterFlag,
  memHandleType,
  memLocationType,
  memoryType,
} from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import type { Stream, Work } from "../execution/streams.ts";
import { checkSharing, fail } from "../failure.ts";
import { refusePlainMemory } from "../memory/host_memory.ts";
import { addressOfOffset, offsetOfAddress, wholePages } from "../memory/memory_layout.ts";
import type { ManagedMemory } from "../memory/managed_memory.ts";
import type { RegisteredMemory } from "../memory/registered_memory.ts";
import type { VirtualMemory } from "../memory/virtual/virtual_memory.ts";
import type { DriverCore } from "./core.ts";
import type { SoftwareGraphMemory } from "./graph_memory.ts";
import type { Pools } from "./pools.ts";
import {
  type FreeableAllocation,
  isHostPoolMemory,
  isManagedMemory,
  isPoolMemory,
  type PoolAllocation,
  type ProgramMemory,
} from "./program_memory.ts";
import type { StreamsAndEvents } from "./streams_and_events.ts";

/** The parts of the driver that the calls in this file use. */
interface AllocationParts {
  readonly core: DriverCore;
  readonly streams: StreamsAndEvents;
  readonly memory: ProgramMemory;
  readonly pools: Pools;
  readonly virtualMemory: VirtualMemory;
  readonly graphMemory: SoftwareGraphMemory;
}

/**
 * The driver calls that allocate and free device memory, and that share device memory which does not belong to a pool.
 */
type DeviceMemoryCalls = Pick<
  Driver,
  | "mallocFromPoolAsync"
  | "freeAsync"
  | "malloc"
  | "free"
  | "ipcGetMemHandle"
  | "ipcOpenMemHandle"
  | "ipcCloseMemHandle"
>;

/**
 * Returns the driver calls that allocate and free device memory, and that share device memory which does not belong to
 * a pool.
 */
export function deviceMemoryCalls({ core, streams, memory, pools, graphMemory }: AllocationParts): DeviceMemoryCalls {
  const { devices, scheduler, legacyMemory } = core;
  const { allocations } = memory;

  /**
   * Returns the allocation that starts at an address. Throws if there is no such allocation, or if `free` and
   * `freeAsync` do not accept it.
   */
  const freeable = (address: bigint, call: string): FreeableAllocation => {
    const found = memory.startingAt(address);
    if (found !== undefined && (isPoolMemory(found) || found.kind === "plain" || found.kind === "managed")) {
      return found;
    }
    return fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  };

  const releaseManaged = (allocation: ManagedMemory): void => {
    memory.managed.delete(allocation);
    allocation.release();
  };

  const enqueueFree = (allocation: FreeableAllocation, stream: Stream): Work => {
    memory.forget(allocation);
    if (allocation.kind === "pool") return allocation.pool.free(allocation, stream);
    if (allocation.kind === "mapped") {
      const { pool, mapping } = allocation;
      pool.mappings.delete(mapping.key);
      return scheduler.enqueue(stream, () => pool.unmap(mapping), { outlivesDevice: true });
    }
    const release = () => allocation.kind === "managed" ? releaseManaged(allocation) : legacyMemory.release(allocation);
    return scheduler.enqueue(stream, release, { outlivesDevice: true });
  };

  return {
    mallocFromPoolAsync(device, byteLength, pool, stream) {
      const call = "cudaMallocFromPoolAsync";
      const target = streams.target(device, stream, call);
      const found = pools.local(pool, call);
      if (byteLength === 0) return 0n;
      if (target.capture !== undefined) {
        const isManagedHere = found.isManaged && found.location.type === memLocationType.device;
        if (found.isManaged && !isManagedHere) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        const device = isManagedHere ? found.location.id : found.device;
        const isOnDevice = device !== undefined;
        if (found.handleTypes !== memHandleType.none || !isOnDevice) fail(cudaErrorNumbers.cudaErrorNotSupported, call);
        const { address, operation } = graphMemory.allocate({
          graph: target.capture.graph,
          device,
          byteLength,
          after: target.capture.dependencies.get(target)!,
        }, call);
        core.submit(target, operation);
        return address;
      }
      const block = found.allocate(byteLength, target);
      if (block === undefined) {
        if (found.isAtLimit(byteLength)) fail(cudaErrorNumbers.cudaErrorMemoryAllocation, call);
        return core.failForMemory(call);
      }
      const { begin } = block;
      const owner = found.device ?? target.device;
      const allocation: PoolAllocation = { kind: "pool", begin, byteLength, device: owner, pool: found, block };
      allocations.add(allocation);
      // Does not mark memory of a host pool as uninitialized: the host may write it before the stream runs the
      // allocation.
      if (found.device !== undefined && memory.isChecked) {
        scheduler.enqueue(target, () => memory.markFresh(allocation));
      }
      return addressOfOffset(begin);
    },
    freeAsync(device, address, stream) {
      const call = "cudaFreeAsync";
      const target = streams.target(device, stream, call);
      if (address === 0n) return;
      if (target.capture !== undefined) {
        core.submit(target, graphMemory.freeOperation(target.capture.graph, address, call));
        return;
      }
      const ofGraph = graphMemory.at(address);
      if (ofGraph !== undefined) {
        if (!ofGraph.isAlive) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        graphMemory.free(ofGraph, target);
        return;
      }
      const found = freeable(address, call);
      if (found.kind === "managed") fail(cudaErrorNumbers.cudaErrorNotSupported, call);
      enqueueFree(found, target);
    },
    malloc(device, byteLength) {
      const call = "cudaMalloc";
      devices.check(device, call);
      if (byteLength === 0) return 0n;
      core.ensureBoundsTable(device, call);
      const allocated = legacyMemory.allocate(device, byteLength);
      if (allocated === undefined) return core.failForMemory(call);
      allocations.add(allocated);
      if (memory.isChecked) memory.markFresh(allocated);
      return addressOfOffset(allocated.begin);
    },
    free(device, address) {
      const call = "cudaFree";
      devices.check(device, call);
      if (address === 0n) return;
      const ofGraph = graphMemory.at(address);
      if (ofGraph !== undefined) {
        core.finishWork(device, call);
        if (!ofGraph.isAlive) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        const freed = graphMemory.free(ofGraph, streams.defaultStream(ofGraph.memory.device));
        scheduler.runUntil(() => freed.done);
        return;
      }
      const found = freeable(address, call);
      core.finishWork(device, call);
      core.finishWork(found.device, call);
      const freed = enqueueFree(found, streams.defaultStream(found.device));
      scheduler.runUntil(() => freed.done);
      pools.reclaim();
    },
    ipcGetMemHandle(device, address) {
      const call = "cudaIpcGetMemHandle";
      devices.check(device, call);
      // The exported handle is for the whole allocation, even if the address points into the middle of it.
      const found = memory.at(address, 1, call);
      const isOfGraph = graphMemory.at(addressOfOffset(found.begin)) !== undefined;
      if (found.kind !== "plain" || isOfGraph) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      memory.export(found);
      return legacyMemory.handleOf(found);
    },
    ipcOpenMemHandle(device, handle) {
      devices.check(device, "cudaIpcOpenMemHandle");
      const opened = legacyMemory.open(device, handle);
      if (opened.openCount === 1) allocations.add(opened);
      return addressOfOffset(opened.begin);
    },
    ipcCloseMemHandle(device, address) {
      const call = "cudaIpcCloseMemHandle";
      devices.check(device, call);
      const found = memory.startingAt(address);
      if (found?.kind !== "opened") fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      if (--found.openCount > 0) return;
      memory.forget(found);
      for (const user of [device, found.device]) scheduler.runUntil(() => scheduler.isIdle(user));
      legacyMemory.unmap(found);
      for (const user of [device, found.device]) core.finishSynchronization(user, call);
    },
  };
}

/** The driver calls that query the allocation to which an address belongs. */
type AddressCalls = Pick<Driver, "memGetAddressRange" | "pointerGetAttributes">;

/** Returns the driver calls that query the allocation to which an address belongs. */
export function addressCalls({ core: { devices }, memory, virtualMemory, graphMemory }: AllocationParts): AddressCalls {
  return {
    memGetAddressRange(device, address) {
      const call = "cuMemGetAddressRange";
      devices.check(device, call);
      const offset = offsetOfAddress(address);
      const found = offset === undefined ? undefined : memory.allocations.containing(offset, 1);
      if (found === undefined || graphMemory.isDormant(found.begin)) {
        fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
      }
      if (found.kind === "virtual") return virtualMemory.rangeAt(found, address);
      const { begin, byteLength } = found;
      if (memory.isAccessible(found, device)) return { base: addressOfOffset(begin), byteLength };
      // If the device has no access to the host pool, CUDA reports the queried address in place of the base address,
      // together with the size of the whole allocation.
      if (isHostPoolMemory(found)) return { base: address, byteLength };
      return fail(cudaErrorNumbers.cudaErrorSymbolNotFound, call);
    },
    pointerGetAttributes(device, address) {
      const call = "cuPointerGetAttribute";
      devices.check(device, call);
      const found = memory.at(address, 1, call);
      if (graphMemory.isDormant(found.begin)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const isHost = found.kind === "locked" || isHostPoolMemory(found);
      return {
        type: isHost ? memoryType.host : memoryType.device,
        device: isHost ? undefined : found.device,
        isManaged: isManagedMemory(found),
        base: addressOfOffset(found.begin),
        byteLength: found.byteLength,
      };
    },
  };
}

const allHostAllocFlags = hostAllocFlag.portable | hostAllocFlag.mapped | hostAllocFlag.writeCombined;
const allHostRegisterFlags = hostRegisterFlag.portable | hostRegisterFlag.mapped | hostRegisterFlag.ioMemory |
  hostRegisterFlag.readOnly;

/** The driver calls that manage host memory. */
type HostMemoryCalls = Pick<
  Driver,
  "hostView" | "hostAlloc" | "hostGetDevicePointer" | "freeHost" | "hostRegister" | "hostUnregister"
>;

/** Returns the driver calls that manage host memory. */
export function hostMemoryCalls({ core, memory }: AllocationParts): HostMemoryCalls {
  const { devices, linearMemory, hostMemory } = core;
  const setReadOnly = ({ begin, byteLength }: RegisteredMemory, isReadOnly: boolean): void => {
    for (let device = 0; device < devices.count; device++) {
      if (isReadOnly) core.ensureBoundsTable(device, "cudaHostRegister");
      else if (!linearMemory.hasReadOnly(device)) continue;
      linearMemory.setReadOnly(device, { begin, end: begin + wholePages(byteLength) }, isReadOnly);
    }
  };
  return {
    hostView(address, byteLength) {
      const call = "cudaPointerGetAttributes";
      const found = memory.at(address, byteLength, call);
      if (!isHostPoolMemory(found) && !isManagedMemory(found)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      checkSharing(call);
      return linearMemory.view(offsetOfAddress(address)!, byteLength);
    },
    hostAlloc(byteLength, flags = 0) {
      const call = "cudaHostAlloc";
      devices.checkAlive(call);
      if ((flags & ~allHostAllocFlags) !== 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      if (byteLength === 0) return { buffer: new ArrayBuffer(0), address: 0n };
      const allocated = hostMemory.allocate(byteLength);
      if (allocated === undefined) return core.failForMemory(call);
      if (allocated instanceof ArrayBuffer) return { buffer: allocated, address: core.newHandle() };
      memory.allocations.add(allocated);
      return { buffer: allocated.buffer, address: addressOfOffset(allocated.begin) };
    },
    hostGetDevicePointer({ address }) {
      const offset = offsetOfAddress(address);
      if (offset !== undefined && memory.allocations.at(offset)?.kind === "locked") return address;
      return refusePlainMemory("cudaHostGetDevicePointer");
    },
    freeHost({ address, buffer }) {
      const call = "cudaFreeHost";
      devices.checkAlive(call);
      if (address === 0n) return;
      if (!hostMemory.has(buffer)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      // Finishes the work of all devices, because pending work of any device may use the memory.
      for (let device = 0; device < devices.count; device++) core.finishWork(device, call);
      const freed = hostMemory.free(buffer);
      if (freed !== undefined) memory.forget(freed);
    },
    hostRegister(bytes, flags) {
      const call = "cudaHostRegister";
      devices.checkAlive(call);
      const { cudaErrorInvalidValue, cudaErrorHostMemoryAlreadyRegistered } = cudaErrorNumbers;
      if (bytes.byteLength === 0 || (flags & ~allHostRegisterFlags) !== 0) fail(cudaErrorInvalidValue, call);
      const registered = hostMemory.register(bytes);
      if (registered === "registered") return fail(cudaErrorHostMemoryAlreadyRegistered, call);
      if (registered === "allocated") return fail(cudaErrorInvalidValue, call);
      if (registered === "full") return core.failForMemory(call);
      memory.allocations.add(registered);
      if ((flags & hostRegisterFlag.readOnly) !== 0) setReadOnly(registered, true);
      core.onRegisteredMemoryChanged();
      return addressOfOffset(registered.begin);
    },
    hostUnregister(address) {
      const call = "cudaHostUnregister";
      devices.checkAlive(call);
      const offset = offsetOfAddress(address);
      const registered = offset === undefined ? undefined : hostMemory.registered.get(offset);
      if (registered === undefined) {
        // CUDA knows the address, but not as the begin of registered memory.
        const isKnown = address === 0n ||
          offset !== undefined && memory.allocations.containing(offset, 1) !== undefined;
        const { cudaErrorInvalidValue, cudaErrorHostMemoryNotRegistered } = cudaErrorNumbers;
        return fail(isKnown ? cudaErrorInvalidValue : cudaErrorHostMemoryNotRegistered, call);
      }
      // As `freeHost`.
      for (let device = 0; device < devices.count; device++) core.finishWork(device, call);
      setReadOnly(registered, false);
      hostMemory.unregister(registered);
      memory.forget(registered);
      core.onRegisteredMemoryChanged();
    },
  };
}
