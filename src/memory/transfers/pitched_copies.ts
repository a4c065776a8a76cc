/**
 * Copies and fills of rows that were already checked.
 *
 * @module
 */
import type { PitchedCopy, PitchedMemory } from "../../driver.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";
import { RangeError } from "../../support/program_errors.ts";
import type { Allocation } from "../allocation.ts";
import { canShare, copyBetween, copyFromHost, copyToHost, deviceForHostCopy } from "./copies.ts";
import type { ElementBits } from "./elements.ts";
import type { Piece } from "./reads.ts";
import {
  copyRows,
  doOverlap,
  offsetOf,
  type RowsDistances,
  type RowsPart,
  rowsPartsOf,
  type RowsShape,
  simplifiedRows,
  spanOf,
  withoutGaps,
} from "./rows.ts";
import { stagingPieceByteLength } from "./staging.ts";

/** Rows in memory of an allocation. */
export interface DeviceRows extends RowsDistances {
  readonly allocation: Allocation;
  readonly address: bigint;
}

/** Rows in host memory, from the beginning of the first one on. It is page-locked unless a function says otherwise. */
export interface HostRows extends RowsDistances {
  readonly bytes: Uint8Array;
}

/** Rows that a copy reads or writes in stream order. */
export type RowsPlace = DeviceRows | HostRows;

/** Returns a part of rows. */
function partOf(place: RowsPlace, part: Pick<RowsPart, "x" | "y" | "z">): RowsPlace {
  const offset = offsetOf(part, place);
  if ("bytes" in place) return { ...place, bytes: place.bytes.subarray(offset) };
  return { ...place, address: place.address + BigInt(offset) };
}

/** Throws if the rows of a copy overlap, because the result is undefined in CUDA. */
export function checkRowsOverlap(source: RowsPlace, target: RowsPlace, size: RowsShape): void {
  const distance = distanceBetween(source, target);
  if (distance === undefined || !doOverlap(size, source, target, distance)) return;
  throw new RangeError(
    "Cannot copy rows to themselves: some of the target's bytes are the source's; copy through other memory",
  );
}

/** Returns the number of bytes from one place to another; undefined if they are not in the same memory. */
function distanceBetween(source: RowsPlace, target: RowsPlace): number | undefined {
  if ("bytes" in source && "bytes" in target) {
    return source.bytes.buffer === target.bytes.buffer ? target.bytes.byteOffset - source.bytes.byteOffset : undefined;
  }
  if ("bytes" in source || "bytes" in target) return undefined;
  const { allocation: from } = source, { allocation: to } = target;
  return from === to || canShare(from) || canShare(to) ? Number(target.address - source.address) : undefined;
}

/** Enqueues a copy of rows that do not overlap. */
export function enqueueRows(
  session: Session,
  source: RowsPlace,
  target: RowsPlace,
  { size: given, stream }: { readonly size: RowsShape; readonly stream: CudaStream },
): void {
  const { size, ends: [from, to] } = simplifiedRows(given, [source, target] as const);
  const byteLength = size.width;
  if (size.height === 1 && size.depth === 1) {
    if (!("bytes" in source) && !("bytes" in target)) return copyBetween(source, target, { byteLength, stream });
    if (!("bytes" in target)) return copyFromHost(target, (source as HostRows).bytes.subarray(0, byteLength), stream);
    if (!("bytes" in source)) return copyToHost(source, target.bytes.subarray(0, byteLength), stream);
  }
  const { driver, captures } = session;
  const copy = { source: pitched(source, from, size), destination: pitched(target, to, size), ...size };
  const handle = stream.unsafeHandle;
  const fromDevice = deviceOfRows(source), toDevice = deviceOfRows(target);
  if (fromDevice !== undefined && toDevice !== undefined && fromDevice !== toDevice && !captures.isActive) {
    driver.memcpy3DPeerAsync(stream.device.ordinal, copy, toDevice, fromDevice, handle);
  } else driver.memcpy3DAsync(currentDeviceOf(source, target, stream), copy, handle);
  noteUse(session, source, stream);
  noteUse(session, target, stream);
}

