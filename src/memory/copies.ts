/**
 * Copies between device memory and other memory, of ranges that have been checked.
 *
 * @module
 */
import type { CudaStream } from "../objects/cuda_stream.ts";
import type { Allocation } from "./allocation.ts";

/** A place in an allocation. */
export interface Place {
  readonly allocation: Allocation;
  readonly address: bigint;
}

/** Enqueues a copy from host memory. */
export function copyFromHost({ allocation, address }: Place, bytes: Uint8Array, stream: CudaStream): void {
  const device = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyHtoDAsync(device, address, bytes, stream.unsafeHandle);
  allocation.noteUse(stream);
}

/** Enqueues a copy to host memory. */
export function copyToHost({ allocation, address }: Place, bytes: Uint8Array, stream: CudaStream): void {
  const device = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyDtoHAsync(device, bytes, address, stream.unsafeHandle);
  allocation.noteUse(stream);
}

/** Enqueues a copy between two allocations, on any devices or in host pools. */
export function copyBetween(
  source: Place,
  target: Place,
  { byteLength, stream }: { byteLength: number; stream: CudaStream },
): void {
  const { driver } = source.allocation.session;
  const handle = stream.unsafeHandle;
  if (source.allocation.owner.isHostMemory || target.allocation.owner.isHostMemory) {
    const onDevice = source.allocation.owner.isHostMemory ? target : source;
    const device = deviceForHostCopy(onDevice.allocation, stream);
    driver.memcpyAsync(device, target.address, source.address, byteLength, handle);
  } else {
    const [from, to] = [source.allocation.device.ordinal, target.allocation.device.ordinal];
    driver.memcpyPeerAsync(stream.device.ordinal, target.address, to, source.address, from, byteLength, handle);
  }
  source.allocation.noteUse(stream);
  target.allocation.noteUse(stream);
}

/**
 * The device to make current for a copy to or from the host: the allocation's own, which needs no access rights to its
 * memory. For a default stream it is the stream's device, because its handle means the default stream of the current
 * device.
 */
function deviceForHostCopy(allocation: Allocation, stream: CudaStream): number {
  return stream === stream.device.defaultStream ? stream.device.ordinal : allocation.device.ordinal;
}
