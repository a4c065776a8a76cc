import type { Driver } from "../driver.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import type { CudaStream } from "../objects/streams/cuda_stream.ts";
import { finishedUnheard, unheard } from "../objects/streams/unheard_waits.ts";
import { allSettledUnseen } from "../support/lost_devices.ts";

/** Disposed streams are replaced by their devices when the number of streams reaches a multiple of this. */
const sweepSize = 64;

/**
 * The streams on which a pool's memory was freed. They must be waited for before the pool is destroyed.
 *
 * If a pool is destroyed before the device has executed its frees, driver 580 may crash at a later
 * `cudaMemPoolDestroy`, in a C program too. If an imported pool is destroyed before the host has waited for its frees,
 * a descriptor stays open until the process ends.
 */
export class FreedStreams {
  readonly #streams = new Set<CudaStream>();
  /** The devices of disposed streams: such a stream can be waited for only through its device. */
  readonly #devices = new Set<CudaDevice>();
  #last: CudaStream | undefined;

  /** Adds the stream of a free. */
  add(stream: CudaStream): void {
    if (stream === this.#last) return;
    this.#last = stream;
    this.#streams.add(stream);
    if (this.#streams.size % sweepSize === 0) this.#sweep();
  }

  /** Yields the streams that are not disposed. */
  *[Symbol.iterator](): Generator<CudaStream> {
    for (const stream of this.#streams) if (!stream.disposed) yield stream;
  }

  /** Resolves when the frees are complete, or their device is lost. */
  async finished(): Promise<void> {
    this.#sweep();
    await allSettledUnseen([...this.#streams, ...this.#devices].map(finishedUnheard));
  }

  /** Blocks until the frees are complete. */
  synchronize(): void {
    this.#sweep();
    for (const stream of this.#streams) unheard(stream.device, () => stream.synchronize());
    for (const device of this.#devices) unheard(device, () => device.synchronize());
    this.#streams.clear();
    this.#devices.clear();
    this.#last = undefined;
  }

  /** Blocks until the frees are complete, at the end of the session, whose objects cannot be used any more. */
  synchronizeBy(driver: Driver): void {
    this.#sweep();
    for (const { device, unsafeHandle } of this.#streams) driver.streamSynchronize(device.ordinal, unsafeHandle);
    for (const { ordinal } of this.#devices) driver.deviceSynchronize(ordinal);
  }

  #sweep(): void {
    for (const stream of this.#streams) {
      if (!stream.disposed) continue;
      this.#streams.delete(stream);
      this.#devices.add(stream.device);
    }
  }
}
