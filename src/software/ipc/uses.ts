import type { Stream, Work } from "../execution/streams.ts";

/** The work that uses something: of each stream the last, after which the stream uses it no more. */
export class Uses {
  readonly #last = new Map<Stream, Work>();

  note(work: Work): void {
    for (const [stream, { done }] of this.#last) if (done) this.#last.delete(stream);
    this.#last.set(work.stream, work);
  }

  /** Whether all of it is done. */
  get areDone(): boolean {
    for (const { done } of this.#last.values()) if (!done) return false;
    return true;
  }
}
