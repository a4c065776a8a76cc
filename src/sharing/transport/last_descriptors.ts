import { descriptorLimit } from "../../../ffi/native/shim/descriptors.ts";

/** The fraction of the descriptor limit that handles of memory that nothing maps must leave to other uses. */
const reservedPart = 1 / 4;
/** The minimum and the maximum of the number of descriptors that such handles leave. */
const [leastReserved, mostReserved] = [16, 256];

/**
 * Returns the number from which on a descriptor is one of the last that this process can open. The kernel assigns the
 * lowest free number to a new descriptor: if that number is N less than the limit, at most N more descriptors can be
 * opened.
 */
export function firstOfLastDescriptors(): number {
  const limit = descriptorLimit();
  return limit - Math.max(leastReserved, Math.min(Math.floor(limit * reservedPart), mostReserved));
}
