import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkDevice } from "../../objects/device_sessions.ts";
import { memAccessFlags, memLocationType } from "../../driver.ts";
import { CudaError, cudaErrorNumbers } from "../../support/errors.ts";
import { cannot } from "../../support/driver_errors.ts";
import type { Session } from "../../session.ts";
import { didYouMean, shown } from "../../support/validation.ts";

/**
 * What a device may do with memory. Of pools, CUDA defines "read", but driver 580 gives `cudaErrorNotSupported` for it; it
 * is for memory that is mapped in an `AddressRange`.
 */
export type Access = "none" | "read" | "read-write";

/** `memAccessFlags` by access. */
export const flagsByAccess: Readonly<Record<Access, number>> = {
  "none": memAccessFlags.none,
  "read": memAccessFlags.read,
  "read-write": memAccessFlags.readWrite,
};

/** Returns a device's access to a pool, by `cudaMemPoolGetAccess`. */
export function getPoolAccess(session: Session, pool: bigint, { device }: { device: CudaDevice }): Access {
  checkDevice(device, session);
  let flags: number;
  try {
    flags = session.driver.memPoolGetAccess(pool, { type: memLocationType.device, id: device.ordinal });
  } catch (error) {
    throw cannot(`get the access of device ${device.ordinal} to a pool`, error);
  }
  if (flags === memAccessFlags.readWrite) return "read-write";
  return flags === memAccessFlags.read ? "read" : "none";
}

/**
 * Sets the access of devices to a pool, by `cudaMemPoolSetAccess`, after checking that each can be a peer of the pool's
 * device.
 *
 * @param options.poolDevice The pool's own device; undefined for host memory.
 */
export function setPoolAccess(
  session: Session,
  pool: bigint,
  { devices, access, poolDevice }: {
    devices: CudaDevice | readonly CudaDevice[];
    access: Access;
    poolDevice: CudaDevice | undefined;
  },
): void {
  const list = checkAccess(session, devices, access);
  const flags = flagsByAccess[access];
  const ordinals = list.map(({ ordinal }) => ordinal).join(", ");
  for (const device of list) if (access !== "none") checkIsPeer(device, poolDevice);
  try {
    session.driver.memPoolSetAccess(
      pool,
      list.map(({ ordinal }) => ({ location: { type: memLocationType.device, id: ordinal }, flags })),
    );
  } catch (error) {
    throw cannot(`set access to "${access}" for device ${ordinals}`, error, hintFor(access, error));
  }
}

/** Checks the arguments of `setAccess`, and returns the devices as a list. */
export function checkAccess(
  session: Session,
  devices: CudaDevice | readonly CudaDevice[],
  access: Access,
): readonly CudaDevice[] {
  if (typeof devices === "string") {
    throw new TypeError(`Cannot set access for ${shown(devices)}: the devices come first: setAccess(devices, access)`);
  }
  if (typeof access !== "string" || !Object.hasOwn(flagsByAccess, access)) {
    throw new TypeError(
      `Cannot set the access ${shown(access)}: it must be "none", "read" or "read-write"` +
        didYouMean(access, Object.keys(flagsByAccess)),
    );
  }
  const list = Array.isArray(devices) ? devices as readonly CudaDevice[] : [devices as CudaDevice];
  for (const device of list) checkDevice(device, session);
  return list;
}

/**
 * Throws if the device is neither the pool's own nor its peer. Driver versions differ in the error that they report for
 * this.
 */
function checkIsPeer(device: CudaDevice, poolDevice: CudaDevice | undefined): void {
  if (poolDevice === undefined || device.ordinal === poolDevice.ordinal || device.canAccessPeer(poolDevice)) return;
  const message = `Cannot give device ${device.ordinal} access to a pool of device ${poolDevice.ordinal}: ` +
    "the devices are not peers; copy the memory instead";
  throw new CudaError(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, "cudaMemPoolSetAccess", message);
}

function hintFor(access: Access, error: unknown): string | undefined {
  if (!(error instanceof CudaError)) return undefined;
  if (error.code === "cudaErrorNotSupported" && access === "read") return 'use "read-write"';
  return error.code === "cudaErrorInvalidDevice" && access === "none"
    ? "a pool's own device keeps its access"
    : undefined;
}
