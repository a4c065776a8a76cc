/**
 * The attributes of pools: their usage, their reuse policies, and the access of devices.
 *
 * @module
 */
import { memAccessFlags, type MemLocation, memLocationType, memPoolAttribute } from "../../driver.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { printObjectAs, stateOf } from "../../support/printing.ts";
import { checkBoolean, checkByteLength, didYouMean, shown, suggestName } from "../../support/validation.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { checkDevice } from "../../objects/device_sessions.ts";
import { CudaError, cudaErrorNumbers } from "../../support/errors.ts";
import { TypeError } from "../../support/program_errors.ts";
import { driverLocation, nameOfLocation } from "../managed/memory_location.ts";

/** The policies that determine whether an allocation may reuse memory that was freed on another stream. */
export interface ReusePolicies {
  /** Whether to reuse memory whose free precedes an event that the allocating stream waits for. */
  followEventDependencies: boolean;
  /** Whether to reuse memory whose free happens to be complete already. */
  allowOpportunistic: boolean;
  /** Whether to reuse memory whose free is pending, by making the allocating stream wait for the free. */
  allowInternalDependencies: boolean;
}

/** Memory usage of a pool in bytes: current values, and the maximum of each since `resetHigh`. */
export interface PoolUsage {
  /** Bytes that the pool has reserved from the system. */
  reserved: number;
  /** The maximum of `reserved`. */
  reservedHigh: number;
  /** Bytes that are allocated. */
  used: number;
  /** The maximum of `used`. */
  usedHigh: number;
}

const unlimited = 2n ** 64n - 1n;
const firstVersionWithProperties = 13020;

/** Reads and sets the attributes of a pool that the driver stores. */
export class PoolAttributes {
  readonly #session: Session;
  readonly #pool: { readonly name: string; readonly handle: bigint };

  /** @param pool The pool's name in error messages, and its handle, whose getter throws once the pool is disposed. */
  constructor(session: Session, pool: { readonly name: string; readonly handle: bigint }) {
    this.#session = session;
    this.#pool = pool;
  }

