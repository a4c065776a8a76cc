/**
 * Page-locked memory for copies between host and device, and the uploads that use it.
 *
 * @module
 */
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { HostAllocation } from "../../driver.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import type { Session } from "../../session.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { deviceAttributes } from "../../support/device_attributes.ts";
import { CudaError } from "../../support/errors.ts";
import { roundUp } from "../../support/rounding.ts";
import { type CopyPlace, enqueueFromHost } from "./copies.ts";

/** Maximum number of bytes of one piece that is copied through page-locked memory. */
export const stagingPieceByteLength: number = 8 * 2 ** 20;

interface SizeClass {
  readonly byteLength: number;
  /**
   * Maximum number of idle buffers that are kept. Further buffers are freed, although CUDA waits for pending work when
   * it frees them.
   */
  readonly maximumIdle: number;
}

/**
 * The sizes of staging buffers, from small to large. A copy uses a buffer of the smallest class that is large enough.
 */
const sizeClasses: readonly SizeClass[] = [
  { byteLength: 64 * 2 ** 10, maximumIdle: 256 },
  { byteLength: 2 ** 20, maximumIdle: 64 },
  { byteLength: stagingPieceByteLength, maximumIdle: 32 },
];

/** Page-locked memory for copies, and an event that completes with the copies. */
export interface StagingBuffer {
  readonly allocation: HostAllocation;
  /** The event, which is recorded after the copies. */
  readonly event: bigint;
  readonly device: number;
  /** The stream of the copies. */
  stream: CudaStream;
  /** The position of the latest event record in the stream's `StreamProgress`. */
  position: number;
}

/** A cache of page-locked memory for copies: locking pages is slow. */
export class Staging {
  readonly #session: Session;
  /** The idle buffers of each class. */
  readonly #idle: readonly StagingBuffer[][] = sizeClasses.map(() => []);

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Returns a buffer of at least `byteLength` bytes; `byteLength` is at most `stagingPieceByteLength`. The caller
   * releases the buffer.
   */
  acquire(stream: CudaStream, byteLength: number): StagingBuffer {
    const device = stream.device.ordinal;
    const sizeClass = classOf(byteLength);
    const idle = this.#idle[sizeClass]!;
    const index = idle.findLastIndex((buffer) => buffer.device === device);
    if (index >= 0) {
      const buffer = idle.splice(index, 1)[0]!;
      buffer.stream = stream;
      this.#session.completed.deleteMarker(buffer.event);
      return buffer;
    }
    const allocation = this.#session.allocateHost(sizeClasses[sizeClass]!.byteLength);
    try {
      const event = this.#session.createMarker(device);
      return { allocation, event, device, stream, position: 0 };
    } catch (error) {
      this.#session.freeHost(allocation);
      throw error;
    }
  }

  /** Makes a buffer available for reuse. The buffer's copies must be complete, or never have been enqueued. */
  release(buffer: StagingBuffer): void {
    this.#session.completed.addMarker(buffer.event);
    const sizeClass = classOf(buffer.allocation.buffer.byteLength);
    const idle = this.#idle[sizeClass]!;
    if (idle.length < sizeClasses[sizeClass]!.maximumIdle) idle.push(buffer);
    else this.#free(buffer);
  }

