/**
 * Waits of the library itself. The error of a collective is not theirs: it is left to the program's waits, of which each
 * stream throws it to one.
 *
 * @module
 */
import type { CudaDevice } from "../cuda_device.ts";
import { CudaStream, finishStream } from "./cuda_stream.ts";
import { deviceFinishedUnheard, sessionOfDevice } from "../device_sessions.ts";

/** Returns what a function returns whose waits, for a device's streams and events, are the library's own. */
export function unheard<Result>(device: CudaDevice, wait: () => Result): Result {
  return sessionOfDevice(device).unheard(wait);
}

/** Resolves when the work so far of a stream, or of a whole device, is done. */
export function finishedUnheard(work: CudaStream | CudaDevice): Promise<void> {
  return work instanceof CudaStream ? finishStream(work, {}, false) : deviceFinishedUnheard(work);
}
