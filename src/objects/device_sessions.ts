/**
 * Which `Cuda` object a device is of: apart from `CudaDevice`, which pools make use of and which makes pools.
 *
 * @module
 */
import type { CudaDevice } from "./cuda_device.ts";
import type { Session } from "../session.ts";
import { errorOfAnotherCuda, whatIs } from "../support/validation.ts";

const sessions = new WeakMap<CudaDevice, Session>();

/** Says that a device that is being made is of a session. */
export function noteDevice(device: CudaDevice, session: Session): void {
  sessions.set(device, session);
}

/** Throws unless it is a device, and of the same `Cuda` object as what it is to be used with. */
export function checkDevice(device: CudaDevice, session: Session): void {
  const own = sessions.get(device);
  if (own === session) return;
  if (own === undefined) {
    throw new TypeError(
      `Cannot use ${whatIs(device, "CudaDevice")} as a device: give one of Cuda.devices, or what Cuda.device finds`,
    );
  }
  throw errorOfAnotherCuda("use a device");
}