  close(): void {
    for (const idle of this.#idle) for (const buffer of idle.splice(0)) this.#free(buffer);
  }

  #free({ allocation, event }: StagingBuffer): void {
    this.#session.destroyMarker(event);
    ignoreLoss(() => this.#session.freeHost(allocation));
  }
}

/** Returns the index of the smallest class whose buffers have at least `byteLength` bytes. */
function classOf(byteLength: number): number {
  return sizeClasses.findIndex((sizeClass) => sizeClass.byteLength >= byteLength);
}

/**
 * Maximum total size in bytes of the page-locked memory that pending uploads use. Beyond it, an upload waits for
 * earlier ones.
 */
const maximumPendingByteLength = 32 * stagingPieceByteLength;
/** Uploads start at multiples of this many bytes in a staging buffer. */
const alignment = 256;

/** A staging buffer that contains the captured bytes of uploads on one stream. */
interface Captured {
  readonly staging: StagingBuffer;
  /** The offset in bytes at which the next captured bytes are stored. */
  end: number;
}

/**
 * Copies pageable memory to devices through page-locked memory. Each call of `copy` captures the bytes before it
 * returns, without waiting for earlier work of the stream.
 *
 * Each staging buffer is used by copies of one stream only; its event is recorded again after each copy. Buffers whose
 * copies are complete are released at the next copy, without a timer; those of the last copies are kept until the
 * session frees all of its memory.
 */
export class Uploads {
  readonly #session: Session;
  /** The buffers whose copies are not known to be complete, by stream, from the oldest to the newest. */
  readonly #pending = new Map<CudaStream, Captured[]>();
  #pendingByteLength = 0;
  /** Whether each device reads pageable memory directly, indexed by the device's ordinal. */
  readonly #readPageableMemory: boolean[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Returns whether the device reads pageable memory directly, so that CUDA may read it after the copy call has
   * returned.
   */
  readsPageableMemory(device: CudaDevice): boolean {
    return this.#readPageableMemory[device.ordinal] ??= this.#findWhetherReadsPageableMemory(device);
  }

  /**
   * Captures the bytes and enqueues copies of them.
   *
   * If the pending copies of all streams have captured 256 MiB, blocks until copies on this stream have released enough
   * memory, or none is pending on this stream.
   */
  copy({ allocation, address }: CopyPlace, bytes: Uint8Array, stream: CudaStream): void {
    for (let begin = 0; begin < bytes.byteLength; begin += stagingPieceByteLength) {
      const piece = bytes.subarray(begin, begin + stagingPieceByteLength);
      this.capture(piece.byteLength, stream, (captured) => {
        captured.set(piece);
        enqueueFromHost({ allocation, address: address + BigInt(begin) }, captured, stream);
      });
    }
  }

  /**
   * Captures one piece. `use` gets page-locked memory of `byteLength` bytes, which is at most `stagingPieceByteLength`.
   * It captures the bytes and enqueues the copy of them. Blocks like `copy`.
   */
  capture(byteLength: number, stream: CudaStream, use: (captured: Uint8Array) => void): void {
    this.#releaseComplete();
    const { staging, begin } = this.#reserve(stream, byteLength);
    use(new Uint8Array(staging.allocation.buffer, begin, byteLength));
    this.#session.driver.eventRecord(stream.device.ordinal, staging.event, stream.unsafeHandle);
  }

  /** Reserves space in page-locked memory, in the stream's newest buffer if that has enough left. */
  #reserve(stream: CudaStream, byteLength: number): { staging: StagingBuffer; begin: number } {
    const newest = this.#pending.get(stream)?.at(-1);
    let wanted = byteLength;
    if (newest !== undefined) {
      const { staging, end } = newest;
      const capacity = staging.allocation.buffer.byteLength;
      if (end + byteLength <= capacity) {
        newest.end = roundUp(end + byteLength, alignment);
        return { staging, begin: end };
      }
      // A stream that has filled a buffer gets a larger one, so that many small copies use few buffers.
      wanted = Math.max(byteLength, Math.min(capacity + 1, stagingPieceByteLength));
    }
    this.#waitForRoom(stream, wanted);
    const staging = this.#session.staging.acquire(stream, wanted);
    // The buffer counts as pending before its first copy is enqueued: if a later call fails, the buffer's event still
    // shows when the buffer can be reused.
    const captured = { staging, end: roundUp(byteLength, alignment) };
    const ofStream = this.#pending.get(stream);
    if (ofStream === undefined) this.#pending.set(stream, [captured]);
    else ofStream.push(captured);
    this.#pendingByteLength += staging.allocation.buffer.byteLength;
    return { staging, begin: 0 };
  }

  /**
   * Blocks while too many bytes are pending. Waits only for copies of the same stream: other streams may be waiting for
   * work that the program has yet to enqueue.
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
      // The driver is too old to know the attribute.
      if (error instanceof CudaError) return false;
      throw error;
    }
  }
}
