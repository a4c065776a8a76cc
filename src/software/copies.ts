/**
 * Copying as work of streams, and the page-locked memory that is copied from and to.
 *
 * @module
 */
import { cudaErrorNumbers } from "../cuda_error_codes.ts";
import { fail } from "./failure.ts";
import type { Scheduler, Stream, Work } from "./streams.ts";
import { Uses } from "./uses.ts";

const sliceByteLength = 2 ** 20;

/** One driver's copies. */
export class Copies {
  readonly #scheduler: Scheduler;
  /** What uses each page-locked buffer. */
  readonly #pinned = new Map<ArrayBufferLike, Uses>();

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  /** `cudaHostAlloc`. */
  allocateHost(byteLength: number): ArrayBuffer {
    if (byteLength === 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaHostAlloc");
    let buffer: ArrayBuffer;
    try {
      buffer = new ArrayBuffer(byteLength);
    } catch {
      return fail(cudaErrorNumbers.cudaErrorMemoryAllocation, "cudaHostAlloc");
    }
    this.#pinned.set(buffer, new Uses());
    return buffer;
  }

  /** `cudaFreeHost`: blocks until no copy uses the buffer. */
  freeHost(buffer: ArrayBuffer): void {
    const uses = this.#pinned.get(buffer) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaFreeHost");
    this.#scheduler.runUntil(() => uses.areDone);
    this.#pinned.delete(buffer);
  }

  fromHost(stream: Stream, to: Uint8Array, from: Uint8Array): void {
    const uses = this.#pinned.get(from.buffer);
    const work = this.copy(stream, to, uses === undefined ? from.slice() : from);
    uses?.note(work);
  }

  /** Blocks until the copy is done where the memory is pageable. */
  toHost(stream: Stream, to: Uint8Array, from: Uint8Array): void {
    const uses = this.#pinned.get(to.buffer);
    const work = this.copy(stream, to, from);
    if (uses !== undefined) uses.note(work);
    else this.#scheduler.runUntil(() => work.done);
  }

  /** CUDA leaves open what a copy between ranges that overlap does. Here they are as if copied at once. */
  copy(stream: Stream, to: Uint8Array, from: Uint8Array): Work {
    const { byteLength } = to;
    const isBackward = to.buffer === from.buffer && to.byteOffset > from.byteOffset;
    return this.#enqueueSlices(stream, byteLength, (begin, end) => {
      const [first, last] = isBackward ? [byteLength - end, byteLength - begin] : [begin, end];
      to.set(from.subarray(first, last), first);
    });
  }

  fill(stream: Stream, to: Uint8Array, byte: number): void {
    this.#enqueueSlices(stream, to.byteLength, (begin, end) => to.fill(byte, begin, end));
  }

  #enqueueSlices(stream: Stream, byteLength: number, slice: (begin: number, end: number) => void): Work {
    let done = 0;
    return this.#scheduler.enqueue(stream, () => {
      const end = Math.min(done + sliceByteLength, byteLength);
      slice(done, end);
      done = end;
      return done === byteLength;
    });
  }
}
