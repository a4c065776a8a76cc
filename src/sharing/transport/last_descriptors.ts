import { descriptorLimit, lowestFreeDescriptor } from "../../../ffi/native/shim/descriptors.ts";

/** The fraction of the descriptor limit that is reserved: handles of unmapped memory must not use it. */
const reservedPart = 1 / 4;
/** The minimum and maximum number of reserved descriptors. */
const [leastReserved, mostReserved] = [16, 256];

/**
 * Returns the lowest descriptor number that counts as one of the last descriptors that this process can open. The
 * kernel assigns the lowest free number to a new descriptor: if that number is N less than the limit, at most N more
 * descriptors can be opened.
 */
export function firstOfLastDescriptors(): number {
  const limit = descriptorLimit();
  return limit - Math.max(leastReserved, Math.min(Math.floor(limit * reservedPart), mostReserved));
}

/** Returns whether the next descriptor of this process will be one of the last, which begin at `firstOfLast`. */
export function isNextOneOfLast(firstOfLast: number): boolean {
  return lowestFreeDescriptor() >= firstOfLast;
}
