/**
 * The device and objects that poolpass's workloads use.
 *
 * @module
 */
import { type Cuda, type CudaDevice, type CudaStream, type MemoryPool, open } from "../../mod.ts";
import type { Request } from "../sharing/contract.ts";

/** The largest number of streams that a workload uses. */
const streamCount = 8;

/** A device and objects on it, which exist as long as the program runs. */
export interface Fixture {
  readonly cuda: Cuda;
  readonly device: CudaDevice;
  readonly pool: MemoryPool;
  readonly streams: readonly CudaStream[];
  /** The first of the streams. */
  readonly stream: CudaStream;
  /** Waits for all streams. */
  synchronize(): void;
}

/** Workloads by name. Each returns the nanoseconds per operation, for each sample. */
export type Workloads = Readonly<Record<string, (request: Request) => number[]>>;

/** Opens the first device, with non-blocking streams and a pool that keeps its memory reserved. */
export function openFixture(): Fixture {
  const cuda = open();
  const device = cuda.device(0);
  const pool = device.createPool({ releaseThreshold: Infinity });
  const streams = Array.from({ length: streamCount }, () => device.createStream({ nonBlocking: true }));
  const synchronize = () => streams.forEach((stream) => stream.synchronize());
  return { cuda, device, pool, streams, stream: streams[0]!, synchronize };
}
