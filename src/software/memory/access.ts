/**
 * Changes of the access of a device's kernels to memory, which any thread can make.
 *
 * @module
 */
import { granuleByteLength } from "./memory_layout.ts";

/** The parts of a device's bounds table that say which memory the device's kernels may access. */
export interface AccessTable {
  /** For each granule, the number of the first granule of its allocation plus 1, or 0. */
  readonly allocations: Uint32Array;
  /** For the first granule of each allocation, the size of the allocation in bytes. */
  readonly lengths: Uint32Array;
}

/** A change of access: kernels may access exactly the bytes of a range, or no granule of it. */
export interface AccessChange {
  readonly begin: number;
  readonly byteLength: number;
  readonly isAllowed: boolean;
}

/** Changes the access of a device's kernels. */
export function changeAccess(
  { allocations, lengths }: AccessTable,
  { begin, byteLength, isAllowed }: AccessChange,
): void {
  const first = begin / granuleByteLength;
  if (isAllowed) lengths[first] = byteLength;
  allocations.fill(isAllowed ? first + 1 : 0, first, first + Math.ceil(byteLength / granuleByteLength));
}
