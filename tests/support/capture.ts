import { dlopen } from "../../ffi/native/host.ts";
import type { Driver } from "../../src/driver.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import { CudaError, cudaErrorNumbers } from "../../src/support/errors.ts";

const cuStreamCaptureModeRelaxed = 2;

/**
 * Captures a stream into a graph, as another library would. The software device has no graphs: it answers as if the
 * stream were being captured, and still does the stream's work.
 */
export class Capture {
  readonly #end: () => boolean;

  constructor(driver: Driver, stream: CudaStream) {
    const handle = stream.unsafeHandle;
    this.#end = driver.kind === "software" ? pretendCapture(driver, handle) : beginCapture(handle);
  }

  /** Ends the capture and drops the graph. Returns whether the capture was valid. */
  end(): boolean {
    return this.#end();
  }
}

function beginCapture(stream: bigint): () => boolean {
  const { symbols } = dlopen("libcuda.so.1", {
    cuStreamBeginCapture_v2: { parameters: ["u64", "u32"], result: "i32" },
    cuStreamEndCapture: { parameters: ["u64", "buffer"], result: "i32" },
    cuGraphDestroy: { parameters: ["u64"], result: "i32" },
  });
  const result = symbols.cuStreamBeginCapture_v2!(stream, cuStreamCaptureModeRelaxed);
  if (result !== 0) throw new CudaError(result, "cuStreamBeginCapture");
  return () => {
    const graph = new BigUint64Array(1);
    const isValid = symbols.cuStreamEndCapture!(stream, new Uint8Array(graph.buffer)) === 0;
    if (isValid) symbols.cuGraphDestroy!(graph[0]!);
    return isValid;
  };
}

function pretendCapture(driver: Driver, stream: bigint): () => boolean {
  const { streamIsCapturing, ctxRecordEvent } = driver;
  let isValid = true;
  driver.streamIsCapturing = (_device, other) => other === stream;
  driver.ctxRecordEvent = () => {
    isValid = false;
    throw new CudaError(cudaErrorNumbers.cudaErrorStreamCaptureUnsupported, "cuCtxRecordEvent");
  };
  return () => {
    Object.assign(driver, { streamIsCapturing, ctxRecordEvent });
    return isValid;
  };
}
