import type { CudaStream } from "./cuda_stream.ts";

/**
 * The streams on which a pool's memory was freed.
 *
 * A pool that is destroyed before the device has got to its frees takes the driver down with it (580: a later destroy
 * crashes, in C as well), and an imported one before the host has waited for them leaves a descriptor open for ever.
 */
export class FreedStreams {
  readonly #streams = new Set<CudaStream>();
  #last: CudaStream | undefined;

  /** Notes a free. */
  note(stream: CudaStream): void {
    if (stream === this.#last) return;
    this.#last = stream;
    this.#streams.add(stream);
  }

  /** Blocks until the frees are done. */
  synchronize(): void {
    for (const stream of this.#streams) (stream.disposed ? stream.device : stream).synchronize();
    this.#streams.clear();
    this.#last = undefined;
  }
}
