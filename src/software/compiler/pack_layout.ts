/**
 * What packs of threads are, and how what is saved of them begins.
 *
 * @module
 */

/** Threads of a pack, and vectors of four numbers that hold one of each. */
export const packWidth = 16;
export const packVectors: number = packWidth / 4;
/** A bit for each thread. */
export const wholeMask: number = 2 ** packWidth - 1;

/** Of the place in the memory where a pack's registers are saved: what comes first. */
export const packHeader = { state: 0, mask: 4, place: 8, byteLength: 16 } as const;

/** Where a pack goes on, in its header: the number of a suspension, or one of these. */
export const packState = {
  start: 0,
  exited: -1,
  /** Its threads do not run as a pack any more. */
  single: -2,
} as const;
