/**
 * Maps each device to its session, and waits for devices. Separate from `cuda_device.ts`, because pools use this module
 * and `cuda_device.ts` imports pools.
 *
 * The library's own waits do not throw the errors of collectives: the error of each stream is thrown once, by a wait of
 * the program.
 *
 * @module
 */
import type { CudaDevice } from "./cuda_device.ts";
import type { Session } from "../session.ts";
import { errorOfAnotherCuda, whatIs } from "../support/validation.ts";
import { CudaStream, finishStream } from "./streams/cuda_stream.ts";
import { TypeError } from "../support/program_errors.ts";

/** The parts of a device's private state that other modules use. */
interface DeviceParts {
  readonly session: Session;
  /**
   * Like `CudaDevice.finished`, but does not throw errors of collectives, so that the program's own waits throw them.
   */
  readonly finishedWithoutErrors: () => Promise<void>;
}

const parts = new WeakMap<CudaDevice, DeviceParts>();

/** Registers the session of a new device. */
export function registerDevice(device: CudaDevice, own: DeviceParts): void {
  parts.set(device, own);
}

/** Resolves when all work of a device is done. Does not throw errors of collectives. */
function deviceFinishedWithoutErrors(device: CudaDevice): Promise<void> {
  return parts.get(device)!.finishedWithoutErrors();
}

/** Returns whether a value is a device, of any `Cuda` object. */
export function isDevice(value: unknown): value is CudaDevice {
  return typeof value === "object" && value !== null && parts.has(value as CudaDevice);
}

/** Returns the session of a device. Throws a `TypeError` if `device` is not a `CudaDevice`. */
export function sessionOfDevice(device: CudaDevice): Session {
  return parts.get(device)?.session ?? refuseDevice(device);
}

/** Throws unless `device` is a device of the `Cuda` object that `session` belongs to. */
export function checkDevice(device: CudaDevice, session: Session): void {
  if (sessionOfDevice(device) !== session) throw errorOfAnotherCuda("use a device");
}

function refuseDevice(device: unknown): never {
  throw new TypeError(
    `Cannot use ${whatIs(device, "CudaDevice")} as a device: give a CudaDevice from Cuda.device or Cuda.devices`,
  );
}

/**
 * Calls a function that waits for a device's streams and events, and returns its result. The waits do not throw errors
 * of collectives.
 */
export function withoutCollectiveErrors<Result>(device: CudaDevice, wait: () => Result): Result {
  return sessionOfDevice(device).withoutCollectiveErrors(wait);
}

/** Resolves when the work enqueued on a stream or device so far is complete. Does not throw errors of collectives. */
export function finishedWithoutErrors(work: CudaStream | CudaDevice): Promise<void> {
  return work instanceof CudaStream ? finishStream(work, {}, false) : deviceFinishedWithoutErrors(work);
}
