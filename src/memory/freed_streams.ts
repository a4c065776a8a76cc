import type { CudaDevice } from "../objects/cuda_device.ts";
import type { CudaStream } from "../objects/cuda_stream.ts";

/** Streams that are remembered before those that are gone are looked for. */
const sweepSize = 64;

/**
 * The streams on which a pool's memory was freed.
 *
 * A pool that is destroyed before the device has got to its frees takes the driver down with it (580: a later destroy
 * crashes, in C as well), and an imported one before the host has waited for them leaves a descriptor open for ever.
 */
export class FreedStreams {
  readonly #streams = new Set<CudaStream>();
  /** The devices of streams that are gone: nothing less can be waited for. */
  readonly #devices = new Set<CudaDevice>();
  #last: CudaStream | undefined;

  /** Notes a free. */
  note(stream: CudaStream): void {
    if (stream === this.#last) return;
    this.#last = stream;
    this.#streams.add(stream);
    if (this.#streams.size % sweepSize === 0) this.#sweep();
  }

  /** Resolves when the frees are done; where their device is lost, too. */
  async finished(): Promise<void> {
    this.#sweep();
    await Promise.allSettled([...this.#streams, ...this.#devices].map((each) => each.finished()));
  }

  /** Blocks until the frees are done. */
  synchronize(): void {
    this.#sweep();
    for (const each of [...this.#streams, ...this.#devices]) each.synchronize();
    this.#streams.clear();
    this.#devices.clear();
    this.#last = undefined;
  }

  #sweep(): void {
    for (const stream of this.#streams) {
      if (!stream.disposed) continue;
      this.#streams.delete(stream);
      this.#devices.add(stream.device);
    }
  }
}
