/**
 * What packs of threads are, and how what is saved of them begins.
 *
 * @module
 */

/**
 * How many threads a pack may have. They all lie in one warp; as many as possible are not always best: what they hold must
 * find room in an engine's vector registers.
 */
export type PackWidth = 4 | 8 | 16 | 32;

/** Of the place in the memory where a pack's registers are saved: what comes first. */
export const packHeader = { state: 0, mask: 4, place: 8, byteLength: 16 } as const;

/** Where a pack goes on, in its header: the number of a suspension, or one of these. */
export const packState = {
  start: 0,
  exited: -1,
  /** Its threads do not run as a pack any more. */
  single: -2,
} as const;
