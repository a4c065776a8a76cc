import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkDevice } from "../objects/device_sessions.ts";
import { memAccessFlags, memLocationType } from "../driver.ts";
import { cudaErrorNumbers } from "../support/cuda_error_codes.ts";
import { CudaError } from "../support/errors.ts";
import { cannot } from "../support/error_wording.ts";
import type { Session } from "../session.ts";

/** What a device may do with a pool's memory. CUDA names "read"; the driver (580) gives `cudaErrorNotSupported` for it. */
export type Access = "none" | "read" | "read-write";

const flagsByAccess: Readonly<Record<Access, number>> = {
  "none": memAccessFlags.none,
  "read": memAccessFlags.read,
  "read-write": memAccessFlags.readWrite,
};

/** `cudaMemPoolGetAccess`. */
export function getPoolAccess(session: Session, pool: bigint, { device }: { device: CudaDevice }): Access {
  checkDevice(device, session);
  let flags: number;
  try {
    flags = session.driver.memPoolGetAccess(pool, { type: memLocationType.device, id: device.ordinal });
  } catch (error) {
    throw cannot(`tell what device ${device.ordinal} may do with a pool`, error);
  }
  if (flags === memAccessFlags.readWrite) return "read-write";
  return flags === memAccessFlags.read ? "read" : "none";
}

/**
 * `cudaMemPoolSetAccess`, once it is known that each device can be a peer of the pool's own.
 *
 * @param options.resident The pool's own device; undefined for host memory.
 */
export function setPoolAccess(
  session: Session,
  pool: bigint,
  { devices, access, resident }: {
    devices: CudaDevice | readonly CudaDevice[];
    access: Access;
    resident: CudaDevice | undefined;
  },
): void {
  if (!Object.hasOwn(flagsByAccess, access)) {
    throw new TypeError(`Cannot set the access "${access}": it is "none", "read" or "read-write"`);
  }
  const flags = flagsByAccess[access];
  const list = Array.isArray(devices) ? devices as readonly CudaDevice[] : [devices as CudaDevice];
  for (const device of list) checkDevice(device, session);
  const ordinals = list.map(({ ordinal }) => ordinal).join(", ");
  for (const device of list) if (access !== "none") checkIsPeer(device, resident);
  try {
    session.driver.memPoolSetAccess(
      pool,
      list.map(({ ordinal }) => ({ location: { type: memLocationType.device, id: ordinal }, flags })),
    );
  } catch (error) {
    throw cannot(`set access to "${access}" for device ${ordinals}`, error, hintFor(access, error));
  }
}

/** The driver's own answer for devices that are no peers is another one by version. */
function checkIsPeer(device: CudaDevice, resident: CudaDevice | undefined): void {
  if (resident === undefined || device.ordinal === resident.ordinal || device.canAccessPeer(resident)) return;
  const message = `Cannot give device ${device.ordinal} access to a pool of device ${resident.ordinal}: ` +
    "the two are no peers, copy the memory instead";
  throw new CudaError(cudaErrorNumbers.cudaErrorPeerAccessUnsupported, "cudaMemPoolSetAccess", message);
}

function hintFor(access: Access, error: unknown): string | undefined {
  if (!(error instanceof CudaError)) return undefined;
  if (error.code === "cudaErrorNotSupported" && access === "read") return 'use "read-write"';
  return error.code === "cudaErrorInvalidDevice" && access === "none"
    ? "a pool's own device keeps its access"
    : undefined;
}
