/**
 * Copies between device memory, host memory and devices, fills of ranges that were already checked, and advice for
 * copies and fills that the driver refuses.
 *
 * @module
 */
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { KnownStreamOptions, StreamOption } from "../../objects/streams/stream_option.ts";
import type { Session } from "../../session.ts";
import { countOf } from "../../support/printing.ts";
import type { Allocation } from "../allocation.ts";
import type { Access } from "../pools/pool_attributes.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { checkByteLength, checkNumber } from "../../support/validation.ts";
import type { ElementBits } from "./elements.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/** The stream of a copy or a fill, and the offset at which it starts. */
export interface CopyOptions extends StreamOption {
  /** Offset in bytes into the buffer whose method is called, never into the other buffer. Defaults to 0. */
  byteOffset?: number;
}

/** An address in an allocation. */
export interface CopyPlace {
  readonly allocation: Allocation;
  readonly address: bigint;
}

/**
 * The size in bytes of the largest copy from pageable memory whose source CUDA captures immediately, even if the stream
 * is busy.
 */
const maximumAtOnceByteLength = 64 * 2 ** 10;

/**
 * Enqueues a copy from host memory. The contents of pageable memory are captured before this returns: they are staged
 * in page-locked memory if CUDA would read them later, or would first wait for earlier work of the stream.
 */
export function copyFromHost({ allocation, address }: CopyPlace, bytes: Uint8Array, stream: CudaStream): void {
  const { captures } = allocation.session;
  const capture = captures.isActive ? captures.of(stream.unsafeHandle) : undefined;
  if (capture !== undefined) {
    // Each launch of the graph reads the memory again, so the bytes of now are kept as long as the graph.
    const isKept = isReadInPlace({ allocation, address }, bytes);
    if (isKept) capture.resources.hostMemory.add(allocation.session.lifetimeOf(bytes) ?? bytes.buffer);
    const kept = isKept ? bytes : capture.keepBytes(bytes);
    return enqueueFromHost({ allocation, address }, kept, stream);
  }
  const isReadLater = allocation.session.uploads.readsPageableMemory(stream.device);
  // The fast path, kept small so that engines inline it.
  if (isReadLater || bytes.byteLength > maximumAtOnceByteLength || allocation.session.hasRegistrations) {
    return stageUnlessReadInPlace(allocation, address, bytes, stream);
  }
  const { ordinal } = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyHtoDAsync(ordinal, address, bytes, stream.unsafeHandle);
  allocation.noteUse(stream);
}

function stageUnlessReadInPlace(allocation: Allocation, address: bigint, bytes: Uint8Array, stream: CudaStream): void {
  const { session } = allocation;
  const target = { allocation, address };
  // CUDA refuses to copy from memory that is registered in part.
  if (session.isPartlyRegistered(bytes)) return session.uploads.copy(target, bytes, stream);
  if (isReadInPlace(target, bytes) || !session.uploads.readsPageableMemory(stream.device) && isIdle(stream, session)) {
    enqueueFromHost(target, bytes, stream);
  } else {
    session.uploads.copy(target, bytes, stream);
  }
}

/**
 * Returns whether a copy needs no staging: page-locked memory is read in stream order, and a copy to a host pool is
 * performed by the host before the call returns.
 */
function isReadInPlace({ allocation }: CopyPlace, bytes: Uint8Array): boolean {
  // The memory of a wrapped buffer may be host memory that is not from a pool.
  const { isHostMemory, isForeign } = allocation.owner;
  return (isHostMemory === true && isForeign !== true) || allocation.session.isPageLocked(bytes);
}

/**
 * Returns whether a stream and the device's default stream have no pending work. The stream may have to wait for the
 * default stream's work.
 */
function isIdle(stream: CudaStream, { driver }: Session): boolean {
  const { ordinal, defaultStream } = stream.device;
  return driver.streamQuery(ordinal, stream.unsafeHandle, { peek: true }) &&
    (stream === defaultStream || driver.streamQuery(ordinal, defaultStream.unsafeHandle, { peek: true }));
}

/** Enqueues a copy from host memory without staging. */
export function enqueueFromHost({ allocation, address }: CopyPlace, bytes: Uint8Array, stream: CudaStream): void {
  const { ordinal } = deviceForHostCopy(allocation, stream);
  allocation.session.driver.memcpyHtoDAsync(ordinal, address, bytes, stream.unsafeHandle);
  allocation.noteUse(stream);
}

