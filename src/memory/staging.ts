import type { CudaStream } from "../objects/cuda_stream.ts";
import type { HostAllocation } from "../driver.ts";
import { ignoreLoss } from "../support/driver_errors.ts";
import type { Session } from "../session.ts";

/** Size of the largest piece that is copied through page-locked memory, in bytes. */
export const stagingPieceByteLength: number = 8 * 2 ** 20;

const minimumByteLength = 64 * 2 ** 10;
/**
 * Bytes of idle buffers to keep, enough for a few concurrent reads. Buffers beyond that are freed, although freeing
 * makes CUDA wait.
 */
const maximumIdleByteLength = 32 * stagingPieceByteLength;

/** Page-locked memory for one copy, and an event that completes with the copy. */
export interface StagingBuffer {
  readonly allocation: HostAllocation;
  /** Recorded after the copy. */
  readonly event: bigint;
  readonly device: number;
  /** The stream of the copy. */
  stream: CudaStream;
  /** The position of the event in the stream's progress. */
  position: number;
}

/** A cache of page-locked memory for copies: locking pages is slow. */
export class Staging {
  readonly #session: Session;
  readonly #idle: StagingBuffer[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  /** Returns a buffer of at least `byteLength` bytes. The caller releases it. */
  acquire(stream: CudaStream, byteLength: number): StagingBuffer {
    const device = stream.device.ordinal;
    const index = this.#idle.findIndex((idle) =>
      idle.device === device && idle.allocation.buffer.byteLength >= byteLength
    );
    if (index >= 0) {
      const buffer = this.#idle.splice(index, 1)[0]!;
      buffer.stream = stream;
      this.#session.completed.deleteMarker(buffer.event);
      return buffer;
    }
    const rounded = Math.max(minimumByteLength, 2 ** Math.ceil(Math.log2(byteLength)));
    const allocation = this.#session.allocateHost(rounded);
    try {
      const event = this.#session.createMarker(device);
      return { allocation, event, device, stream, position: 0 };
    } catch (error) {
      this.#session.freeHost(allocation);
      throw error;
    }
  }

  /** Makes a buffer available again. Its copy is complete, or was never enqueued. */
  release(buffer: StagingBuffer): void {
    this.#session.completed.addMarker(buffer.event);
    const idleByteLength = this.#idle.reduce((sum, { allocation }) => sum + allocation.buffer.byteLength, 0);
    if (idleByteLength + buffer.allocation.buffer.byteLength <= maximumIdleByteLength) this.#idle.push(buffer);
    else this.#free(buffer);
  }

  close(): void {
    for (const buffer of this.#idle.splice(0)) this.#free(buffer);
  }

  #free({ allocation, event }: StagingBuffer): void {
    this.#session.destroyMarker(event);
    ignoreLoss(() => this.#session.freeHost(allocation));
  }
}
