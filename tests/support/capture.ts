import { type Driver, streamCaptureMode } from "../../src/driver.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";

/** A capture of a stream into a graph by another library, which this library was not told about. */
export class Capture {
  readonly #driver: Driver;
  readonly #device: number;
  readonly #stream: bigint;

  /** Begins the capture. `mode` is one of `streamCaptureMode`. */
  constructor(driver: Driver, stream: CudaStream, mode: number = streamCaptureMode.relaxed) {
    this.#driver = driver;
    this.#device = stream.device.ordinal;
    this.#stream = stream.unsafeHandle;
    driver.streamBeginCapture(this.#device, this.#stream, mode);
  }

  /** Ends the capture and drops the graph. Returns whether the capture was valid. */
  end(): boolean {
    try {
      this.#driver.graphDestroy(this.#driver.streamEndCapture(this.#device, this.#stream));
      return true;
    } catch {
      return false;
    }
  }
}
