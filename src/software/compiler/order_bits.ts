/**
 * How accesses and fences are ordered, as compiled kernels tell it to the check of races.
 *
 * @module
 */

/** The bits of an order. */
export const orderBits = {
  /** A strong access: relaxed, volatile, acquire, release, or atomic. Others are weak. */
  strong: 1,
  acquire: 2,
  release: 4,
  /** The scope is more than the block. Every block is a cluster of its own. */
  wide: 8,
  /** A load by the cache that is not coherent. */
  notCoherent: 16,
  /** A copy that goes on after the instruction. */
  asynchronous: 32,
  /** A store that is done when the thread does anything else, so that memory tells whether it has changed something. */
  immediate: 64,
  /** Instead of a fence: the copies so far are a group, or the thread waits for all groups but some. */
  commit: 128,
  wait: 256,
  /** An arrival at an `mbarrier`, or a test of its phase. */
  phased: 512,
  /** A fence that has a place in the one order of all sequentially consistent fences. */
  sequential: 1024,
  /** An atomic operation whose result the thread gets. */
  hasResult: 2048,
} as const;

/** Above it, an access has the binary logarithm of its elements, and a wait the number of groups. */
export const orderCountShift = 12;
