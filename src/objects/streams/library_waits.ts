/**
 * Waits of the library itself. They throw no errors of collectives: each stream's error is thrown once, by a wait of the
 * program.
 *
 * @module
 */
import type { CudaDevice } from "../cuda_device.ts";
import { CudaStream, finishStream } from "./cuda_stream.ts";
import { deviceFinishedWithoutErrors, sessionOfDevice } from "../device_sessions.ts";

/** Calls a function whose waits for a device's streams and events are the library's own. Returns its result. */
export function withoutCollectiveErrors<Result>(device: CudaDevice, wait: () => Result): Result {
  return sessionOfDevice(device).withoutCollectiveErrors(wait);
}

/** Resolves when the work that was enqueued on a stream or device so far is complete, without throwing such errors. */
export function finishedWithoutErrors(work: CudaStream | CudaDevice): Promise<void> {
  return work instanceof CudaStream ? finishStream(work, {}, false) : deviceFinishedWithoutErrors(work);
}
