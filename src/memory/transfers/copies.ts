/**
 * Copies between device memory, host memory and devices, fills of ranges that have been checked, and the advice on a
 * copy or a fill that the driver refuses.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";
import { countOf } from "../../support/printing.ts";
import type { Allocation } from "../allocation.ts";
import type { Access } from "../pools/pool_attributes.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { checkByteLength, checkNumber, type KnownOptions } from "../../support/validation.ts";
import type { ElementBits } from "./elements.ts";

/** Where a copy or a fill starts. */
export interface CopyOptions {
  /** Offset in bytes into the buffer whose method is called, never into the other buffer. Defaults to 0. */
  byteOffset?: number;
}

/** A place in an allocation. */
export interface CopyPlace {
  readonly allocation: Allocation;
  readonly address: bigint;
}

/** Size of the largest copy whose bytes CUDA captures at once, however busy the stream is. */
const maximumAtOnceByteLength = 64 * 2 ** 10;

/**
 * Enqueues a copy from host memory. Pageable memory has been captured when this returns. It is copied through
 * page-locked memory if CUDA would read it later, or would first wait for earlier work of the stream.
 */
export function copyFromHost({ allocation, address }: CopyPlace, bytes: Uint8Array, stream: CudaStream): void {
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
function isReadInPlace({ allocation }: CopyPlace, { buffer }: Uint8Array): boolean {
  // Host memory that was not allocated here may not be a pool's.
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
export function enqueueFromHost({ allocation, address }: CopyPlace, bytes: Uint8Array, stream: CudaStream): void {
  const { ordinal } = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyHtoDAsync(ordinal, address, bytes, stream.unsafeHandle);
  allocation.noteUse(stream);
}

/** Enqueues a copy to host memory. */
export function copyToHost({ allocation, address }: CopyPlace, bytes: Uint8Array, stream: CudaStream): void {
  const { ordinal } = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyDtoHAsync(ordinal, bytes, address, stream.unsafeHandle);
  allocation.noteUse(stream);
}

/** Enqueues a copy between two allocations, on any devices or in host pools. */
export function copyBetween(
  source: CopyPlace,
  target: CopyPlace,
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
function checkOverlap({ allocation, address: from }: CopyPlace, { address: to }: CopyPlace, byteLength: number): void {
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
function checkSharedOverlap({ address: from }: CopyPlace, { address: to }: CopyPlace, byteLength: number): void {
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
function deviceForHostCopy(allocation: Allocation, stream: CudaStream): CudaDevice {
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

/** The ends of a copy, of which one is the buffer whose method was called. Host memory of no pool is left out. */
export interface CopyEnds {
  readonly buffer: Allocation;
  readonly source?: Allocation;
  readonly target?: Allocation;
}

/** Memory that work reads or writes. */
interface UsedMemory {
  readonly allocation: Allocation;
  /** What a message calls it. */
  readonly name: string;
  readonly isWritten: boolean;
}

/** The error for a fill that cannot be enqueued. `what` is its first words: "fill 4 bytes of". */
export function refusedFill(what: string, error: unknown, allocation: Allocation, stream: CudaStream): unknown {
  const filled = { allocation, name: "it", isWritten: true };
  return refusal(what, error, { buffer: allocation, used: [filled], deviceOf: () => stream.device, stream });
}

/** The error for a copy that cannot be enqueued. `what` is its first words: "copy 4 bytes to". */
export function refusedCopy(
  what: string,
  error: unknown,
  { buffer, source, target }: CopyEnds,
  stream: CudaStream,
): unknown {
  const used: UsedMemory[] = [];
  if (target !== undefined) {
    used.push({ allocation: target, name: target === buffer ? "it" : "the target", isWritten: true });
  }
  if (source !== undefined) {
    used.push({ allocation: source, name: source === buffer ? "it" : "the source", isWritten: false });
  }
  // Memory of a host pool needs no access, and the other end of the copy is used as in one to or from the host.
  const onDevices = used.filter(({ allocation }) => allocation.owner.isHostMemory !== true);
  const deviceOf = onDevices.length === 2
    ? ({ device }: Allocation) => device
    : (allocation: Allocation) => deviceForHostCopy(allocation, stream);
  return refusal(what, error, { buffer, used: onDevices, deviceOf, stream });
}

function refusal(
  what: string,
  error: unknown,
  { buffer, used, deviceOf, stream }: {
    readonly buffer: Allocation;
    readonly used: readonly UsedMemory[];
    /** The device that uses an allocation. */
    readonly deviceOf: (allocation: Allocation) => CudaDevice;
    readonly stream: CudaStream;
  },
): unknown {
  const isInvalid = error instanceof CudaError && error.code === "cudaErrorInvalidValue";
  const hint = !isInvalid ? undefined : mappingHint(used, deviceOf, stream) ??
    mappingHint(used, () => stream.device, stream) ?? peerHint(used, deviceOf, stream);
  return cannot(`${what} the buffer on device ${buffer.device.ordinal}`, error, hint);
}

/** Advice for memory of an address range that is mapped without the access that is needed. */
function mappingHint(
  used: readonly UsedMemory[],
  deviceOf: (allocation: Allocation) => CudaDevice,
  stream: CudaStream,
): string | undefined {
  for (const { allocation, name, isWritten } of used) {
    const device = deviceOf(allocation);
    const access = allocation.owner.accessOf?.(device);
    if (access === "none") {
      const which = device === stream.device ? `device ${device.ordinal} of the stream` : `device ${device.ordinal}`;
      return `${which} has no access to ${name}; call setAccess of its address range`;
    }
    if (access === "read" && isWritten) {
      return `${name} is mapped with access "read"; map it with "read-write" (from a store with { write: true }), or call setAccess of its address range`;
    }
  }
  return undefined;
}

/** Advice for memory to which a stream's device needs access: that of a fill, and of a copy on a default stream. */
function peerHint(
  used: readonly UsedMemory[],
  deviceOf: (allocation: Allocation) => CudaDevice,
  stream: CudaStream,
): string | undefined {
  const found = used.find(({ allocation }) =>
    allocation.owner.accessOf === undefined && deviceOf(allocation) !== allocation.device
  );
  if (found === undefined) return undefined;
  const { allocation: { pool, device }, name } = found;
  const { ordinal } = stream.device;
  const access = pool === undefined
    ? `call enablePeerAccess on device ${ordinal}`
    : `call the pool's setAccess for device ${ordinal}`;
  const memory = name === "it" ? "the memory" : name;
  return `the stream is one of device ${ordinal}, which needs access to ${memory}: ${access}, or use a stream of ` +
    `device ${device.ordinal}`;
}

/**
 * The number of elements of 64 bits that are set before they are copied. A GPU sets them in 10 us; it copies 700 times as
 * fast as it sets them.
 */
const elementsToCopy = 4096;

/** What part of a buffer or an array a fill sets. Defaults to all of it. */
export interface FillOptions extends CopyOptions {
  /** Number of bytes to set. Defaults to the rest of the buffer. Whole elements in an array. */
  byteLength?: number;
  /** Index of the first element to set. For arrays only. Defaults to 0. */
  begin?: number;
  /** Index after the last element to set. For arrays only. Defaults to the array's length. */
  end?: number;
}

/** The names of {@linkcode FillOptions}. */
export const fillOptions: KnownOptions<FillOptions> = {
  action: "fill a buffer",
  names: { byteOffset: true, byteLength: true, begin: true, end: true },
};

/** The bytes that a fill of an array sets. Throws unless they are whole elements of the array. */
export function fillRangeOf(
  options: FillOptions,
  { length, size }: { length: number; size: number },
): { byteOffset: number; byteLength: number } {
  const { begin, end, byteOffset, byteLength } = options;
  if (byteOffset === undefined && byteLength === undefined) {
    // Not by `??`, which would take null for a number.
    const { begin: first = 0, end: last = length } = options;
    checkNumber(first, "the begin of a fill");
    checkNumber(last, "the end of a fill");
    checkElements(first, last, length);
    return { byteOffset: first * size, byteLength: (last - first) * size };
  }
  if (begin !== undefined || end !== undefined) {
    throw new TypeError(
      "Cannot fill a range given in elements and in bytes: give begin and end, or byteOffset and byteLength",
    );
  }
  const { byteOffset: offset = 0 } = options;
  checkByteLength(offset, "a byteOffset");
  const { byteLength: filled = length * size - offset } = options;
  if (byteLength !== undefined) checkByteLength(filled, "the byteLength to fill");
  if (offset % size !== 0 || filled % size !== 0) {
    throw new RangeError(
      `Cannot fill ${filled} bytes from byte ${offset} of an array: its elements have ${size} bytes; give begin and ` +
        "end, which count elements",
    );
  }
  checkElements(offset / size, (offset + filled) / size, length);
  return { byteOffset: offset, byteLength: filled };
}

function checkElements(begin: number, end: number, length: number): void {
  if (Number.isInteger(begin) && Number.isInteger(end) && begin >= 0 && begin <= end && end <= length) return;
  throw new RangeError(`Cannot fill elements ${begin} to ${end} of an array: it has ${length}`);
}

/** Enqueues a fill with elements. `byteLength` is a multiple of their size, and so is the address. */
export function fillElements(
  place: CopyPlace,
  { low, high }: ElementBits,
  { size, byteLength, stream }: { size: number; byteLength: number; stream: CudaStream },
): void {
  const { allocation, address } = place;
  const { driver } = allocation.session;
  const { unsafeHandle, device: { ordinal } } = stream;
  const count = byteLength / size;
  try {
    if (size === 1) driver.memsetAsync(ordinal, address, low, count, unsafeHandle);
    else if (size === 2) driver.memsetD16Async(ordinal, address, low, count, unsafeHandle);
    else if (high === undefined) driver.memsetD32Async(ordinal, address, low, count, unsafeHandle);
    else if (high === low) driver.memsetD32Async(ordinal, address, low, 2 * count, unsafeHandle);
    else {
      // CUDA sets at most 32 bits: each half is a column of a matrix of words.
      const height = Math.min(count, elementsToCopy);
      driver.memsetD2D32Async(ordinal, address, size, low, 1, height, unsafeHandle);
      driver.memsetD2D32Async(ordinal, address + 4n, size, high, 1, height, unsafeHandle);
      repeat(place, { filled: size * height, byteLength, stream });
    }
    allocation.noteUse(stream);
  } catch (error) {
    throw refusedFill(`fill ${byteLength} bytes of`, error, allocation, stream);
  }
}

/** Copies the first bytes of a range behind themselves until the range is full, twice as many each time. */
function repeat(
  source: CopyPlace,
  { filled, byteLength, stream }: { filled: number; byteLength: number; stream: CudaStream },
): void {
  for (let end = filled; end < byteLength; end *= 2) {
    const target = { allocation: source.allocation, address: source.address + BigInt(end) };
    copyBetween(source, target, { byteLength: Math.min(end, byteLength - end), stream });
  }
}
