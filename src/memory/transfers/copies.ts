/**
 * Copies between device memory and other memory, of ranges that have been checked.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";
import { countOf } from "../../support/printing.ts";
import type { Allocation } from "../allocation.ts";
import type { Access } from "../pools/pool_access.ts";

/** Where a copy or a fill starts. */
export interface CopyOptions {
  /** Offset in bytes into the buffer whose method is called, never into the other buffer. Defaults to 0. */
  byteOffset?: number;
}

/** A place in an allocation. */
export interface Place {
  readonly allocation: Allocation;
  readonly address: bigint;
}

/** Size of the largest copy whose bytes CUDA captures at once, however busy the stream is. */
const maximumAtOnceByteLength = 64 * 2 ** 10;

/**
 * Enqueues a copy from host memory. Pageable memory has been captured when this returns. It is copied through
 * page-locked memory if CUDA would read it later, or would first wait for earlier work of the stream.
 */
export function copyFromHost({ allocation, address }: Place, bytes: Uint8Array, stream: CudaStream): void {
  const isReadLater = allocation.session.uploads.readsPageableMemory(stream.device);
  // The fast path, small so that engines inline it.
  if (isReadLater || bytes.byteLength > maximumAtOnceByteLength) {
    return stageUnlessReadInPlace(allocation, address, bytes, stream);
  }
  const { ordinal } = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyHtoDAsync(ordinal, address, bytes, stream.unsafeHandle);
  allocation.noteUse(stream);
}

function stageUnlessReadInPlace(allocation: Allocation, address: bigint, bytes: Uint8Array, stream: CudaStream): void {
  const { session } = allocation;
  const target = { allocation, address };
  if (isReadInPlace(target, bytes) || !session.uploads.readsPageableMemory(stream.device) && isIdle(stream, session)) {
    enqueueFromHost(target, bytes, stream);
  } else {
    session.uploads.copy(target, bytes, stream);
  }
}

/**
 * Whether a copy is never staged: page-locked memory is read in the stream's order, and a copy to a host pool is made by
 * the host before the call returns.
 */
function isReadInPlace({ allocation }: Place, { buffer }: Uint8Array): boolean {
  // Host memory of somebody else may not be a pool's.
  const { isHostMemory, isForeign } = allocation.owner;
  return (isHostMemory === true && isForeign !== true) || allocation.session.isPageLocked(buffer);
}

/** Whether a stream has no work to wait for: neither its own, nor that of streams that it may be a barrier for. */
function isIdle(stream: CudaStream, { driver }: Session): boolean {
  const { ordinal, defaultStream } = stream.device;
  return driver.streamQuery(ordinal, stream.unsafeHandle, { peek: true }) &&
    (stream === defaultStream || driver.streamQuery(ordinal, defaultStream.unsafeHandle, { peek: true }));
}

/** Enqueues a copy from host memory as CUDA makes it. */
export function enqueueFromHost({ allocation, address }: Place, bytes: Uint8Array, stream: CudaStream): void {
  const { ordinal } = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyHtoDAsync(ordinal, address, bytes, stream.unsafeHandle);
  allocation.noteUse(stream);
}

/** Enqueues a copy to host memory. */
export function copyToHost({ allocation, address }: Place, bytes: Uint8Array, stream: CudaStream): void {
  const { ordinal } = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyDtoHAsync(ordinal, bytes, address, stream.unsafeHandle);
  allocation.noteUse(stream);
}

/** Enqueues a copy between two allocations, on any devices or in host pools. */
export function copyBetween(
  source: Place,
  target: Place,
  { byteLength, stream }: { byteLength: number; stream: CudaStream },
): void {
  if (source.allocation === target.allocation) checkOverlap(source, target, byteLength);
  else if (canShare(source.allocation) || canShare(target.allocation)) {
    checkSharedOverlap(source, target, byteLength);
  }
  const { driver } = source.allocation.session;
  const handle = stream.unsafeHandle;
  if (source.allocation.owner.isHostMemory || target.allocation.owner.isHostMemory) {
    const onDevice = source.allocation.owner.isHostMemory ? target : source;
    const { ordinal } = deviceForHostCopy(onDevice.allocation, stream);
    driver.memcpyAsync(ordinal, target.address, source.address, byteLength, handle);
  } else {
    const [from, to] = [source.allocation.device.ordinal, target.allocation.device.ordinal];
    driver.memcpyPeerAsync(stream.device.ordinal, target.address, to, source.address, from, byteLength, handle);
  }
  source.allocation.noteUse(stream);
  target.allocation.noteUse(stream);
}

/** Throws if the ranges of a copy within one allocation overlap, for which CUDA defines no result. */
function checkOverlap({ allocation, address: from }: Place, { address: to }: Place, byteLength: number): void {
  const distance = Number(to - from);
  if (Math.abs(distance) >= byteLength) return;
  const [first, last] = [from, to].map((address) => {
    const begin = Number(address - allocation.address);
    return `${begin} to ${begin + byteLength}`;
  });
  throw new RangeError(
    `Cannot copy bytes ${first} of a buffer to its bytes ${last}: they overlap; copy through another buffer`,
  );
}

/** Whether other allocations can be of the same memory: it was wrapped, or is mapped in an address range. */
function canShare({ owner }: Allocation): boolean {
  return owner.isForeign === true || owner.accessOf !== undefined;
}

/** Throws if the ranges of a copy overlap although they are of two allocations. */
function checkSharedOverlap({ address: from }: Place, { address: to }: Place, byteLength: number): void {
  const distance = Number(to - from);
  if (Math.abs(distance) >= byteLength) return;
  throw new RangeError(
    `Cannot copy ${countOf(byteLength, "byte")} from 0x${from.toString(16)} to 0x${to.toString(16)}: they overlap, ` +
      "because the buffers have the same memory; copy through another buffer",
  );
}

/**
 * The device to make current for a copy to or from the host: the allocation's own, with which a stream of another device
 * needs no access to the memory. For a default stream it is the stream's device, because its handle means the default
 * stream of the current device.
 */
export function deviceForHostCopy(allocation: Allocation, stream: CudaStream): CudaDevice {
  if (stream === stream.device.defaultStream) return stream.device;
  if (allocation.owner.accessOf !== undefined) {
    return deviceWithMoreAccess(allocation.owner.accessOf, allocation, stream);
  }
  return allocation.device;
}

/** The device with more access to memory of an address range, to which no device has access by itself. */
function deviceWithMoreAccess(
  accessOf: (device: CudaDevice) => Access,
  { device }: Allocation,
  stream: CudaStream,
): CudaDevice {
  const [own, other] = [accessOf(device), accessOf(stream.device)];
  const isOwn = other === "none" || (other === "read" && own === "read-write");
  return isOwn ? device : stream.device;
}
