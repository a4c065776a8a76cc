/**
 * The width of gangs, and the layout of their save areas.
 *
 * @module
 */

/**
 * How many threads a gang may have. All are in one warp. The widest gang is not always the fastest, because its values
 * must fit into an engine's vector registers.
 */
export type GangWidth = 4 | 8 | 16 | 32;

/** The header of a gang's save area. */
export const gangHeader = { state: 0, mask: 4, threadIndex: 8, byteLength: 16 } as const;

/** Where a gang resumes, in its header: the number of a suspension, or one of these. */
export const gangState = {
  start: 0,
  exited: -1,
  /** Its threads run one by one. */
  single: -2,
} as const;
