import type { CudaDevice } from "../../objects/cuda_device.ts";
import { memHandleType, type MemLocation } from "../../driver.ts";
import { CudaError } from "../../support/errors.ts";
import { cannot } from "../../support/driver_errors.ts";
import { MemoryPool, type PoolHandleType, type PoolOptions } from "./memory_pool.ts";
import type { Session } from "../../session.ts";
import { checkByteLength, didYouMean, type KnownOptions, shown } from "../../support/validation.ts";

const handleTypeBits: Readonly<Record<PoolHandleType, number>> = {
  "none": memHandleType.none,
  "posix-fd": memHandleType.posixFileDescriptor,
  "fabric": memHandleType.fabric,
};

/**
 * The driver's number for a handle type.
 *
 * @param what what is to be created, in the messages of errors: "a pool"
 */
export function checkHandleType(session: Session, handleType: PoolHandleType, what: string): number {
  if (typeof handleType !== "string" || !Object.hasOwn(handleTypeBits, handleType)) {
    throw new TypeError(
      `Cannot create ${what} with handleType ${shown(handleType)}: it must be "none", "posix-fd" or "fabric"` +
        didYouMean(handleType, Object.keys(handleTypeBits)),
    );
  }
  const refusal = session.driver.sharingRefusal;
  if (handleType !== "none" && refusal !== undefined) {
    throw new TypeError(`Cannot create ${what} that other processes can share: ${refusal}`);
  }
  return handleTypeBits[handleType];
}

/** The options of a new pool. */
export const poolOptions: KnownOptions<PoolOptions> = {
  action: "create a pool",
  names: { handleType: true, maxSize: true, releaseThreshold: true },
  instead: { ipc_enabled: 'set handleType: "posix-fd"' },
  meantBy: (value) => typeof value === "number" ? `{ maxSize: ${value} }` : undefined,
};

/** Where to create a pool. */
export interface PoolPlace {
  readonly location: MemLocation;
  /** Undefined for host memory. */
  readonly device: CudaDevice | undefined;
  /** The place in error messages: "on device 0". */
  readonly name: string;
  /** What to try if the driver refuses the place. */
  readonly hint?: string;
}

/** Creates a pool by `cudaMemPoolCreate`. */
export function createPool(
  session: Session,
  { location, device, name, hint }: PoolPlace,
  { handleType = "none", maxSize = 0, releaseThreshold }: PoolOptions,
): MemoryPool {
  const handleTypes = checkHandleType(session, handleType, "a pool");
  if (maxSize === Infinity) {
    throw new RangeError("Cannot use Infinity as a pool's maxSize: leave it out for a pool without a limit");
  }
  checkByteLength(maxSize, "a pool's maxSize");
  let handle: bigint;
  try {
    handle = session.driver.memPoolCreate({
      handleTypes,
      location,
      maxSize: BigInt(maxSize),
    });
  } catch (error) {
    throw cannot(
      `create a pool with handleType "${handleType}" ${name}`,
      error,
      hint ?? (device === undefined ? undefined : sharingHint(handleType, error)),
    );
  }
  const pool = new MemoryPool(session, { device, handle, handleType, isOwned: true, maxSize });
  if (releaseThreshold === undefined) return pool;
  try {
    pool.releaseThreshold = releaseThreshold;
  } catch (error) {
    pool[Symbol.dispose]();
    throw error;
  }
  return pool;
}

/** What to try if the driver supports pools, but none that can be shared in this way. */
function sharingHint(handleType: PoolHandleType, error: unknown): string | undefined {
  if (handleType === "none" || !(error instanceof CudaError)) return undefined;
  if (error.code !== "cudaErrorInvalidValue" && error.code !== "cudaErrorNotSupported") return undefined;
  const alone = 'use handleType "none", whose pools no other process can import';
  return handleType === "fabric"
    ? `the device may not be connected by fabric: use handleType "posix-fd" on one machine, or ${alone}`
    : `this driver may not support pools that can be shared, as under WSL 2: ${alone}`;
}
