/**
 * Pools of managed memory, and the default and current pools of locations.
 *
 * @module
 */
import { memAllocationType, memHandleType, type MemLocation, memLocationType } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import { isDevice } from "../../objects/device_sessions.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import {
  checkBoolean,
  checkByteLength,
  checkOptions,
  didYouMean,
  type KnownOptions,
  shown,
  whatIs,
} from "../../support/validation.ts";
import { memoryOfPool, MemoryPool } from "../pools/memory_pool.ts";
import type { ManagedPool } from "./managed_budget.ts";
import { driverLocation, type LocationUse, type MemoryLocation, nameOfLocation } from "./memory_location.ts";

/** Options of a new pool of managed memory. */
export interface ManagedPoolOptions {
  /** The initial location of the memory. Defaults to no preference. Must not be `"host-numa-current"`. */
  preferredLocation?: MemoryLocation;
  /** Bytes; at most the free memory of the device, unless `oversubscribe`. Defaults to no limit but that. */
  maxSize?: number;
  /**
   * Number of bytes that the pool keeps reserved when the host synchronizes. Defaults to Infinity: giving managed memory
   * back at each synchronization, and getting it again, takes long.
   */
  releaseThreshold?: number;
  /**
   * Whether the pool may allocate more than fits a device. CUDA then moves memory that others need to the host and back,
   * and a program, or the whole machine, may stand still meanwhile. Defaults to false: the allocation fails.
   */
  oversubscribe?: boolean;
}

/** Which pools of a location are meant. */
export interface PoolKind {
  /** Pools of page-locked memory, which stays where it is (the default), or of managed memory. */
  type?: "pinned" | "managed";
}

const managedPoolOptions: KnownOptions<ManagedPoolOptions> = {
  action: "create a pool of managed memory",
  names: { preferredLocation: true, maxSize: true, releaseThreshold: true, oversubscribe: true },
  instead: {
    handleType: "no other process can map managed memory",
    handleTypes: "no other process can map managed memory",
    location: "set preferredLocation",
  },
  meantBy: (value) => isDevice(value) ? "{ preferredLocation: gpu }" : undefined,
};

const poolKind: KnownOptions<PoolKind> = {
  action: "find the pool of a location",
  names: { type: true },
  meantBy: (value) => typeof value === "string" ? `{ type: ${shown(value)} }` : undefined,
};

const managedUse: LocationUse = { action: managedPoolOptions.action, name: "preferredLocation" };
const noPreference: MemLocation = { type: memLocationType.none, id: 0 };
const needsNewer = "pools of managed memory need CUDA 13 and a device whose managedMemory attribute is 1";

/** Creates a pool of managed memory with `cudaMemPoolCreate`. */
export function createManagedPool(
  session: Session,
  devices: readonly CudaDevice[],
  options: ManagedPoolOptions,
): MemoryPool {
  checkOptions(options, managedPoolOptions);
  const { preferredLocation, maxSize = 0, releaseThreshold = Infinity, oversubscribe = false } = options;
  checkBoolean(oversubscribe, "oversubscribe");
  const location = placeOf(preferredLocation, session, managedUse);
  const preferredDevice = isDevice(preferredLocation) ? preferredLocation : undefined;
  if (maxSize === Infinity) {
    throw new RangeError("Cannot use Infinity as a pool's maxSize: leave it out for a pool without a limit");
  }
  checkByteLength(maxSize, "a pool's maxSize");
  if (!oversubscribe) checkMaxSize(session, maxSize, { preferredDevice, devices });
  let handle: bigint;
  try {
    handle = session.driver.memPoolCreate({
      handleTypes: memHandleType.none,
      location,
      // CUDA has no limit for managed memory: the library counts it.
      maxSize: 0n,
      allocationType: memAllocationType.managed,
    });
  } catch (error) {
    const place = preferredLocation === undefined ? "" : `, preferably on ${nameOfLocation(location)}`;
    throw cannot(`create a pool of managed memory${place}`, error, needsNewer);
  }
  const managed: ManagedPool = { preferredDevice, oversubscribe };
  const pool = new MemoryPool(session, {
    device: undefined,
    location: preferredLocation,
    managed,
    handle,
    handleTypes: [],
    isOwned: true,
    maxSize,
  });
  try {
    pool.releaseThreshold = releaseThreshold;
    return pool;
  } catch (error) {
    pool[Symbol.dispose]();
    throw error;
  }
}

