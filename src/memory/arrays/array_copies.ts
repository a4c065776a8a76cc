/**
 * Copies from and to CUDA arrays that were already checked.
 *
 * @module
 */
import type { ArrayCopy, ArrayPlace, PitchedMemory } from "../../driver.ts";
import { type CudaStream, progressOf } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";
import { waitUntil } from "../../support/waiting/waiting.ts";
import type { RowsPlace } from "../transfers/pitched_copies.ts";
import {
  copyRows,
  offsetOf,
  type RowsPart,
  rowsPartsOf,
  type RowsShape,
  spanOf,
  withoutGaps,
} from "../transfers/rows.ts";
import { stagingPieceByteLength } from "../transfers/staging.ts";
import type { UsedHandle } from "./tracked_handle.ts";

/** A place in an array, in bytes, rows and slices. */
export interface PlaceInArray {
  readonly array: UsedHandle;
  readonly x: number;
  readonly y: number;
  readonly z: number;
}

/** One end of a copy. Host memory is page-locked unless a function says otherwise. */
export type ArrayCopyEnd = RowsPlace | PlaceInArray;

/** What a copy needs besides its ends. */
interface CopyOptions {
  readonly size: RowsShape;
  readonly stream: CudaStream;
}

/** Returns the copy that a driver makes. */
export function driverArrayCopy(from: ArrayCopyEnd, to: ArrayCopyEnd, size: RowsShape): ArrayCopy {
  return { source: driverEnd(from, size), destination: driverEnd(to, size), ...size };
}

function driverEnd(end: ArrayCopyEnd, size: RowsShape): PitchedMemory | ArrayPlace {
  if ("array" in end) return { array: end.array.handle, x: end.x, y: end.y, z: end.z };
  const { pitch, slicePitch } = end;
  const memory = "bytes" in end ? end.bytes.subarray(0, spanOf(size, end)) : end.address;
  return { memory, pitch, rows: slicePitch / pitch };
}

/** Enqueues a copy of which one end at least is an array. */
export function enqueueArrayCopy(
  session: Session,
  from: ArrayCopyEnd,
  to: ArrayCopyEnd,
  { size, stream }: CopyOptions,
): void {
  session.driver.memcpy3DArrayAsync(stream.device.ordinal, driverArrayCopy(from, to, size), stream.unsafeHandle);
  const capture = session.captures.isActive ? session.captures.of(stream.unsafeHandle) : undefined;
  for (const end of [from, to]) {
    if ("array" in end) {
      end.array.noteUse(stream);
      capture?.resources.keep(end.array, () => end.array.hold());
    } else if (!("bytes" in end)) end.allocation.noteUse(stream);
    else capture?.resources.hostMemory.add(session.lifetimeOf(end.bytes) ?? end.bytes.buffer);
  }
}

function partOf(place: PlaceInArray, { x, y, z }: RowsPart): PlaceInArray {
  return { ...place, x: place.x + x, y: place.y + y, z: place.z + z };
}

/** Enqueues a copy of the bytes of a typed array, without gaps. They may be changed as soon as this returns. */
export function enqueueBytes(
  session: Session,
  bytes: Uint8Array<ArrayBuffer>,
  to: PlaceInArray,
  { size, stream }: CopyOptions,
): void {
  const distances = withoutGaps(size);
  const capture = session.captures.isActive ? session.captures.of(stream.unsafeHandle) : undefined;
  if (session.isPageLocked(bytes)) return enqueueArrayCopy(session, { ...distances, bytes }, to, { size, stream });
  if (capture !== undefined) {
    const kept = capture.keepBytes(bytes);
    return enqueueArrayCopy(session, { ...distances, bytes: kept }, to, { size, stream });
  }
  for (const part of rowsPartsOf(size, stagingPieceByteLength)) {
    const packed = withoutGaps(part);
    session.uploads.capture(part.width * part.height * part.depth, stream, (captured) => {
      copyRows(captured, packed, bytes.subarray(offsetOf(part, distances)), distances, part);
      enqueueArrayCopy(session, { ...packed, bytes: captured }, partOf(to, part), { size: part, stream });
    });
  }
}

/** Reads a part of an array in stream order, without blocking the event loop. */
export async function readArray(
  session: Session,
  from: PlaceInArray,
  { size, stream }: CopyOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  session.captures.refuseRead(stream);
  const result = new Uint8Array(size.width * size.height * size.depth);
  let begin = 0;
  for (const part of rowsPartsOf(size, stagingPieceByteLength)) {
    const byteLength = part.width * part.height * part.depth;
    const { driver } = session;
    const staging = session.staging.acquire(stream, byteLength);
    let isEnqueued = false;
    try {
      const bytes = new Uint8Array(staging.allocation.buffer, 0, byteLength);
      enqueueArrayCopy(session, partOf(from, part), { ...withoutGaps(part), bytes }, { size: part, stream });
      driver.eventRecord(stream.device.ordinal, staging.event, stream.unsafeHandle);
      isEnqueued = true;
      const position = progressOf(stream).record();
      await waitUntil(() => {
        const isDone = session.driver.eventQuery(staging.event);
        session.waitErrors?.throwErrorOfEvent(staging.event, isDone);
        return isDone;
      });
      progressOf(stream).complete(position);
      result.set(new Uint8Array(staging.allocation.buffer, 0, byteLength), begin);
      begin += byteLength;
    } finally {
      if (!isEnqueued || !session.hasEnded) session.staging.release(staging);
    }
  }
  return result;
}
