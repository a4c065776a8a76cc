/**
 * What device addresses look like: 64 bits, of which the high half says which space they lie in and the low half where
 * in it. What a compiled kernel does and what its caller expects meet here.
 *
 * @module
 */
import { sharedAmongCopies } from "../../support/library_copies.ts";

/** The address of the first byte of the memory: low half 0, so that an address's low half is the offset into it. */
export const addressBase: bigint = 0x7a00_0000_0000n + addressesOfThisCopy();
/** Where generic addresses of the block's shared memory begin. */
export const sharedAddressBase: bigint = addressBase + 0x1_0000_0000n;
/** Where generic addresses of the thread's local memory begin. */
export const localAddressBase: bigint = addressBase + 0x2_0000_0000n;
/** Where generic addresses of a kernel's parameters begin. */
export const parameterAddressBase: bigint = addressBase + 0x3_0000_0000n;
/** Where the addresses of functions begin: not those of any memory. */
const functionAddressBase = addressBase + 0x5_0000_0000n;
const functionAddressStride = 16n;

/** The address of the function with an index in its module. */
export function functionAddress(index: number): bigint {
  return functionAddressBase + BigInt(index) * functionAddressStride;
}

/** Bytes that addresses of shared memory can tell apart, and how many of them lie before the block's own. */
export const sharedSpan = { byteLength: 0x100_0000, reserved: 0x400 } as const;

/** What a kernel reports when it stops: the first argument of `device.fault`. */
export const faultKind = {
  illegalAddress: 1,
  misalignedAddress: 2,
  trap: 3,
  outsideSharedSpan: 4,
  /** The local memory of a thread is used up by the functions that it is in. */
  stackOverflow: 5,
  invalidFunction: 6,
  failedAssertion: 7,
  /** A register that says which barrier, or how many threads are counted there, in place of the address. */
  noBarrier: 10,
  noBarrierCount: 11,
  /** Never reported by a kernel itself: it did more steps than it may, or its threads wait for each other for ever. */
  stepLimit: 8,
  deadlock: 9,
} as const;

/** Bytes of memory for which the table of limits has one entry, and their logarithm. */
export const boundsGranuleBytes = 512;
export const boundsGranuleShift = 9;
/**
 * A device's table of limits: numbers of 32 bits, two for each granule of the memory. One tells the granule at which the
 * allocation begins that the granule belongs to, plus one, or 0 where kernels may access nothing. The other, at the granule
 * where an allocation begins, tells its bytes. `lengths` is where the second half begins.
 */
export const boundsTable = { lengths: 0x200_0000, byteLength: 0x400_0000 } as const;

/**
 * Copies of the library on a thread have memories of their own: what belongs to one must be no address in another. Each is
 * given the next of 64 ranges.
 */
function addressesOfThisCopy(): bigint {
  const spaces = sharedAmongCopies("addressSpaces", () => ({ taken: 0 }));
  return BigInt(spaces.taken++ % 64) * 0x8_0000_0000n;
}
