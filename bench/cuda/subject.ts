/**
 * What the works of poolpass are done with.
 *
 * @module
 */
import { type Cuda, type CudaDevice, type CudaStream, type MemoryPool, open } from "../../mod.ts";
import type { Request } from "../sharing/contract.ts";

/** The most streams that a work uses. */
const streamCount = 8;

/** A device with what was made on it, for as long as the program runs. */
export interface Subject {
  readonly cuda: Cuda;
  readonly device: CudaDevice;
  readonly pool: MemoryPool;
  readonly streams: readonly CudaStream[];
  /** The first of the streams. */
  readonly stream: CudaStream;
  /** Waits for all of the streams. */
  synchronize(): void;
}

/** Works by name: each gives nanoseconds for each operation of each sample. */
export type Works = Readonly<Record<string, (request: Request) => number[]>>;

/** The first device, with streams that do not wait for the default stream and a pool that keeps its memory. */
export function openSubject(): Subject {
  const cuda = open();
  const device = cuda.device(0);
  const pool = device.createPool({ releaseThreshold: Infinity });
  const streams = Array.from({ length: streamCount }, () => device.createStream({ nonBlocking: true }));
  const synchronize = () => streams.forEach((stream) => stream.synchronize());
  return { cuda, device, pool, streams, stream: streams[0]!, synchronize };
}
