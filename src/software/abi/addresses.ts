/**
 * The layout of device addresses, which compiled kernels and their caller agree on. An address has 64 bits: the high
 * half identifies the state space, the low half is the offset in it.
 *
 * @module
 */
import { sharedAmongCopies } from "../../support/version.ts";

/**
 * The address of the first byte of linear memory. Its low half is 0, so the low half of an address is an offset into
 * linear memory.
 */
export const addressBase: bigint = 0x7a00_0000_0000n + addressesOfThisCopy();
/** The start of the generic addresses of a block's shared memory. */
export const sharedAddressBase: bigint = addressBase + 0x1_0000_0000n;
/** The start of the generic addresses of a thread's local memory. */
export const localAddressBase: bigint = addressBase + 0x2_0000_0000n;
/** The start of the generic addresses of a kernel's parameters. */
export const parameterAddressBase: bigint = addressBase + 0x3_0000_0000n;
/** The start of the addresses of functions. No memory lies there. */
const functionAddressBase = addressBase + 0x5_0000_0000n;
const functionAddressStride = 16n;

/** The address of a function, given its index in its module. */
export function functionAddress(index: number): bigint {
  return functionAddressBase + BigInt(index) * functionAddressStride;
}

/** The bytes that addresses in `.shared` span, and how many of them precede the block's own shared memory. */
export const sharedSpan = { byteLength: 0x100_0000, reserved: 0x400 } as const;
/**
 * The part of the reserved shared memory that the libraries of compilers use, of the same size as on a GPU: where it
 * begins in it.
 */
export const libraryReservedOffset = 0x200;

/**
 * The part of linear memory that holds the shadow of the rest with the check `initialization`, and the distance from a
 * byte to its shadow, which has a 1 for each bit that is uninitialized. It is no multiple of a page: bytes whose
 * addresses differ by whole pages compete for the same lines of a cache, which made kernels up to twice as slow.
 */
export const shadowSpace = { begin: 0x7fff_0000, byteLength: 0x8001_0000 } as const;
export const shadowOffset: number = shadowSpace.begin + 0x840;

/** Why a kernel stopped: the first argument of `device.fault`. */
export const faultKind = {
  illegalAddress: 1,
  misalignedAddress: 2,
  trap: 3,
  outsideSharedSpan: 4,
  /** The functions that a thread is in need more local memory than it has. */
  stackOverflow: 5,
  invalidFunction: 6,
  failedAssertion: 7,
  /**
   * A register names a barrier, or a number of threads, that cannot be. Its value is reported in place of an address.
   */
  noBarrier: 10,
  noBarrierCount: 11,
  /** Never reported by a kernel itself: it exceeded the step limit, or its threads wait for each other forever. */
  stepLimit: 8,
  deadlock: 9,
} as const;

/** The kind of access of a faulting instruction to the address that it reports. */
export const accessOperations = ["none", "read", "write", "atomic"] as const;
/** The state space of that address: generic, or an offset in the block's shared or the thread's local memory. */
const reportedSpaces = ["generic", "shared", "local"] as const;

/** The place of a fault. */
export interface FaultPlace {
  /** The line in the PTX text. */
  readonly line: number;
  readonly operation: typeof accessOperations[number];
  /** The bytes of the access, a power of two. */
  readonly bytes: number;
  readonly space: typeof reportedSpaces[number];
  /**
   * How the thread is reported: as its index in x, in the row of threads that the launch record names, or as the number
   * of its thread record.
   */
  readonly thread: "x" | "record";
}

/** The bits of the line of a place. */
export const lineBits = 23;
/** The bits of a place above which the binary logarithm of its bytes begins. */
export const placeBytesShift = 28;

/** A place as a 32-bit number, as compiled kernels report it. */
export function encodePlace({ line, operation, space, thread, bytes }: FaultPlace): number {
  const flags = accessOperations.indexOf(operation) | reportedSpaces.indexOf(space) << 2 | Number(thread === "x") << 4;
  return Math.log2(bytes) << placeBytesShift | flags << lineBits | Math.min(line, 2 ** lineBits - 1);
}

/** The reverse of {@linkcode encodePlace}. */
export function decodePlace(place: number): FaultPlace {
  const flags = place >>> lineBits;
  return {
    line: place & 2 ** lineBits - 1,
    operation: accessOperations[flags & 3]!,
    space: reportedSpaces[flags >>> 2 & 3]!,
    thread: (flags & 16) === 0 ? "record" : "x",
    bytes: 1 << (place >>> placeBytesShift),
  };
}

/** The parts of a place as a number, for those who look at many. The operation is an index of `accessOperations`. */
export function bytesOfPlace(place: number): number {
  return 1 << (place >>> placeBytesShift);
}

/** @see bytesOfPlace */
export function operationOfPlace(place: number): number {
  return place >>> lineBits & 3;
}

/** @see bytesOfPlace */
export function lineOfPlace(place: number): number {
  return place & 2 ** lineBits - 1;
}

/** Whether the thread is reported as its index in x, in the row that the launch record names. */
export function reportsRows(place: number): boolean {
  return (place >>> lineBits & 16) !== 0;
}

/** The bytes of memory that one entry of the bounds table describes, and their binary logarithm. */
export const boundsGranuleBytes = 512;
export const boundsGranuleShift = 9;
/**
 * The layout of a device's bounds table: two 32-bit numbers for each granule of memory. The first half holds, for each
 * granule, one more than the granule where its allocation begins, or 0 if kernels may not access it. The second half,
 * at offset `lengths`, holds the byte length of each allocation at the granule where the allocation begins. Behind them,
 * at offset `readOnly`, follows a byte for each page of memory: 1 if kernels may only read it.
 */
export const boundsTable = { lengths: 0x200_0000, readOnly: 0x400_0000, byteLength: 0x401_0000 } as const;
/** The binary logarithm of the bytes of a page. */
export const pageShift = 16;

/**
 * Each copy of the library on a thread has its own memory, and an address of one must not be valid in another. Each
 * copy takes the next of 64 address ranges.
 */
function addressesOfThisCopy(): bigint {
  const spaces = sharedAmongCopies("addressSpaces", () => ({ taken: 0 }));
  return BigInt(spaces.taken++ % 64) * 0x8_0000_0000n;
}
