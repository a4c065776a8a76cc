import { dlopen } from "../../ffi/native/host.ts";
import type { Cuda } from "../../src/objects/cuda.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import { CudaError, cudaErrorNumbers } from "../../src/support/errors.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";

const cuStreamCaptureModeRelaxed = 2;

/**
 * Captures a stream into a graph, as another library would. The software device has no graphs: it answers as if the
 * stream were being captured, and still does the stream's work.
 */
export class Capture {
  readonly #end: () => boolean;

  constructor(cuda: Cuda, stream: CudaStream) {
    this.#end = cuda.driver === "software" ? pretendCapture(stream.unsafeHandle) : beginCapture(stream.unsafeHandle);
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

function pretendCapture(stream: bigint): () => boolean {
  const { streamIsCapturing, ctxRecordEvent } = SoftwareDriver.prototype;
  let isValid = true;
  SoftwareDriver.prototype.streamIsCapturing = (_device, other) => other === stream;
  SoftwareDriver.prototype.ctxRecordEvent = () => {
    isValid = false;
    throw new CudaError(cudaErrorNumbers.cudaErrorStreamCaptureUnsupported, "cuCtxRecordEvent");
  };
  return () => {
    Object.assign(SoftwareDriver.prototype, { streamIsCapturing, ctxRecordEvent });
    return isValid;
  };
}
