/**
 * The layout of device addresses, which compiled kernels and their caller share. An address has 64 bits: the high half
 * identifies the state space, and the low half is the offset within the state space.
 *
 * @module
 */
import { sharedAmongCopies } from "../../support/version.ts";

const lowestAddressBase = 0x7a00_0000_0000n;
const addressSpaceByteLength = 0x8_0000_0000n;

/**
 * The address of the first byte of linear memory. The low 32 bits are 0, so the low 32 bits of the address of any byte
 * in linear memory are the byte's offset.
 */
export const addressBase: bigint = lowestAddressBase + addressesOfThisCopy();
/** The number of address ranges that other copies of the library took before this copy, modulo 64. */
export const addressSpace: number = Number((addressBase - lowestAddressBase) / addressSpaceByteLength);
/** The lowest generic address that refers to a block's shared memory. */
export const sharedAddressBase: bigint = addressBase + 0x1_0000_0000n;
/** The lowest generic address that refers to a thread's local memory. */
export const localAddressBase: bigint = addressBase + 0x2_0000_0000n;
/** The lowest generic address that refers to a kernel's parameters. */
export const parameterAddressBase: bigint = addressBase + 0x3_0000_0000n;
/** The address of a module's function 0. No memory is located at the addresses of functions. */
const functionAddressBase = addressBase + 0x5_0000_0000n;
const functionAddressStride = 16n;

/** Returns the address of a function, given the function's index in the module. */
export function functionAddress(index: number): bigint {
  return functionAddressBase + BigInt(index) * functionAddressStride;
}

/**
 * The sizes in bytes of the address range of `.shared` (`byteLength`), of the reserved part of shared memory at its
 * start (`reserved`), and of the units in which shared memory is allocated (`unit`).
 */
export const sharedSpan = { byteLength: 0x100_0000, reserved: 0x400, unit: 0x80 } as const;
/**
 * The offset, within the reserved shared memory, of the bytes that are reserved for the compilers' runtime libraries. A
 * GPU reserves the same number of bytes for them.
 */
export const libraryReservedOffset = 0x200;

/**
 * The range of linear memory that holds the shadow memory for the check `initialization`. Each bit of the shadow memory
 * is 1 if the corresponding bit of the rest of linear memory is uninitialized.
 */
export const shadowSpace = { begin: 0x7fff_0000, byteLength: 0x8001_0000 } as const;
/**
 * The distance in bytes from a byte of memory to the corresponding byte of the shadow memory. Deliberately not a
 * multiple of the page size: bytes whose addresses differ by a multiple of the page size compete for the same cache
 * lines, which made kernels up to twice as slow.
 */
export const shadowOffset: number = shadowSpace.begin + 0x840;

/**
 * The locks of atomic accesses to 128 bits, which all threads of the process share: the offset of the first lock in
 * linear memory, in a page that contains nothing else; the number of locks, a power of two; and the binary logarithm of
 * the distance between two locks in bytes, so that each lock has a cache line of its own.
 */
export const wideLocks = { begin: 0x8000, count: 64, strideShift: 6 } as const;

/** The kinds of fault that stop a kernel. Passed as the first argument to the host function `fault`. */
export const faultKind = {
  illegalAddress: 1,
  misalignedAddress: 2,
  trap: 3,
  outsideSharedSpan: 4,
  /** The stack of a thread's nested calls is larger than the thread's local memory. */
  stackOverflow: 5,
  invalidFunction: 6,
  failedAssertion: 7,
  /**
   * A barrier number that the kernel read from a register is out of range. The number is reported instead of an
   * address.
   */
  noBarrier: 10,
  /**
   * A barrier's thread count that the kernel read from a register is invalid. The count is reported instead of an
   * address.
   */
  noBarrierCount: 11,
  /**
   * The size of a bulk copy that the kernel read from a register is not a multiple of 16. The size is reported instead
   * of an address.
   */
  bulkSize: 12,
  /** An operand is not the handle of a texture, or of a surface. The handle is reported instead of an address. */
  noTexture: 13,
  /** There is no tensor map where a tensor copy expects one, or the tensor map does not fit the instruction. */
  tensorMap: 14,
  /** The descriptor of a matrix leads outside of the block's shared memory. */
  matrixDescriptor: 15,
  breakpoint: 16,
  /** More threads arrive at an `mbarrier` than are pending. Their number is reported instead of an address. */
  arrivals: 17,
  /** `cp.async` has a source of more bytes than it copies. The size is reported instead of an address. */
  copySize: 19,
  /** An access to the shared memory of a block that the cluster does not have, other than by a bulk copy. */
  noClusterBlock: 20,
  /** The pending bytes of an `mbarrier` exceed what it can count. Their number is reported instead of an address. */
  pendingBytes: 18,
  /** The kernel exceeded the step limit. Never reported by compiled code itself. */
  stepLimit: 8,
  /** The threads of the kernel wait for each other forever. Never reported by compiled code itself. */
  deadlock: 9,
} as const;