/** Throws if a pool could become larger than a device. */
function checkMaxSize(
  session: Session,
  maxSize: number,
  { preferredDevice, devices }: { preferredDevice: CudaDevice | undefined; devices: readonly CudaDevice[] },
): void {
  if (maxSize === 0) return;
  const infos = (preferredDevice === undefined ? devices : [preferredDevice]).map((device) => {
    // Only of a device that the pool uses in any case: to ask creates its context.
    const byteLength = preferredDevice === undefined
      ? session.driver.deviceTotalMem(device.ordinal)
      : device.memoryInfo().free;
    return { device, byteLength };
  });
  const least = infos.reduce((a, b) => b.byteLength < a.byteLength ? b : a);
  if (maxSize <= least.byteLength) return;
  const has = `device ${least.device.ordinal} has ${least.byteLength} bytes${
    preferredDevice === undefined ? "" : " free"
  }`;
  throw new RangeError(
    `Cannot create a pool of managed memory with a maxSize of ${maxSize} bytes: ${has}; use less, or set ` +
      "oversubscribe: true, which may be very slow",
  );
}

/** Returns the place of managed memory, or of a pool, as the driver names it. */
function placeOf(location: MemoryLocation | undefined, session: Session, use: LocationUse): MemLocation {
  return location === undefined ? noPreference : driverLocation(location, session, { ...use, currentNode: false });
}

/** The place and the kind of pools. */
interface PoolPlace {
  readonly location: MemoryLocation | undefined;
  readonly place: MemLocation;
  readonly allocationType: number;
}

/** Returns the default pool of a location. */
export function defaultPoolAt(
  session: Session,
  location: MemoryLocation | undefined,
  kind: PoolKind,
): MemoryPool {
  const at = poolPlace(session, location, kind);
  if (isDevice(location) && at.allocationType === memAllocationType.pinned) return location.defaultPool;
  return poolAt(session, at, "default", () => session.driver.memGetDefaultMemPool(at.place, at.allocationType));
}

/** Returns the current pool of a location. */
export function currentPoolAt(
  session: Session,
  location: MemoryLocation | undefined,
  kind: PoolKind,
): MemoryPool {
  const at = poolPlace(session, location, kind);
  if (isDevice(location) && at.allocationType === memAllocationType.pinned) return location.currentPool;
  return poolAt(session, at, "current", () => session.driver.memGetMemPool(at.place, at.allocationType));
}

/** Makes a pool the current one of its location. */
export function setCurrentPoolAt(session: Session, location: MemoryLocation | undefined, pool: MemoryPool): void {
  if (!(pool instanceof MemoryPool)) {
    throw new TypeError(`Cannot make ${whatIs(pool, "MemoryPool")} a current pool: give a MemoryPool of the location`);
  }
  const { place, allocationType } = poolPlace(session, location, { type: pool.isManaged ? "managed" : "pinned" });
  if (isDevice(location) && !pool.isManaged) {
    location.currentPool = pool;
    return;
  }
  const what = `make a pool the current one of ${nameOfLocation(place)}`;
  const own = placeOf(pool.location, session, poolKind);
  if (own.type !== place.type || own.id !== place.id) {
    throw new RangeError(`Cannot ${what}: the pool is of ${nameOfLocation(own)}; give a pool of that location`);
  }
  try {
    session.driver.memSetMemPool(place, allocationType, pool.unsafeHandle);
    memoryOfPool(pool).currentAt = { location: place, allocationType };
  } catch (error) {
    throw cannot(what, error);
  }
}

function poolPlace(session: Session, location: MemoryLocation | undefined, kind: PoolKind): PoolPlace {
  checkOptions(kind, poolKind);
  const { type = "pinned" } = kind;
  if (type !== "pinned" && type !== "managed") {
    throw new TypeError(
      `Cannot find a pool of the type ${shown(type)}: it must be "pinned" or "managed"` +
        didYouMean(type, ["pinned", "managed"]),
    );
  }
  if (location === undefined && type === "pinned") {
    throw new TypeError(
      'Cannot find a pool without a location: give a CudaDevice, "host" or { numaNode: 0 }; only pools of the type ' +
        '"managed" can be without one',
    );
  }
  return { location, place: placeOf(location, session, poolKind), allocationType: memAllocationType[type] };
}

function poolAt(
  session: Session,
  { location, place, allocationType }: PoolPlace,
  which: "default" | "current",
  find: () => bigint,
): MemoryPool {
  let handle: bigint;
  try {
    handle = find();
  } catch (error) {
    const isNode = place.type === memLocationType.hostNuma;
    const hint = isNode ? "the machine may have no such node: 0 is the first" : undefined;
    throw cannot(`get the ${which} pool of ${nameOfLocation(place)}`, error, hint);
  }
  const known = session.pools.get(handle);
  if (known !== undefined) return known;
  const isManaged = allocationType === memAllocationType.managed;
  const device = isDevice(location) ? location : undefined;
  return new MemoryPool(session, {
    device: isManaged ? undefined : device,
    location,
    managed: isManaged ? { preferredDevice: device, oversubscribe: false } : undefined,
    handle,
    handleTypes: [],
    isOwned: false,
  });
}
