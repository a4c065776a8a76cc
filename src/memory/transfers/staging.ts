import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { HostAllocation } from "../../driver.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import type { Session } from "../../session.ts";

/** Size of the largest piece that is copied through page-locked memory, in bytes. */
export const stagingPieceByteLength: number = 8 * 2 ** 20;

interface SizeClass {
  readonly byteLength: number;
  /** Idle buffers to keep. Buffers beyond that are freed, although freeing makes CUDA wait. */
  readonly maximumIdle: number;
}

/** The sizes of staging buffers, from small to large. A copy never takes a buffer of a larger class than it needs. */
const sizeClasses: readonly SizeClass[] = [
  { byteLength: 64 * 2 ** 10, maximumIdle: 256 },
  { byteLength: 2 ** 20, maximumIdle: 64 },
  { byteLength: stagingPieceByteLength, maximumIdle: 32 },
];

/** Page-locked memory for copies, and an event that completes with the copies. */
export interface StagingBuffer {
  readonly allocation: HostAllocation;
  /** Recorded after the copies. */
  readonly event: bigint;
  readonly device: number;
  /** The stream of the copies. */
  stream: CudaStream;
  /** The position of the event in the stream's progress. */
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

  /** Returns a buffer of at least `byteLength` bytes, at most `stagingPieceByteLength`. The caller releases it. */
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

  /** Makes a buffer available again. Its copies are complete, or were never enqueued. */
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

/** The index of the smallest class whose buffers have at least `byteLength` bytes. */
function classOf(byteLength: number): number {
  return sizeClasses.findIndex((sizeClass) => sizeClass.byteLength >= byteLength);
}
