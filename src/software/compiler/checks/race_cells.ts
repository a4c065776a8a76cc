/**
 * What the check of races knows of a word of memory, or of a byte, as kernels and the check note it.
 *
 * @module
 */

/**
 * The fields of a cell. Threads are one more than their number in the launch, or 0 for none; an epoch is the time of what
 * last ordered the accesses of the thread before.
 */
export const cellField = {
  writer: 0,
  writeEpoch: 1,
  writePlace: 2,
  reader: 3,
  readEpoch: 4,
  readPlace: 5,
  /** The first node of other readers, and of strong accesses. 0 for none. Negative once no more have to be noted. */
  readers: 6,
  strong: 7,
} as const;

/** The binary logarithm of the numbers in a cell. */
export const cellShift = 3;

/** The epoch of a copy that is not done. */
export const pendingEpoch = 0x7fff_ffff;

/** The fields of a node: some lanes of a warp that have accessed a cell at one epoch. */
export const nodeField = { next: 0, warp: 1, epoch: 2, lanes: 3, place: 4, order: 5 } as const;

/** The numbers of a node. */
export const nodeWords = 6;

/**
 * In place of the first node: the first node that is free, where those begin that were never in use, and how many
 * numbers there are.
 */
export const nodeLists = { free: 1, end: 2, length: 3 } as const;

/** The most nodes of a list. Those behind are not noted, and races with them are not seen. */
export const mostNodes = 64;
