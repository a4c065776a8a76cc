/**
 * The layout of linear memory, which all threads that run kernels share: granules, pages, device addresses, and the
 * ranges for the data of the running launch.
 *
 * @module
 */
import type { checkStateBegin } from "../abi/check_state.ts";
import { addressBase, pageShift } from "../abi/addresses.ts";
import type { launchRecordBegin } from "../abi/launch_record.ts";
import { textureTable } from "../abi/textures.ts";

/** The size of linear memory, in bytes. */
export const linearMemoryByteLength: number = 2 ** 32;
/**
 * The size of a granule, in bytes. A bounds table has one entry per granule, and each allocation starts at a multiple
 * of this size.
 */
export const granuleByteLength = 512;
/** The size of a page, in bytes. Mappings consist of whole pages. */
export const pageByteLength: number = 1 << pageShift;

/** The ranges of linear memory for the data of the launch that a thread of the process runs. */
export interface ScratchRanges {
  /** The packed parameters. */
  readonly parameters: { readonly begin: number };
  /** The launch record. */
  readonly launch: { readonly begin: number };
  /** The block's shared memory, after its reserved part. */
  readonly shared: { readonly begin: number };
  /** The thread records. */
  readonly threads: { readonly begin: number };
  /** The threads' local memory and saved registers. */
  readonly local: { readonly begin: number };
}

/**
 * The ranges for the launch that the main thread runs: the packed parameters, the launch record, the argument ranges,
 * the state of the checks, the reserved part and the rest of the block's shared memory, the thread records, and the
 * threads' local memory and saved registers. The page before them contains only `wideLocks`.
 */
export const scratch = {
  parameters: { begin: 0x1_0000, byteLength: 0x8000 },
  launch: { begin: 0x1_8000, byteLength: 0x2000 },
  argumentRanges: { begin: 0x1_a000, byteLength: 0x4000 },
  checks: { begin: 0x1_e000, byteLength: 0x400 },
  reservedShared: { begin: 0x1_fc00, byteLength: 0x400 },
  shared: { begin: 0x2_0000, byteLength: 0x4_0000 },
  threads: { begin: 0x6_0000, byteLength: 0x1_0000 },
  local: { begin: 0x7_0000, byteLength: 0x400_0000 },
} as const;

/** The offset of the first byte that can be reserved: the slots of textures are the last fixed range. */
export const firstReservable: number = textureTable.begin + textureTable.byteLength;

// Checks at compile time that these offsets equal the constants that compiled code contains.
scratch.launch.begin satisfies typeof launchRecordBegin;
scratch.checks.begin satisfies typeof checkStateBegin;
scratch satisfies ScratchRanges;

/**
 * The value to which each byte of a new allocation is set while a program is checked, so that uses of uninitialized
 * memory become visible.
 */
export const freshByte = 0xcb;

/** Rounds a number of bytes up to whole pages. */
export function wholePages(byteLength: number): number {
  return Math.ceil(byteLength / pageByteLength) * pageByteLength;
}

/** Returns the device address of an offset into linear memory. */
export function addressOfOffset(offset: number): bigint {
  return addressBase + BigInt(offset);
}

/** Returns the offset of a device address, or undefined if the address lies outside of linear memory. */
export function offsetOfAddress(address: bigint): number | undefined {
  const offset = address - addressBase;
  return offset >= 0n && offset < BigInt(linearMemoryByteLength) ? Number(offset) : undefined;
}
