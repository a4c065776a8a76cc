/**
 * The calls of `CudaDriver` that copy rows and batches. They go to libcuda: the structs of the runtime differ.
 *
 * @module
 */
import type { Driver } from "../src/driver.ts";
import type { DriverFunctions } from "./driver_equivalents.ts";
import { batchParams, NodeParams, peerCopyParams } from "./structs.ts";

/** The calls of a driver that copy rows and batches. */
export type CopyCalls = Pick<Driver, "memcpy3DAsync" | "memcpy3DPeerAsync" | "memcpyBatchAsync">;

/** What the calls need of the driver that they belong to. */
interface DriverServices {
  makeCurrent(device: number): void;
  /** Throws the error of a call unless its result is 0. */
  check(result: number, call: string): void;
  /** Whether the library has the call for batches of CUDA 13, which differs in a parameter from that of CUDA 12.8. */
  readonly hasNewBatches: boolean;
}

const params = new NodeParams();
const handleOut = new BigUint64Array(1);
const out = new Uint8Array(handleOut.buffer);

/** Returns the calls of a driver that copy rows and batches. */
export function copyCalls(
  cuda: DriverFunctions,
  { makeCurrent, check, hasNewBatches }: DriverServices,
): CopyCalls {
  const contextOf = (device: number): bigint => {
    makeCurrent(device);
    check(cuda.cuCtxGetCurrent(out), "cuCtxGetCurrent");
    return handleOut[0]!;
  };

  return {
    memcpy3DAsync(device, copy, stream) {
      makeCurrent(device);
      check(cuda.cuMemcpy3DAsync_v2(params.fillMemcpy3D(copy), stream), "cudaMemcpy3DAsync");
    },
    memcpy3DPeerAsync(device, copy, destinationDevice, sourceDevice, stream) {
      const contexts = { destination: contextOf(destinationDevice), source: contextOf(sourceDevice) };
      makeCurrent(device);
      check(cuda.cuMemcpy3DPeerAsync(peerCopyParams(copy, contexts), stream), "cudaMemcpy3DPeerAsync");
    },
    memcpyBatchAsync(device, copies, stream) {
      makeCurrent(device);
      const { destinations, sources, sizes, count, attributes, firsts, attributeCount } = batchParams(copies);
      const result = hasNewBatches
        ? cuda.cuMemcpyBatchAsync_v2(destinations, sources, sizes, count, attributes, firsts, attributeCount, stream)
        // `out` gets the index of the copy at fault, which is not reported for most errors.
        : cuda.cuMemcpyBatchAsync(destinations, sources, sizes, count, attributes, firsts, attributeCount, out, stream);
      check(result, "cudaMemcpyBatchAsync");
    },
  };
}
