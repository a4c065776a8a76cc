/**
 * The session of each device. It is not kept in `cuda_device.ts`, because pools need it and `cuda_device.ts` imports
 * pools.
 *
 * @module
 */
import type { CudaDevice } from "./cuda_device.ts";
import type { Session } from "../session.ts";
import { errorOfAnotherCuda, whatIs } from "../support/validation.ts";

const sessions = new WeakMap<CudaDevice, Session>();

/** Registers the session of a new device. */
export function registerDevice(device: CudaDevice, session: Session): void {
  sessions.set(device, session);
}

/** Throws unless `device` is a device of the `Cuda` object that `session` belongs to. */
export function checkDevice(device: CudaDevice, session: Session): void {
  const own = sessions.get(device);
  if (own === session) return;
  if (own === undefined) {
    throw new TypeError(
      `Cannot use ${whatIs(device, "CudaDevice")} as a device: give a CudaDevice from Cuda.device or Cuda.devices`,
    );
  }
  throw errorOfAnotherCuda("use a device");
}
