/**
 * Copies and fills as work of streams.
 *
 * @module
 */
import type { HostMemory } from "../../memory/host_memory.ts";
import type { MemoryShadow } from "../../memory/memory_shadow.ts";
import type { Scheduler, Stream, Work } from "./streams.ts";

/** Bytes, values or rows of one turn. */
const sliceLength = 2 ** 20;

/** The copies of one driver. */
export class Copies {
  readonly #scheduler: Scheduler;
  readonly #hostMemory: HostMemory;
  readonly #shadow: MemoryShadow | undefined;

  /** @param shadow tracks which bytes are initialized, if that is checked */
  constructor(scheduler: Scheduler, hostMemory: HostMemory, shadow: MemoryShadow | undefined) {
    this.#scheduler = scheduler;
    this.#hostMemory = hostMemory;
    this.#shadow = shadow;
  }

  /** Reads pageable memory at once, and page-locked memory when the stream reaches the copy. */
  fromHost(stream: Stream, to: Uint8Array, from: Uint8Array): void {
    this.copy(stream, to, this.#hostMemory.has(from.buffer) ? this.#hostMemory.bytesOf(from) : new Uint8Array(from));
  }

  /**
   * If the memory is pageable, blocks until the copy is done.
   *
   * @param onUninitialized called with the index of the first byte that nothing has written
   */
  toHost(stream: Stream, to: Uint8Array, from: Uint8Array, onUninitialized?: (index: number) => void): void {
    let isFound = onUninitialized === undefined;
    const work = this.copy(stream, this.#hostMemory.bytesOf(to), from, (part) => {
      const first = isFound ? undefined : this.#shadow?.firstUninitialized(part);
      if (first === undefined) return;
      isFound = true;
      onUninitialized!(part.byteOffset - from.byteOffset + first);
    });
    if (!this.#hostMemory.has(to.buffer)) this.#scheduler.runUntil(() => work.done);
  }

  /**
   * CUDA leaves copies between overlapping ranges undefined. Here, the result is as if all bytes were copied at once.
   */
  copy(stream: Stream, to: Uint8Array, from: Uint8Array, onPart?: (part: Uint8Array) => void): Work {
    const { byteLength } = to;
    const isBackward = to.buffer === from.buffer && to.byteOffset > from.byteOffset;
    return this.#enqueueSlices(stream, byteLength, (begin, end) => {
      const [first, last] = isBackward ? [byteLength - end, byteLength - begin] : [begin, end];
      const source = from.subarray(first, last);
      to.set(source, first);
      this.#shadow?.noteCopy(to.subarray(first, last), source);
      onPart?.(source);
    });
  }

  fill(stream: Stream, to: Uint8Array | Uint16Array | Uint32Array, value: number): void {
    this.#enqueueSlices(stream, to.length, (begin, end) => {
      to.fill(value, begin, end);
      this.#noteFill(to.subarray(begin, end));
    });
  }

  /** Fills the first `width` values of each row. Rows start `pitch` values apart. */
  fillRows(
    stream: Stream,
    to: Uint32Array,
    { value, width, pitch, height }: { value: number; width: number; pitch: number; height: number },
  ): void {
    this.#enqueueSlices(stream, height, (begin, end) => {
      for (let row = begin; row < end; row++) {
        to.fill(value, row * pitch, row * pitch + width);
        this.#noteFill(to.subarray(row * pitch, row * pitch + width));
      }
    });
  }

  #noteFill({ buffer, byteOffset, byteLength }: Uint8Array | Uint16Array | Uint32Array): void {
    this.#shadow?.noteCopy(new Uint8Array(buffer, byteOffset, byteLength), undefined);
  }

  /** Calls `slice` with parts of the range from 0 to `length`, one for each turn of the stream. */
  #enqueueSlices(stream: Stream, length: number, slice: (begin: number, end: number) => void): Work {
    let done = 0;
    return this.#scheduler.enqueue(stream, () => {
      const end = Math.min(done + sliceLength, length);
      slice(done, end);
      done = end;
      return done === length;
    });
  }
}
