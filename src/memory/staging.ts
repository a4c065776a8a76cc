import type { CudaStream } from "../objects/cuda_stream.ts";
import type { HostAllocation } from "../driver.ts";
import { ignoreLoss } from "../support/error_wording.ts";
import type { Session } from "../session.ts";

/** The largest piece that a copy through page-locked memory is made of, in bytes. */
export const stagingPieceByteLength: number = 8 * 2 ** 20;

const smallestByteLength = 64 * 2 ** 10;
/** More than a few reads at once give back is freed, which makes CUDA wait. */
const keptByteLength = 32 * stagingPieceByteLength;

/** Page-locked memory, lent for one copy, and the event that says when the copy has been made. */
export interface StagingBuffer {
  readonly allocation: HostAllocation;
  /** Recorded behind the copy. */
  readonly event: bigint;
  readonly device: number;
  /** The stream of the copy that it is lent for. */
  stream: CudaStream;
}

/** Page-locked memory that copies go through: locking pages is slow, so it is kept for the next copy. */
export class Staging {
  readonly #session: Session;
  readonly #idle: StagingBuffer[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  /** A buffer of at least `byteLength` bytes. Every lent buffer is given back. */
  lend(stream: CudaStream, byteLength: number): StagingBuffer {
    const device = stream.device.ordinal;
    const index = this.#idle.findIndex((idle) =>
      idle.device === device && idle.allocation.buffer.byteLength >= byteLength
    );
    if (index >= 0) {
      const buffer = this.#idle.splice(index, 1)[0]!;
      buffer.stream = stream;
      return buffer;
    }
    const rounded = Math.max(smallestByteLength, 2 ** Math.ceil(Math.log2(byteLength)));
    const allocation = this.#session.allocateHost(rounded);
    try {
      const event = this.#session.createMarker(device);
      return { allocation, event, device, stream };
    } catch (error) {
      this.#session.freeHost(allocation);
      throw error;
    }
  }

  giveBack(buffer: StagingBuffer): void {
    const kept = this.#idle.reduce((sum, { allocation }) => sum + allocation.buffer.byteLength, 0);
    if (kept + buffer.allocation.buffer.byteLength <= keptByteLength) this.#idle.push(buffer);
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
