/**
 * What device addresses look like: 64 bits, of which the high half says which space they lie in and the low half where
 * in it. What a compiled kernel does and what its caller expects meet here.
 *
 * @module
 */

/** The address of the first byte of the memory: low half 0, so that an address's low half is the offset into it. */
export const addressBase = 0x7a00_0000_0000n;
/** Where generic addresses of the block's shared memory begin. */
export const sharedAddressBase = 0x7a01_0000_0000n;
/** Where generic addresses of the thread's local memory begin. */
export const localAddressBase = 0x7a02_0000_0000n;

/** Bytes that addresses of shared memory can tell apart, and how many of them lie before the block's own. */
export const sharedWindow = { byteLength: 0x100_0000, reserved: 0x400 } as const;

/** What a kernel reports when it stops: the first argument of `device.fault`. */
export const faultKind = { illegalAddress: 1, misalignedAddress: 2, trap: 3, outsideSharedWindow: 4 } as const;

/** Bytes of memory for which the table of limits has one entry. */
export const limitGranuleBytes = 512;
