/**
 * Reads of device memory to the host, in pieces, through page-locked memory.
 *
 * @module
 */
import { type CudaStream, progressOf } from "../../objects/streams/cuda_stream.ts";
import { checkNumber, type TypedArray, type TypedArrayConstructor } from "../../support/validation.ts";
import { nextTurn, type WaitOptions, waitUntil } from "../../support/waiting/waiting.ts";
import { checkRange } from "../buffer_arguments.ts";
import { type CopyPlace, copyToHost } from "./copies.ts";
import { type StagingBuffer, stagingPieceByteLength } from "./staging.ts";
import { RangeError, ReferenceError } from "../../support/program_errors.ts";

/** Maximum number of pieces of a read to enqueue before waiting for the first one. */
const maximumPiecesInFlight = 4;

/** The elements to read, and the stream to read on. */
export interface ReadOptions extends WaitOptions {
  /** The stream to read on. Defaults to the buffer's own stream. */
  stream?: CudaStream;
  /** Offset of the first element, in bytes. Defaults to 0. */
  byteOffset?: number;
  /** Number of elements to read. Defaults to the rest of the buffer. */
  length?: number;
}

interface Piece {
  /** Offset of the piece in the read range, in bytes. */
  readonly begin: number;
  readonly byteLength: number;
}

/** Returns the byte range of the elements to read. Throws unless it is in a buffer of `bufferByteLength` bytes. */
export function elementRange(
  { BYTES_PER_ELEMENT: size }: TypedArrayConstructor<TypedArray>,
  { byteOffset = 0, length }: ReadOptions,
  bufferByteLength: number,
): { byteOffset: number; byteLength: number } {
  checkRange(byteOffset, 0, bufferByteLength);
  const rest = bufferByteLength - byteOffset;
  if (length === undefined && rest % size !== 0) {
    const aligned = byteOffset % size === 0 ? "" : `, or a byteOffset that is a multiple of ${size}`;
    throw new RangeError(`Cannot read ${rest} bytes as elements of ${size} bytes: give a length${aligned}`);
  }
  const elements = length === undefined ? rest / size : length;
  checkNumber(elements, "a read's length");
  if (!Number.isSafeInteger(elements) || elements < 0) {
    throw new RangeError(`Cannot read ${elements} elements: a length is a whole number, at least 0`);
  }
  if (byteOffset + elements * size > bufferByteLength) {
    const from = byteOffset === 0 ? "" : ` from byte ${byteOffset}`;
    throw new RangeError(
      `Cannot read ${elements} elements of ${size} bytes${from}: the buffer has ${bufferByteLength} bytes, ` +
        `which is room for ${Math.floor(rest / size)}`,
    );
  }
  return { byteOffset, byteLength: elements * size };
}

/**
 * Reads `byteLength` bytes in stream order, without blocking the event loop. The memory is kept until the read is done.
 */
export async function readBytes(
  place: CopyPlace,
  byteLength: number,
  { stream, ...waitOptions }: WaitOptions & { readonly stream: CudaStream },
): Promise<Uint8Array<ArrayBuffer>> {
  const { allocation } = place;
  allocation.session.captures.refuseRead(stream);
  const result = new Uint8Array(byteLength);
  const pieces = piecesOf(byteLength);
  const inFlight: { piece: Piece; staging: StagingBuffer }[] = [];
  const letGo = allocation.hold();
  try {
    for (let next = 0, taken = 0; taken < pieces.length; taken++) {
      for (; next < pieces.length && next < taken + maximumPiecesInFlight; next++) {
        const piece = pieces[next]!;
        inFlight.push({ piece, staging: enqueue(place, piece, stream) });
      }
      if (next === pieces.length) letGo();
      const { piece, staging } = inFlight[0]!;
      await waitUntil(() => {
        const isDone = allocation.session.driver.eventQuery(staging.event);
        allocation.session.waitErrors?.throwErrorOfEvent(staging.event, isDone);
        return isDone;
      }, waitOptions);
      progressOf(stream).complete(staging.position);
      result.set(new Uint8Array(staging.allocation.buffer, 0, piece.byteLength), piece.begin);
      inFlight.shift();
      release(place, staging);
      // Lets the event loop run between pieces, even if the device is so fast that the host never has to wait.
      if (taken + 1 < pieces.length) await nextTurn();
    }
  } finally {
    releaseWhenDone(place, inFlight.map(({ staging }) => staging));
    letGo();
  }
  return result;
}

/** Reads `byteLength` bytes in stream order, and blocks until they are read. */
export function readBytesSync(place: CopyPlace, byteLength: number, stream: CudaStream): Uint8Array<ArrayBuffer> {
  place.allocation.session.captures.refuseRead(stream);
  const result = new Uint8Array(byteLength);
  for (const piece of piecesOf(byteLength)) {
    const staging = enqueue(place, piece, stream);
    try {
      place.allocation.session.driver.eventSynchronize(staging.event);
      place.allocation.session.waitErrors?.throwErrorOfEvent(staging.event, true);
      progressOf(stream).complete(staging.position);
      result.set(new Uint8Array(staging.allocation.buffer, 0, piece.byteLength), piece.begin);
    } finally {
      release(place, staging);
    }
  }
  return result;
}

/** Enqueues the copy of one piece to page-locked memory. */
function enqueue({ allocation, address }: CopyPlace, { begin, byteLength }: Piece, stream: CudaStream): StagingBuffer {
  if (allocation.isUnloaded) {
    const why = allocation.owner.useEnd ?? "its module was disposed";
    throw new ReferenceError(`Cannot finish the read of the buffer: ${why}`);
  }
  const { driver, staging } = allocation.session;
  const copy = staging.acquire(stream, byteLength);
  try {
    const target = new Uint8Array(copy.allocation.buffer, 0, byteLength);
    copyToHost({ allocation, address: address + BigInt(begin) }, target, stream);
    // Reads are recorded even on the allocation's own stream, so that a free on another stream waits for them, too.
    allocation.noteUseBefore(stream, progressOf(stream).position);
    driver.eventRecord(stream.device.ordinal, copy.event, stream.unsafeHandle);
    copy.position = progressOf(stream).record();
  } catch (error) {
    staging.release(copy);
    throw error;
  }
  allocation.addCopy(copy);
  return copy;
}

function release({ allocation }: CopyPlace, copy: StagingBuffer): void {
  allocation.deleteCopy(copy);
  allocation.session.staging.release(copy);
}

/**
 * Releases the staging buffers of an abandoned read when their copies are complete: until then, the device may write to
 * the buffers.
 */
function releaseWhenDone(place: CopyPlace, copies: readonly StagingBuffer[]): void {
  for (const copy of copies) {
    waitUntil(() => place.allocation.session.driver.eventQuery(copy.event)).then(
      () => release(place, copy),
      // Runs if the device is lost or the session has ended. No copy is pending then, and the memory of the staging
      // buffer has been freed.
      () => place.allocation.deleteCopy(copy),
    );
  }
}

function piecesOf(byteLength: number): Piece[] {
  return Array.from({ length: Math.ceil(byteLength / stagingPieceByteLength) }, (_, index) => {
    const begin = index * stagingPieceByteLength;
    return { begin, byteLength: Math.min(stagingPieceByteLength, byteLength - begin) };
  });
}