/** Enqueues a copy to host memory. */
export function copyToHost({ allocation, address }: CopyPlace, bytes: Uint8Array, stream: CudaStream): void {
  const { ordinal } = deviceForHostCopy(allocation, stream);
  const { captures, driver } = allocation.session;
  driver.memcpyDtoHAsync(ordinal, bytes, address, stream.unsafeHandle);
  if (captures.isActive) {
    captures.of(stream.unsafeHandle)?.resources.hostMemory.add(allocation.session.lifetimeOf(bytes) ?? bytes.buffer);
  }
  allocation.noteUse(stream);
}

/** Enqueues a copy between two allocations, on any devices or in host pools. */
export function copyBetween(
  source: CopyPlace,
  target: CopyPlace,
  { byteLength, stream }: { byteLength: number; stream: CudaStream },
): void {
  checkEnds(source, target, byteLength);
  const { driver } = source.allocation.session;
  const handle = stream.unsafeHandle;
  if (source.allocation.owner.isHostMemory || target.allocation.owner.isHostMemory) {
    const onDevice = source.allocation.owner.isHostMemory ? target : source;
    const { ordinal } = deviceForHostCopy(onDevice.allocation, stream);
    driver.memcpyAsync(ordinal, target.address, source.address, byteLength, handle);
  } else if (source.allocation.owner.isManaged || target.allocation.owner.isManaged) {
    // CUDA finds out where the memory is.
    driver.memcpyAsync(stream.device.ordinal, target.address, source.address, byteLength, handle);
  } else {
    const [from, to] = [source.allocation.device.ordinal, target.allocation.device.ordinal];
    const { ordinal } = stream.device;
    // CUDA does not capture copies between devices, but does so for copies between addresses.
    if (from === to || source.allocation.session.captures.isActive) {
      driver.memcpyAsync(ordinal, target.address, source.address, byteLength, handle);
    } else driver.memcpyPeerAsync(ordinal, target.address, to, source.address, from, byteLength, handle);
  }
  source.allocation.noteUse(stream);
  target.allocation.noteUse(stream);
}

/** Throws if the ranges of a copy overlap. */
export function checkEnds(source: CopyPlace, target: CopyPlace, byteLength: number): void {
  if (source.allocation === target.allocation) checkOverlap(source, target, byteLength);
  else if (canShare(source.allocation) || canShare(target.allocation)) {
    checkSharedOverlap(source, target, byteLength);
  }
}

/** Throws if the ranges of a copy within one allocation overlap, because the result is undefined in CUDA. */
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

/** Returns whether other allocations can refer to the same memory: it was wrapped, or is mapped in an address range. */
export function canShare({ owner }: Allocation): boolean {
  return owner.isForeign === true || owner.accessOf !== undefined;
}

/** Throws if the ranges of a copy overlap even though they belong to different allocations. */
function checkSharedOverlap({ address: from }: CopyPlace, { address: to }: CopyPlace, byteLength: number): void {
  const distance = Number(to - from);
  if (Math.abs(distance) >= byteLength) return;
  throw new RangeError(
    `Cannot copy ${countOf(byteLength, "byte")} from 0x${from.toString(16)} to 0x${to.toString(16)}: they overlap, ` +
      "because the buffers have the same memory; copy through another buffer",
  );
}

/**
 * Returns the device to make current for a copy to or from the host. This is the allocation's device, so that a stream
 * of another device needs no access to the memory. For a default stream, it is the stream's device, because the
 * stream's handle means the default stream of the current device.
 */
export function deviceForHostCopy(allocation: Allocation, stream: CudaStream): CudaDevice {
  if (stream === stream.device.defaultStream) return stream.device;
  if (allocation.owner.accessOf !== undefined) {
    return deviceWithMoreAccess(allocation.owner.accessOf, allocation, stream);
  }
  return allocation.device;
}

/**
 * Returns the device of the allocation or that of the stream, whichever has more access to memory of an address range.
 * By default, no device has access to such memory.
 */
function deviceWithMoreAccess(
  accessOf: (device: CudaDevice) => Access,
  { device }: Allocation,
  stream: CudaStream,
): CudaDevice {
  const [own, other] = [accessOf(device), accessOf(stream.device)];
  const isOwn = other === "none" || (other === "read" && own === "read-write");
  return isOwn ? device : stream.device;
}

/**
 * The source and the target of a copy. `buffer` is the one whose method was called. `source` or `target` is undefined
 * if it is host memory that is not from a pool.
 */