/** Returns a copy of rows as the driver takes it, and in one row if there are no gaps. */
export function driverCopy(source: RowsPlace, target: RowsPlace, given: RowsShape): PitchedCopy {
  const { size, ends: [from, to] } = simplifiedRows(given, [source, target] as const);
  return { source: pitched(source, from, size), destination: pitched(target, to, size), ...size };
}

/** Returns the device that memory is on; undefined for the host's, and for managed memory. */
export function deviceOfRows(place: RowsPlace): number | undefined {
  if ("bytes" in place) return undefined;
  const { owner: { isHostMemory, isManaged }, device } = place.allocation;
  return isHostMemory || isManaged ? undefined : device.ordinal;
}

/** Returns the device to make current for a copy: that of the memory, if only one end is a device's. */
export function currentDeviceOf(source: RowsPlace, target: RowsPlace, stream: CudaStream): number {
  const isSource = deviceOfRows(source) !== undefined, isTarget = deviceOfRows(target) !== undefined;
  if (isSource === isTarget) return stream.device.ordinal;
  return deviceForHostCopy(((isSource ? source : target) as DeviceRows).allocation, stream).ordinal;
}

function pitched(place: RowsPlace, distances: RowsDistances, size: RowsShape): PitchedMemory {
  const { pitch, slicePitch } = distances;
  const memory = "bytes" in place ? place.bytes.subarray(0, spanOf(size, distances)) : place.address;
  return { memory, pitch, rows: slicePitch / pitch };
}

/**
 * Enqueues a copy of rows of an array. The bytes of pageable memory are captured before this returns, in page-locked
 * memory.
 */
export function enqueueRowsOfArray(
  session: Session,
  source: HostRows & { readonly bytes: Uint8Array<ArrayBuffer> },
  target: RowsPlace,
  { size, stream }: { readonly size: RowsShape; readonly stream: CudaStream },
): void {
  const { size: simple } = simplifiedRows(size, [source, target] as const);
  const isOneRow = simple.height === 1 && simple.depth === 1;
  if (isOneRow && !("bytes" in target)) return copyFromHost(target, source.bytes.subarray(0, simple.width), stream);
  if (session.isPageLocked(source.bytes)) {
    checkRowsOverlap(source, target, size);
    return enqueueRows(session, source, target, { size, stream });
  }
  const capture = session.captures.isActive ? session.captures.of(stream.unsafeHandle) : undefined;
  if (capture !== undefined) {
    const packed = new Uint8Array(size.width * size.height * size.depth);
    copyRows(packed, withoutGaps(size), source.bytes, source, size);
    const kept = { ...withoutGaps(size), bytes: capture.keepBytes(packed) };
    return enqueueRows(session, kept, target, { size, stream });
  }
  for (const part of rowsPartsOf(size, stagingPieceByteLength)) {
    const distances = withoutGaps(part);
    session.uploads.capture(part.width * part.height * part.depth, stream, (captured) => {
      copyRows(captured, distances, source.bytes.subarray(offsetOf(part, source)), source, part);
      enqueueRows(session, { ...distances, bytes: captured }, partOf(target, part), { size: part, stream });
    });
  }
}

/** Returns the pieces in which rows are read. */
export function piecesOfRows(source: DeviceRows, size: RowsShape): Piece[] {
  const { session } = source.allocation;
  return Array.from(rowsPartsOf(size, stagingPieceByteLength), (part) => ({
    byteLength: part.width * part.height * part.depth,
    copyTo: (target, stream) => {
      const place = { ...withoutGaps(part), bytes: target };
      enqueueRows(session, partOf(source, part), place, { size: part, stream });
    },
  }));
}

/** What a fill of rows sets. */
interface RowsFill {
  readonly size: RowsShape;
  /** The address by which the device accesses the first row. */
  readonly address: bigint;
  readonly stream: CudaStream;
}

