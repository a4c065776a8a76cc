/**
 * What gangs of threads are, and how what is saved of them begins.
 *
 * @module
 */

/**
 * How many threads a gang may have. They all lie in one warp; as many as possible are not always best: what they hold must
 * find room in an engine's vector registers.
 */
export type GangWidth = 4 | 8 | 16 | 32;

/** Of the place in the memory where a gang's registers are saved: what comes first. */
export const gangHeader = { state: 0, mask: 4, place: 8, byteLength: 16 } as const;

/** Where a gang goes on, in its header: the number of a suspension, or one of these. */
export const gangState = {
  start: 0,
  exited: -1,
  /** Its threads do not run as a gang any more. */
  single: -2,
} as const;