/** How the faulting instruction accesses the reported address. */
export const accessOperations = ["none", "read", "write", "atomic"] as const;
/**
 * The state spaces to which a reported address may belong. In `generic`, the address is a full generic address. In
 * `shared` and `local`, it is an offset in the block's shared memory or the thread's local memory.
 */
const reportedSpaces = ["generic", "shared", "local"] as const;

/**
 * A code location and the access that the instruction there makes. Compiled kernels report it with faults and accesses.
 */
export interface FaultPlace {
  /** The line in the PTX text. */
  readonly line: number;
  readonly operation: typeof accessOperations[number];
  /** The size of the access in bytes, a power of two. */
  readonly bytes: number;
  readonly space: typeof reportedSpaces[number];
  /**
   * How the thread is reported: by its x index in the row of threads that `rowY` and `rowZ` of the launch record
   * specify (`x`), or by the index of its thread record (`record`).
   */
  readonly thread: "x" | "record";
}

/** The width in bits of the line number in an encoded {@linkcode FaultPlace}. */
export const lineBits = 23;
/** The position of the lowest bit of the state space in an encoded {@linkcode FaultPlace}. */
export const placeSpaceShift: number = lineBits + 2;
/** The position of the lowest bit of the base-2 logarithm of the access size in an encoded {@linkcode FaultPlace}. */
export const placeBytesShift = 28;

/** Encodes a code location as a 32-bit number, which compiled kernels pass to host functions. */
export function encodePlace({ line, operation, space, thread, bytes }: FaultPlace): number {
  const flags = accessOperations.indexOf(operation) | reportedSpaces.indexOf(space) << 2 | Number(thread === "x") << 4;
  return Math.log2(bytes) << placeBytesShift | flags << lineBits | Math.min(line, 2 ** lineBits - 1);
}

/** Decodes a number that {@linkcode encodePlace} returned. */
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

/**
 * Returns the size in bytes of the access that an encoded {@linkcode FaultPlace} describes. Faster than decoding all of
 * its fields.
 */
export function bytesOfPlace(place: number): number {
  return 1 << (place >>> placeBytesShift);
}

/** Returns an encoded {@linkcode FaultPlace} with another operation and size. */
export function withAccess(place: number, { operation, bytes }: Pick<FaultPlace, "operation" | "bytes">): number {
  const others = place & 2 ** placeBytesShift - 1 & ~(3 << lineBits);
  return Math.log2(bytes) << placeBytesShift | accessOperations.indexOf(operation) << lineBits | others;
}

/** Returns the operation of an encoded {@linkcode FaultPlace}, as an index of `accessOperations`. */
export function operationOfPlace(place: number): number {
  return place >>> lineBits & 3;
}

/** Returns the PTX line of an encoded {@linkcode FaultPlace}. */
export function lineOfPlace(place: number): number {
  return place & 2 ** lineBits - 1;
}

/** Returns whether an encoded {@linkcode FaultPlace} reports the thread by its x index: `thread` is `"x"`. */
export function reportsRows(place: number): boolean {
  return (place >>> lineBits & 16) !== 0;
}

/** The number of bytes of memory that one entry of the bounds table describes. */
export const boundsGranuleBytes = 512;
/** The binary logarithm of `boundsGranuleBytes`. */
export const boundsGranuleShift = 9;
/**
 * The layout of a device's bounds table, as byte offsets. Linear memory is divided into granules of 512 bytes. At
 * offset 0, the table has a 32-bit number for each granule: the index of the granule where its allocation begins plus
 * 1, or 0 if kernels may not access the granule. At offset `lengths`, it has another 32-bit number for each granule:
 * the byte length of the allocation that begins there. At offset `readOnly`, it has a byte for each page of memory: 1
 * if kernels may only read the page.
 */
export const boundsTable = { lengths: 0x200_0000, readOnly: 0x400_0000, byteLength: 0x401_0000 } as const;
/** The binary logarithm of the size of a page in bytes. */
export const pageShift = 16;

/**
 * Returns how far the base address of this copy of the library is above the lowest possible base address. Each copy of
 * the library in a thread has its own memory and uses the next of 64 address ranges, so that its addresses are not
 * valid in another copy. A worker thread has the addresses of the thread that started it, which have been set.
 */
function addressesOfThisCopy(): bigint {
  const spaces = sharedAmongCopies("addressSpaces", () => ({ taken: 0 }));
  return BigInt(spaces.taken++ % 64) * addressSpaceByteLength;
}