/** Enqueues a fill of rows with elements of `elementSize` bytes. */
export function fillRows(
  session: Session,
  place: RowsPlace,
  { low, high }: ElementBits,
  { elementSize, ...fill }: RowsFill & { readonly elementSize: number },
): void {
  if (high !== undefined && high !== low) return fillRowsOfPairs(session, place, { low, high }, fill);
  const { size: { width, height, depth }, ends: [{ pitch, slicePitch }] } = simplifiedRows(fill.size, [place] as const);
  const { driver } = session;
  const { stream: { unsafeHandle, device: { ordinal } }, address } = fill;
  const unit = Math.min(elementSize, 4);
  const count = width / unit;
  const set = (offset: number, distance: number, rows: number) => {
    const at = address + BigInt(offset);
    if (rows === 1) {
      if (unit === 1) driver.memsetAsync(ordinal, at, low, count, unsafeHandle);
      else if (unit === 2) driver.memsetD16Async(ordinal, at, low, count, unsafeHandle);
      else driver.memsetD32Async(ordinal, at, low, count, unsafeHandle);
    } else if (unit === 1) driver.memsetD2D8Async(ordinal, at, distance, low, count, rows, unsafeHandle);
    else if (unit === 2) driver.memsetD2D16Async(ordinal, at, distance, low, count, rows, unsafeHandle);
    else driver.memsetD2D32Async(ordinal, at, distance, low, count, rows, unsafeHandle);
  };
  // CUDA fills two dimensions: the third one is a loop over the fewer of slices and rows.
  if (depth <= height) { for (let z = 0; z < depth; z++) set(z * slicePitch, pitch, height); }
  else for (let y = 0; y < height; y++) set(y * pitch, slicePitch, depth);
  noteUse(session, place, fill.stream);
}

/**
 * Enqueues a fill with elements of 64 bits whose halves differ. CUDA sets at most 32 bits per element: each half is set
 * as a column of a matrix of words, in the first row, which is then copied to the others.
 */
function fillRowsOfPairs(
  session: Session,
  place: RowsPlace,
  { low, high }: { readonly low: number; readonly high: number },
  { size: { width, height, depth }, address, stream }: RowsFill,
): void {
  const { driver } = session;
  const { unsafeHandle, device: { ordinal } } = stream;
  const pairs = width / 8;
  // A column of pairs is a fill in two dimensions itself.
  const [distance, count] = pairs === 1 ? [place.pitch, height] : [8, Math.min(pairs, pairsToCopy)];
  driver.memsetD2D32Async(ordinal, address, distance, low, 1, count, unsafeHandle);
  driver.memsetD2D32Async(ordinal, address + 4n, distance, high, 1, count, unsafeHandle);
  noteUse(session, place, stream);
  const repeat = (
    filled: number,
    end: number,
    sizeOf: (count: number) => RowsShape,
    partAt: (at: number) => RowsPlace,
  ) => {
    for (let at = filled; at < end; at *= 2) {
      enqueueRows(session, place, partAt(at), { size: sizeOf(Math.min(at, end - at)), stream });
    }
  };
  if (pairs > 1) {
    repeat(
      8 * count,
      width,
      (bytes) => ({ width: bytes, height: 1, depth: 1 }),
      (x) => partOf(place, { x, y: 0, z: 0 }),
    );
    repeat(1, height, (rows) => ({ width, height: rows, depth: 1 }), (y) => partOf(place, { x: 0, y, z: 0 }));
  }
  repeat(1, depth, (slices) => ({ width, height, depth: slices }), (z) => partOf(place, { x: 0, y: 0, z }));
}

/** The number of 64-bit elements that are set by fills before the rest of a row is filled by copies. */
const pairsToCopy = 4096;

function noteUse(session: Session, place: RowsPlace, stream: CudaStream): void {
  const { captures } = session;
  if (!("bytes" in place)) return place.allocation.noteUse(stream);
  if (!captures.isActive) return;
  const { bytes } = place;
  captures.of(stream.unsafeHandle)?.resources.hostMemory.add(session.lifetimeOf(bytes) ?? bytes.buffer);
}