export interface CopyEnds {
  readonly buffer: Allocation;
  readonly source?: Allocation;
  readonly target?: Allocation;
}

/** Memory that a copy or a fill reads or writes. */
interface UsedMemory {
  readonly allocation: Allocation;
  /** The name of the memory in messages. */
  readonly name: string;
  readonly isWritten: boolean;
}

/** Returns the error for a fill that cannot be enqueued. `what` is the failed action, such as "fill 4 bytes of". */
export function refusedFill(what: string, error: unknown, allocation: Allocation, stream: CudaStream): unknown {
  const filled = { allocation, name: "it", isWritten: true };
  return refusal(what, error, { buffer: allocation, used: [filled], deviceOf: () => stream.device, stream });
}

/** Returns the error for a copy that cannot be enqueued. `what` is the failed action, such as "copy 4 bytes to". */
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
  // No device needs access to memory of a host pool, and every device has access to managed memory. So only the access to the copy's other buffer matters, as in a
  // copy to or from host memory that is not from a pool.
  const onDevices = used.filter(({ allocation: { owner } }) => owner.isHostMemory !== true && owner.isManaged !== true);
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
    /** Returns the device that accesses an allocation in the copy or fill. */
    readonly deviceOf: (allocation: Allocation) => CudaDevice;
    readonly stream: CudaStream;
  },
): unknown {
  const isInvalid = error instanceof CudaError && error.code === "cudaErrorInvalidValue";
  const hint = !isInvalid ? undefined : mappingHint(used, deviceOf, stream) ??
    mappingHint(used, () => stream.device, stream) ?? peerHint(used, deviceOf, stream);
  return cannot(`${what} the buffer on device ${buffer.device.ordinal}`, error, hint);
}

/** Returns advice for memory of an address range that is mapped without the required access. */
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

/** Returns advice for memory to which the stream's device needs access: in a fill, or in a copy on a default stream. */
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
 * The number of 64-bit elements that are set by memset before the rest is filled by copying them. A GPU sets this many
 * elements in 10 us, and copies elements 700 times as fast as it sets them.
 */
export const elementsToCopy = 4096;

/** The stream of a fill, and the part of the buffer or the array that it sets. Defaults to all of it. */
export interface FillOptions extends CopyOptions {
  /** Number of bytes to set. Defaults to the rest of the buffer. In an array, it must be a whole number of elements. */
  byteLength?: number;
  /** Index of the first element to set. For arrays only. Defaults to 0. */
  begin?: number;
  /** Index after the last element to set. For arrays only. Defaults to the array's length. */
  end?: number;
}

/** Describes the options of a fill, for validation by `checkOptions`. */
export const fillOptions: KnownStreamOptions<FillOptions> = {
  action: "fill a buffer",
  names: { stream: true, byteOffset: true, byteLength: true, begin: true, end: true },
  usage: "fill(byte, stream) or fill(byte, { stream, byteOffset, byteLength })",
  meantBy: (value) => typeof value === "number" ? `{ byteOffset: ${value} }` : undefined,
};

/** As `fillOptions`, for a fill of an array. */
export const fillArrayOptions: KnownStreamOptions<FillOptions> = {
  ...fillOptions,
  usage: "fill(value, stream) or fill(value, { stream, begin, end })",
  meantBy: (value) => typeof value === "number" ? `{ begin: ${value} }` : undefined,
};

/** Returns the bytes that a fill of an array sets. Throws unless they are whole elements of the array. */
export function fillRangeOf(
  options: FillOptions,
  { length, size }: { length: number; size: number },
): { byteOffset: number; byteLength: number } {
  const { begin, end, byteOffset, byteLength } = options;
  if (byteOffset === undefined && byteLength === undefined) {
    // Defaults are set by destructuring and not by `??`, which would accept null.
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

/** Enqueues a fill with elements. The address and `byteLength` are multiples of the element size. */
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
      // CUDA sets at most 32 bits per element: each half of a 64-bit element is set as a column of a matrix of 32-bit
      // words.
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

/**
 * Copies the first `filled` bytes of a range to the bytes after them, doubling the filled part until the range is full.
 */
function repeat(
  source: CopyPlace,
  { filled, byteLength, stream }: { filled: number; byteLength: number; stream: CudaStream },
): void {
  for (let end = filled; end < byteLength; end *= 2) {
    const target = { allocation: source.allocation, address: source.address + BigInt(end) };
    copyBetween(source, target, { byteLength: Math.min(end, byteLength - end), stream });
  }
}