  /**
   * Returns a property that CUDA reports since 13.2, one of `memPoolPropertyAttribute`. Undefined if the driver is older,
   * or does not say it of this pool.
   */
  property(attribute: number): bigint | undefined {
    const { driver } = this.#session;
    if (driver.driverGetVersion() < firstVersionWithProperties) return undefined;
    try {
      return driver.memPoolGetAttribute(this.#pool.handle, attribute);
    } catch (error) {
      if (error instanceof CudaError && error.code === "cudaErrorInvalidValue") return undefined;
      throw cannot(`read an attribute of ${this.#pool.name}`, error);
    }
  }

  get releaseThreshold(): number {
    const value = this.#get(memPoolAttribute.releaseThreshold);
    return value === unlimited ? Infinity : Number(value);
  }

  set releaseThreshold(byteLength: number) {
    if (typeof byteLength === "bigint") {
      throw new TypeError(
        "Cannot use a bigint as a pool's releaseThreshold: it must be a number of bytes; Infinity keeps all memory",
      );
    }
    if (byteLength !== Infinity) checkByteLength(byteLength, "a pool's releaseThreshold");
    const value = byteLength === Infinity ? unlimited : BigInt(byteLength);
    this.#set(memPoolAttribute.releaseThreshold, value);
  }

  /** Returns an object whose properties read and set the reuse policies. */
  get reuse(): ReusePolicies {
    const get = (attribute: number) => this.#get(attribute) !== 0n;
    const set = (attribute: number, value: boolean) => this.#set(attribute, value ? 1n : 0n);
    const policies: ReusePolicies = {
      get followEventDependencies() {
        return get(memPoolAttribute.reuseFollowEventDependencies);
      },
      set followEventDependencies(value) {
        set(memPoolAttribute.reuseFollowEventDependencies, value);
      },
      get allowOpportunistic() {
        return get(memPoolAttribute.reuseAllowOpportunistic);
      },
      set allowOpportunistic(value) {
        set(memPoolAttribute.reuseAllowOpportunistic, value);
      },
      get allowInternalDependencies() {
        return get(memPoolAttribute.reuseAllowInternalDependencies);
      },
      set allowInternalDependencies(value) {
        set(memPoolAttribute.reuseAllowInternalDependencies, value);
      },
    };
    printObjectAs(policies, printPolicies, policyNames);
    return new Proxy(policies, refusingMistypedNames);
  }

  usage(): PoolUsage {
    return {
      reserved: Number(this.#get(memPoolAttribute.reservedMemCurrent)),
      reservedHigh: Number(this.#get(memPoolAttribute.reservedMemHigh)),
      used: Number(this.#get(memPoolAttribute.usedMemCurrent)),
      usedHigh: Number(this.#get(memPoolAttribute.usedMemHigh)),
    };
  }

  resetHigh(): void {
    this.#set(memPoolAttribute.reservedMemHigh, 0n);
    this.#set(memPoolAttribute.usedMemHigh, 0n);
  }

  #get(attribute: number): bigint {
    try {
      return this.#session.driver.memPoolGetAttribute(this.#pool.handle, attribute);
    } catch (error) {
      throw cannot(`read an attribute of ${this.#pool.name}`, error);
    }
  }

  #set(attribute: number, value: bigint): void {
    try {
      this.#session.driver.memPoolSetAttribute(this.#pool.handle, attribute, value);
    } catch (error) {
      throw cannot(`set an attribute of ${this.#pool.name}`, error);
    }
  }
}

const policyNames = ["followEventDependencies", "allowOpportunistic", "allowInternalDependencies"] as const;

/** Throws for unknown policy names: an ordinary object would silently accept any property. */
const refusingMistypedNames: ProxyHandler<ReusePolicies> = {
  set(policies, name, value) {
    if (!policyNames.some((policy) => policy === name)) {
      const suggestion = suggestName(String(name), policyNames, "the policies are");
      throw new TypeError(`Cannot set the reuse policy "${String(name)}": there is no such policy; ${suggestion}`);
    }
    checkBoolean(value, `the reuse policy ${String(name)}`);
    return Reflect.set(policies, name, value);
  },
};

function printPolicies(policies: ReusePolicies): string {
  return `ReusePolicies { ${
    policyNames.map((name) => `${name}: ${stateOf(() => String(policies[name]))}`).join(", ")
  } }`;
}

/**
 * The access of a device to memory. `"read"` works for memory that is mapped in an `AddressRange`. For pools, CUDA
 * defines it too, but driver 580 returns `cudaErrorNotSupported`.
 */
export type Access = "none" | "read" | "read-write";

/** The driver's `memAccessFlags` for each kind of access. */
export const flagsByAccess: Readonly<Record<Access, number>> = {
  "none": memAccessFlags.none,
  "read": memAccessFlags.read,
  "read-write": memAccessFlags.readWrite,
};

/** A place of the host that accesses a pool. */
export type HostLocation = "host" | {
  /** The number of the NUMA node, from 0. */
  readonly numaNode: number;
};

/** Returns the access of a device, or of the host, to a pool, using `cudaMemPoolGetAccess`. */
export function getPoolAccess(session: Session, pool: bigint, accessing: CudaDevice | HostLocation): Access {
  const location = checkAccessing(session, accessing);
  let flags: number;
  try {
    flags = session.driver.memPoolGetAccess(pool, location);
  } catch (error) {
    throw cannot(`get the access of ${nameOfLocation(location)} to a pool`, error);
  }
  if (flags === memAccessFlags.readWrite) return "read-write";
  return flags === memAccessFlags.read ? "read" : "none";
}

/** Checks who accesses a pool, and returns it as the driver names it. */
export function checkAccessing(session: Session, accessing: CudaDevice | HostLocation): MemLocation {
  return isHostLocation(accessing) ? hostLocation(accessing, session) : locationOfDevice(accessing, session);
}

/** Throws unless the access to managed memory would stay as it is: everything accesses it. */
export function keepManagedAccess(
  session: Session,
  accessing: CudaDevice | readonly CudaDevice[] | HostLocation,
  access: Access,
): void {
  if (isHostLocation(accessing)) void [checkAccessing(session, accessing), checkAccess(session, [], access)];
  else checkAccess(session, accessing, access);
  if (access === "read-write") return;
  throw new TypeError(
    `Cannot set the access to managed memory to "${access}": the host and all devices always access it; use a pool of a ` +
      "device",
  );
}

function locationOfDevice(device: CudaDevice, session: Session): MemLocation {
  checkDevice(device, session);
  return { type: memLocationType.device, id: device.ordinal };
}

/** Returns whether a value is meant as a place of the host. */
export function isHostLocation(value: unknown): value is HostLocation {
  return value === "host" || (typeof value === "object" && value !== null && "numaNode" in value);
}

function hostLocation(location: HostLocation, session: Session): MemLocation {
  return driverLocation(location, session, { action: "use the access of a pool", currentNode: false });
}

/** Sets the access of the host to a pool with `cudaMemPoolSetAccess`. */
export function setHostAccess(
  session: Session,
  pool: bigint,
  { location, access, isOnDevice }: { location: HostLocation; access: Access; isOnDevice: boolean },
): void {
  const place = hostLocation(location, session);
  checkAccess(session, [], access);
  try {
    session.driver.memPoolSetAccess(pool, [{ location: place, flags: flagsByAccess[access] }]);
  } catch (error) {
    const hint = isOnDevice
      ? "the host accesses a device's memory only by copies: use a pool from Cuda.createManagedPool or createHostPool"
      : "the host's access to its own memory is always read-write";
    throw cannot(`set access to "${access}" for ${nameOfLocation(place)}`, error, hint);
  }
}

/**
 * Sets the access of devices to a pool with `cudaMemPoolSetAccess`, after checking that each can be a peer of the
 * pool's device.
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
 * Throws if the device is neither the pool's own device nor a peer of it. Driver versions differ in the error that they
 * report.
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
