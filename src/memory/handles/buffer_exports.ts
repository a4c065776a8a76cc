/**
 * The bytes that a buffer exports, by which another process maps its memory.
 *
 * @module
 */
import { cannot } from "../../support/driver_errors.ts";
import type { Allocation } from "../allocation.ts";
import type { DeviceBuffer } from "../device_buffer.ts";

/** Returns the export data of a buffer from a pool. `isPart` says whether the buffer is part of another one. */
export function exportPointerOf(
  buffer: DeviceBuffer,
  allocation: Allocation,
  isPart: boolean,
): Uint8Array<ArrayBuffer> {
  checkIsOurs(buffer, allocation);
  checkIsWhole(buffer, allocation, isPart);
  checkIsNotMapped(allocation, "pointer");
  if (allocation.pool === undefined) {
    throw new TypeError(
      "Cannot export a pointer to memory that is not from a pool: allocate it from one, or use exportHandle",
    );
  }
  return allocation.exportPointer();
}

/** Returns the legacy handle of a buffer that is not from a pool. `isPart` says whether it is part of another one. */
export function exportHandleOf(buffer: DeviceBuffer, allocation: Allocation, isPart: boolean): Uint8Array<ArrayBuffer> {
  checkIsOurs(buffer, allocation);
  const { exportHandle } = allocation.owner;
  checkIsNotMapped(allocation, "handle");
  if (exportHandle === undefined) {
    throw new TypeError(
      "Cannot export a handle to this memory: only memory from CudaDevice.allocate has one; use exportPointer for " +
        "memory of a pool",
    );
  }
  checkIsWhole(buffer, allocation, isPart);
  try {
    return exportHandle(buffer.address);
  } catch (error) {
    throw cannot(`export the memory on device ${allocation.device.ordinal}`, error);
  }
}

/** Throws if the memory is virtual memory, which is shared by descriptors. */
function checkIsNotMapped({ owner }: Allocation, what: string): void {
  if (owner.accessOf === undefined) return;
  const hint = owner.physical === undefined
    ? "it is mapped in an address range; use exportHandle of the PhysicalMemory that is mapped"
    : "it is shared by a descriptor; offer it with an Exporter, or create it with createMemory to export it yourself";
  throw new TypeError(`Cannot export a ${what} to this memory: ${hint}`);
}

/** Throws if a buffer wraps memory that somebody else owns. */
export function checkIsOurs(buffer: DeviceBuffer, { owner }: Allocation): void {
  if (!owner.isForeign) return;
  // If the buffer was freed, throws that error instead.
  void buffer.address;
  throw new TypeError(
    "Cannot export the buffer: it wraps memory that somebody else owns, who alone can export it; copy it to a buffer " +
      "of a pool that can be shared",
  );
}

function checkIsWhole(buffer: DeviceBuffer, { owner }: Allocation, isPart: boolean): void {
  if (owner.part !== undefined) {
    // If the buffer was freed, throws that error instead.
    void buffer.address;
    throw new TypeError(
      "Cannot export the buffer: it is a part of a slab; offer it with an Exporter, or export the slab that its " +
        "allocator's slabOf returns, and send the offset with it",
    );
  }
  if (!isPart) return;
  throw new TypeError(
    "Cannot export a part of a buffer: export the whole buffer, and send the part's offset with it",
  );
}
