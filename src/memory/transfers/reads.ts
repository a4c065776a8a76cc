/**
 * Reads of device memory to the host, in pieces, through page-locked memory.
 *
 * @module
 */
import { type CudaStream, progressOf } from "../../objects/streams/cuda_stream.ts";
import { checkNumber, type TypedArray, type TypedArrayConstructor } from "../../support/validation.ts";
import { nextTurn, type WaitOptions, waitUntil } from "../../support/waiting/waiting.ts";
import { checkRange } from "../buffer_arguments.ts";
import type { Allocation } from "../allocation.ts";
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

/** A piece of what is read, of at most `stagingPieceByteLength` bytes. */
export interface Piece {
  readonly byteLength: number;
  /** Enqueues the copy of the piece to page-locked memory. */
  copyTo(target: Uint8Array, stream: CudaStream): void;
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
export function readBytes(
  place: CopyPlace,
  byteLength: number,
  options: WaitOptions & { readonly stream: CudaStream },
): Promise<Uint8Array<ArrayBuffer>> {
  return readPieces(place.allocation, piecesOf(place, byteLength), options);
}

/**
 * Reads pieces of an allocation, which follow each other in the result, in stream order, without blocking the event
 * loop. The memory is kept until the read is done.
 */
export async function readPieces(
  allocation: Allocation,
  pieces: readonly Piece[],
  { stream, ...waitOptions }: WaitOptions & { readonly stream: CudaStream },
): Promise<Uint8Array<ArrayBuffer>> {
  allocation.session.captures.refuseRead(stream);
  const result = resultOf(pieces);
  const inFlight: { piece: Piece; staging: StagingBuffer }[] = [];
  const letGo = allocation.hold();
  try {
    for (let next = 0, taken = 0, begin = 0; taken < pieces.length; taken++) {
      for (; next < pieces.length && next < taken + maximumPiecesInFlight; next++) {
        const piece = pieces[next]!;
        inFlight.push({ piece, staging: enqueue(allocation, piece, stream) });
      }
      if (next === pieces.length) letGo();
      const { piece, staging } = inFlight[0]!;
      await waitUntil(() => {
        const isDone = allocation.session.driver.eventQuery(staging.event);
        allocation.session.waitErrors?.throwErrorOfEvent(staging.event, isDone);
        return isDone;
      }, waitOptions);
      progressOf(stream).complete(staging.position);
      result.set(new Uint8Array(staging.allocation.buffer, 0, piece.byteLength), begin);
      begin += piece.byteLength;
      inFlight.shift();
      release(allocation, staging);
      // Lets the event loop run between pieces, even if the device is so fast that the host never has to wait.
      if (taken + 1 < pieces.length) await nextTurn();
    }
  } finally {
    releaseWhenDone(allocation, inFlight.map(({ staging }) => staging));
    letGo();
  }
  return result;
}

/** Reads `byteLength` bytes in stream order, and blocks until they are read. */
export function readBytesSync(place: CopyPlace, byteLength: number, stream: CudaStream): Uint8Array<ArrayBuffer> {
  return readPiecesSync(place.allocation, piecesOf(place, byteLength), stream);
}

/** Reads pieces of an allocation like `readPieces`, and blocks until they are read. */
export function readPiecesSync(
  allocation: Allocation,
  pieces: readonly Piece[],
  stream: CudaStream,
): Uint8Array<ArrayBuffer> {
  allocation.session.captures.refuseRead(stream);
  const result = resultOf(pieces);
  let begin = 0;
  for (const piece of pieces) {
    const staging = enqueue(allocation, piece, stream);
    try {
      allocation.session.driver.eventSynchronize(staging.event);
      allocation.session.waitErrors?.throwErrorOfEvent(staging.event, true);
      progressOf(stream).complete(staging.position);
      result.set(new Uint8Array(staging.allocation.buffer, 0, piece.byteLength), begin);
      begin += piece.byteLength;
    } finally {
      release(allocation, staging);
    }
  }
  return result;
}

/** Enqueues the copy of one piece to page-locked memory. */
function enqueue(allocation: Allocation, { byteLength, copyTo }: Piece, stream: CudaStream): StagingBuffer {
  if (allocation.isUnloaded) {
    const why = allocation.owner.useEnd ?? "its module was disposed";
    throw new ReferenceError(`Cannot finish the read of the buffer: ${why}`);
  }
  const { driver, staging } = allocation.session;
  const copy = staging.acquire(stream, byteLength);
  try {
    copyTo(new Uint8Array(copy.allocation.buffer, 0, byteLength), stream);
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

function release(allocation: Allocation, copy: StagingBuffer): void {
  allocation.deleteCopy(copy);
  allocation.session.staging.release(copy);
}

/**
 * Releases the staging buffers of an abandoned read when their copies are complete: until then, the device may write to
 * the buffers.
 */
function releaseWhenDone(allocation: Allocation, copies: readonly StagingBuffer[]): void {
  for (const copy of copies) {
    waitUntil(() => allocation.session.driver.eventQuery(copy.event)).then(
      () => release(allocation, copy),
      // Runs if the device is lost or the session has ended. No copy is pending then, and the memory of the staging
      // buffer has been freed.
      () => allocation.deleteCopy(copy),
    );
  }
}

function resultOf(pieces: readonly Piece[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0));
}

function piecesOf({ allocation, address }: CopyPlace, byteLength: number): Piece[] {
  return Array.from({ length: Math.ceil(byteLength / stagingPieceByteLength) }, (_, index) => {
    const begin = index * stagingPieceByteLength;
    const place = { allocation, address: address + BigInt(begin) };
    return {
      byteLength: Math.min(stagingPieceByteLength, byteLength - begin),
      copyTo: (target, stream) => copyToHost(place, target, stream),
    };
  });
}
