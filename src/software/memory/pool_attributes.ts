import { cudaErrorNumbers } from "../../support/errors.ts";
import { memPoolAttribute } from "../../driver.ts";
import { fail } from "../failure.ts";
import type { SoftwarePool } from "./software_pool.ts";

/** The counters of `cudaMemPoolAttr`, in bytes. */
export interface PoolCounters {
  reserved: number;
  reservedHigh: number;
  used: number;
  usedHigh: number;
}

/** Implements `cudaMemPoolGetAttribute` for pools of this process. */
export function poolAttribute({ usage, reuse, releaseThreshold }: SoftwarePool, attribute: number): bigint {
  switch (attribute) {
    case memPoolAttribute.reuseFollowEventDependencies:
      return BigInt(reuse.followEventDependencies);
    case memPoolAttribute.reuseAllowOpportunistic:
      return BigInt(reuse.allowOpportunistic);
    case memPoolAttribute.reuseAllowInternalDependencies:
      return BigInt(reuse.allowInternalDependencies);
    case memPoolAttribute.releaseThreshold:
      return releaseThreshold;
    case memPoolAttribute.reservedMemCurrent:
      return BigInt(usage.reserved);
    case memPoolAttribute.reservedMemHigh:
      return BigInt(usage.reservedHigh);
    case memPoolAttribute.usedMemCurrent:
      return BigInt(usage.used);
    case memPoolAttribute.usedMemHigh:
      return BigInt(usage.usedHigh);
    default:
      return fail(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMemPoolGetAttribute");
  }
}

/** Implements `cudaMemPoolSetAttribute` for pools of this process. */
export function setPoolAttribute(pool: SoftwarePool, attribute: number, value: bigint): void {
  const call = "cudaMemPoolSetAttribute";
  const { usage, reuse } = pool;
  switch (attribute) {
    case memPoolAttribute.reuseFollowEventDependencies:
      reuse.followEventDependencies = value !== 0n;
      break;
    case memPoolAttribute.reuseAllowOpportunistic:
      reuse.allowOpportunistic = value !== 0n;
      break;
    case memPoolAttribute.reuseAllowInternalDependencies:
      reuse.allowInternalDependencies = value !== 0n;
      break;
    case memPoolAttribute.releaseThreshold:
      pool.releaseThreshold = BigInt.asUintN(64, value);
      break;
    case memPoolAttribute.reservedMemHigh:
      if (value !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      usage.reservedHigh = usage.reserved;
      break;
    case memPoolAttribute.usedMemHigh:
      if (value !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      usage.usedHigh = usage.used;
      break;
    default:
      fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }
}
