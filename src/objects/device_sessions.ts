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

/** The session of a device. Throws a `TypeError` unless `device` is one. */
export function sessionOfDevice(device: CudaDevice): Session {
  return sessions.get(device) ?? refuseDevice(device);
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
