import type { Driver, HostAllocation } from "./driver.ts";
import { eventFlags } from "./driver.ts";

/** The largest piece that a copy through page-locked memory is made of, in bytes. */
export const stagingPieceByteLength: number = 32 * 2 ** 20;

const smallestByteLength = 64 * 2 ** 10;
const keptByteLength = 2 * stagingPieceByteLength;

/** Page-locked memory, lent for one copy, and the event that says when the copy has been made. */
export interface StagingBuffer {
  readonly allocation: HostAllocation;
  readonly device: number;
  readonly event: bigint;
}

/** Page-locked memory that copies go through: locking pages is slow, so it is kept for the next copy. */
export class Staging {
  readonly #driver: Driver;
  readonly #idle: StagingBuffer[] = [];

  constructor(driver: Driver) {
    this.#driver = driver;
  }

  /** A buffer of at least `byteLength` bytes. Every lent buffer is given back. */
  lend(device: number, byteLength: number): StagingBuffer {
    const index = this.#idle.findIndex((idle) =>
      idle.device === device && idle.allocation.buffer.byteLength >= byteLength
    );
    if (index >= 0) return this.#idle.splice(index, 1)[0]!;
    const rounded = Math.max(smallestByteLength, 2 ** Math.ceil(Math.log2(byteLength)));
    const allocation = this.#driver.hostAlloc(rounded);
    try {
      const event = this.#driver.eventCreateWithFlags(device, eventFlags.disableTiming);
      return { allocation, device, event };
    } catch (error) {
      this.#driver.freeHost(allocation);
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

  #free({ allocation, device, event }: StagingBuffer): void {
    this.#driver.eventDestroy(device, event);
    this.#driver.freeHost(allocation);
  }
}
