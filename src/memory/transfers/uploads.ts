import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";
import { deviceAttributes } from "../../support/device_attributes.ts";
import { CudaError } from "../../support/errors.ts";
import { enqueueFromHost, type Place } from "./copies.ts";
import { type StagingBuffer, stagingPieceByteLength } from "./staging.ts";

/** Size of all page-locked memory from which copies are pending, in bytes, before a copy waits for earlier ones. */
const maximumPendingByteLength = 32 * stagingPieceByteLength;
/** Copies from the same buffer start at multiples of this many bytes. */
const alignment = 256;

/** A staging buffer with captured bytes that copies of one stream read. */
interface Captured {
  readonly staging: StagingBuffer;
  /** Where the next captured bytes go. */
  end: number;
}

/**
 * Copies of pageable memory to devices, through page-locked memory: they capture the bytes at once, and do not wait for
 * earlier work of the stream.
 *
 * Each buffer has copies of one stream only, whose event is recorded again after each of them. Complete buffers are
 * released at the next copy, without a timer; those of the last copies stay until the session frees all of its memory.
 */
export class Uploads {
  readonly #session: Session;
  /** The buffers whose copies are not known to be complete, from old to new. */
  readonly #pending = new Map<CudaStream, Captured[]>();
  #pendingByteLength = 0;
  /** By the device's ordinal. */
  readonly #readPageableMemory: boolean[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  /** Whether the device reads pageable memory itself, so that CUDA may read it after the call that copies it. */
  readsPageableMemory(device: CudaDevice): boolean {
    return this.#readPageableMemory[device.ordinal] ??= this.#findWhetherReadsPageableMemory(device);
  }

  /**
   * Captures the bytes and enqueues copies of them.
   *
   * Blocks only if the pending copies of all streams have captured 256 MiB and some of them are on this stream: then
   * until the oldest of those is complete.
   */
  copy({ allocation, address }: Place, bytes: Uint8Array, stream: CudaStream): void {
    const { driver } = this.#session;
    const handle = stream.unsafeHandle;
    for (let begin = 0; begin < bytes.byteLength; begin += stagingPieceByteLength) {
      const piece = bytes.subarray(begin, begin + stagingPieceByteLength);
      this.#releaseComplete();
      const { staging, begin: captureBegin } = this.#reserve(stream, piece.byteLength);
      const captured = new Uint8Array(staging.allocation.buffer, captureBegin, piece.byteLength);
      captured.set(piece);
      enqueueFromHost({ allocation, address: address + BigInt(begin) }, captured, stream);
      driver.eventRecord(stream.device.ordinal, staging.event, handle);
    }
  }

  /** Returns a place in page-locked memory, in the stream's newest buffer if there is room. */
  #reserve(stream: CudaStream, byteLength: number): { staging: StagingBuffer; begin: number } {
    const newest = this.#pending.get(stream)?.at(-1);
    let wanted = byteLength;
    if (newest !== undefined) {
      const { staging, end } = newest;
      const capacity = staging.allocation.buffer.byteLength;
      if (end + byteLength <= capacity) {
        newest.end = roundUp(end + byteLength);
        return { staging, begin: end };
      }
      // A stream that has filled a buffer gets a larger one, so that many small copies need few buffers.
      wanted = Math.max(byteLength, Math.min(capacity + 1, stagingPieceByteLength));
    }
    this.#waitForRoom(stream, wanted);
    const staging = this.#session.staging.acquire(stream, wanted);
    // Counts as pending before its first copy is enqueued: whatever fails from now on, its event says when it is free.
    const captured = { staging, end: roundUp(byteLength) };
    const ofStream = this.#pending.get(stream);
    if (ofStream === undefined) this.#pending.set(stream, [captured]);
    else ofStream.push(captured);
    this.#pendingByteLength += staging.allocation.buffer.byteLength;
    return { staging, begin: 0 };
  }

  /**
   * Blocks while too much is pending. Waits for copies of the same stream only: other streams may be waiting for work
   * that the program has yet to enqueue.
   */
  #waitForRoom(stream: CudaStream, byteLength: number): void {
    while (this.#pendingByteLength + byteLength > maximumPendingByteLength) {
      const oldest = this.#pending.get(stream)?.[0];
      if (oldest === undefined) return;
      this.#session.driver.eventSynchronize(oldest.staging.event);
      this.#releaseComplete();
    }
  }

  /** Releases the buffers whose copies are complete. */
  #releaseComplete(): void {
    for (const [stream, ofStream] of this.#pending) {
      while (ofStream.length > 0) {
        const { staging } = ofStream[0]!;
        if (!this.#session.driver.eventQuery(staging.event, { peek: true })) break;
        ofStream.shift();
        this.#pendingByteLength -= staging.allocation.buffer.byteLength;
        this.#session.staging.release(staging);
      }
      if (ofStream.length === 0) this.#pending.delete(stream);
    }
  }

  #findWhetherReadsPageableMemory({ ordinal }: CudaDevice): boolean {
    try {
      return this.#session.driver.deviceGetAttribute(ordinal, deviceAttributes.pageableMemoryAccess) !== 0;
    } catch (error) {
      // The driver is older than the attribute.
      if (error instanceof CudaError) return false;
      throw error;
    }
  }
}

function roundUp(byteLength: number): number {
  return Math.ceil(byteLength / alignment) * alignment;
}
