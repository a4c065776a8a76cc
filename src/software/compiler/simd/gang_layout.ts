/**
 * The width of gangs, and the layout of their save areas.
 *
 * @module
 */

/**
 * The number of threads of a gang, all of which are in one warp. The widest gang is not always the fastest, because the
 * values of its threads must fit into the CPU's vector registers.
 */
export type GangWidth = 4 | 8 | 16 | 32;

/** The byte offsets of the fields in the header of a gang's save area, and the header's length. */
export const gangHeader = { state: 0, mask: 4, threadIndex: 8, byteLength: 16 } as const;

/**
 * Special values of `state` in a gang's header, which determines where the gang resumes. Any other value is the index
 * of the suspension point to resume from.
 */
export const gangState = {
  start: 0,
  exited: -1,
  /** The gang has been split up: its threads run individually. */
  single: -2,
} as const;
