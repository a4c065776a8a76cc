/**
 * The session of each device, and a wait for it. They are not kept in `cuda_device.ts`, because pools need it and `cuda_device.ts` imports
 * pools.
 *
 * @module
 */
import type { CudaDevice } from "./cuda_device.ts";
import type { Session } from "../session.ts";
import { errorOfAnotherCuda, whatIs } from "../support/validation.ts";

/** What others than the device itself need of it. */
interface DeviceParts {
  readonly session: Session;
  /** Does what `CudaDevice.finished` does, and leaves errors of collectives to the program's waits. */
  readonly finishedWithoutErrors: () => Promise<void>;
}

const parts = new WeakMap<CudaDevice, DeviceParts>();

/** Registers the session of a new device. */
export function registerDevice(device: CudaDevice, throwErrorOfDevice: DeviceParts): void {
  parts.set(device, throwErrorOfDevice);
}

/** Resolves when all work of a device is done. Errors of collectives are left to the program's waits. */
export function deviceFinishedWithoutErrors(device: CudaDevice): Promise<void> {
  return parts.get(device)!.finishedWithoutErrors();
}

/** The session of a device. Throws a `TypeError` unless `device` is one. */
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
