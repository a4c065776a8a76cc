import { streamCaptureMode } from "../../driver.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError, cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import { printAs } from "../../support/printing.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";
import { checkOptions, type KnownOptions, refuseConstruction, shown } from "../../support/validation.ts";
import type { CudaStream } from "../streams/cuda_stream.ts";
import { ActiveCapture } from "./captures.ts";
import { CudaGraph } from "./cuda_graph.ts";

/** Options of a capture. */
export interface CaptureOptions {
  /**
   * Which calls of other libraries CUDA itself refuses meanwhile, because they might disturb the capture: with "global",
   * those of threads on which this library was not opened. "thread-local" and "relaxed" refuse none, because `open` sets
   * the mode of its own thread to relaxed. What this library refuses does not depend on it. Defaults to "relaxed", so
   * that a capture disturbs nobody.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   */
  mode?: "relaxed" | "thread-local" | "global";
}

const modes = {
  "relaxed": streamCaptureMode.relaxed,
  "thread-local": streamCaptureMode.threadLocal,
  "global": streamCaptureMode.global,
} as const;

/** Describes the options of a capture, for validation by `checkOptions`. */
export const captureOptions: KnownOptions<CaptureOptions> = {
  action: "capture a stream",
  names: { mode: true },
};

const refusalToClone = cloneRefusal("a GraphCapture", openInWorker);

/** Advice for the errors of a capture's end. */
const adviceAtEnd: Readonly<Record<string, string>> = {
  cudaErrorStreamCaptureUnjoined:
    "a stream has joined the capture, and the captured stream does not wait for its work: call wait before the end",
  cudaErrorStreamCaptureInvalidated:
    "another library or another Worker has made a call that ends captures, such as cudaDeviceSynchronize",
};

/**
 * A capture that has begun. Comes from `CudaStream.beginCapture` and `CudaStream.capture`. Disposing of it without `end`
 * drops what was captured.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
 */
export class GraphCapture implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The stream on which the capture began, and on which it ends. */
  readonly stream: CudaStream;
  readonly #session: Session;
  readonly #capture: ActiveCapture;
  #isEnded = false;

  static {
    printAs(
      this,
      "GraphCapture",
      (capture) => `GraphCapture { device ${capture.stream.device.ordinal}, ${capture.#isEnded ? "ended" : "active"} }`,
      ["stream", ["state", (capture) => capture.#isEnded ? "ended" : "active"]],
    );
  }

  /**
   * Captures come from `CudaStream.beginCapture`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { stream = refuseConstruction("GraphCapture", "CudaStream.beginCapture"), mode }: {
      stream: CudaStream;
      /** One of `streamCaptureMode`. */
      mode: number;
    } = {} as never,
  ) {
    this.#session = session;
    this.stream = stream;
    const { device: { ordinal }, unsafeHandle } = stream;
    this.#capture = new ActiveCapture(stream, {
      drop: () => this[Symbol.dispose](),
      allocateHost: (byteLength) => session.allocateHost(byteLength),
      freeHost: (memory) => session.freeHost(memory),
    });
    session.captures.add(this.#capture);
    try {
      session.driver.streamBeginCapture(ordinal, unsafeHandle, mode);
    } catch (error) {
      session.captures.delete(this.#capture);
      throw error;
    }
    session.onCapturesChanged();
    this.#capture.resources.hold();
  }

  /**
   * Ends the capture, and returns its graph.
   *
   * @throws {ReferenceError} If the capture has ended, or its stream was disposed
   * @throws {CudaError} `cudaErrorStreamCaptureUnjoined` if a stream was not joined, `cudaErrorStreamCaptureInvalidated`
   * if another library or Worker has made a call that ends captures
   */
  end(): CudaGraph {
    if (this.#isEnded) {
      throw new ReferenceError("Cannot end the capture: it has ended, or its stream or Cuda object was disposed");
    }
    const { device } = this.stream;
    const { resources, notes } = this.#capture;
    try {
      const handle = this.#end();
      resources.onCaptured();
      return new CudaGraph(this.#session, { device, handle, resources, notes });
    } catch (error) {
      const advice = error instanceof CudaError ? adviceAtEnd[error.code] : undefined;
      throw cannot(`capture a stream of device ${device.ordinal}`, error, advice);
    } finally {
      resources.drop();
    }
  }

  /** Ends the capture, and drops what was captured. Does nothing if the capture has ended. */
  [Symbol.dispose](): void {
    if (this.#isEnded) return;
    try {
      this.#session.driver.graphDestroy(this.#end());
    } catch (error) {
      // A capture that was invalidated, or whose streams were not joined, has no graph.
      if (!(error instanceof CudaError) || !/StreamCapture/.test(error.code)) throw error;
    } finally {
      this.#capture.resources.drop();
    }
  }

  #end(): bigint {
    this.#isEnded = true;
    const { device: { ordinal }, unsafeHandle } = this.stream;
    try {
      return this.#session.driver.streamEndCapture(ordinal, unsafeHandle);
    } finally {
      this.#session.captures.delete(this.#capture);
      this.#session.onCapturesChanged();
    }
  }
}

/** Begins the capture of a stream. */
export function beginCapture(stream: CudaStream, session: Session, options: CaptureOptions): GraphCapture {
  checkOptions(options, captureOptions);
  const { mode = "relaxed" } = options;
  if (!Object.hasOwn(modes, mode)) {
    throw new TypeError(
      `Cannot capture a stream in the mode ${shown(mode)}: give "relaxed", "thread-local" or "global"`,
    );
  }
  const { device, unsafeHandle } = stream;
  const what = `capture a stream of device ${device.ordinal}`;
  if (stream === device.defaultStream) {
    throw new TypeError(
      `Cannot capture the default stream of device ${device.ordinal}: create a stream, and capture that`,
    );
  }
  if (session.driver.streamIsCapturing(device.ordinal, unsafeHandle)) {
    const number = cudaErrorNumbers.cudaErrorStreamCaptureUnsupported;
    throw cannot(
      what,
      explainedError(number, "cudaStreamBeginCapture", "it is being captured already; end that first"),
    );
  }
  try {
    return new GraphCapture(session, { stream, mode: modes[mode] });
  } catch (error) {
    throw cannot(what, error);
  }
}
