import type { Stream, Work } from "../execution/streams/streams.ts";

/**
 * The work that uses an object. Keeps only the last work of each stream, because a stream's work completes in order.
 */
export class Uses {
  readonly #last = new Map<Stream, Work>();

  add(work: Work): void {
    for (const [stream, { done }] of this.#last) if (done) this.#last.delete(stream);
    this.#last.set(work.stream, work);
  }

  /** Whether all the work is done. */
  get areDone(): boolean {
    for (const { done } of this.#last.values()) if (!done) return false;
    return true;
  }
}
