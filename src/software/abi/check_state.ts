/**
 * The memory in which compiled kernels record their accesses for the checks, so that most accesses call nothing outside
 * of WebAssembly: its layout, the cells of the check of races, and how accesses are ordered.
 *
 * @module
 */

/**
 * The state of the checks of the launch that runs: the offsets of its fields from the start of `scratch.checks`. Each is
 * a 32-bit number.
 */
export const checkState = {
  /**
   * The offset of the tables of what is accessed, one after the other by the kind of access, and that of the table of
   * what is known of accesses, to find races. `off` if nothing looks at that, and `outside` if there are no tables.
   */
  notes: 0,
  races: 4,
  /** Not 0 while the last access has to be examined again. */
  isBusy: 8,
  /** Not 0 if threads may release what they have done, other than by barriers. */
  hasReleases: 12,
  /** The shared memory of the block that runs, and the entry for its cells. */
  sharedBegin: 16,
  sharedBytes: 20,
  sharedCells: 24,
  /** The offset of the clocks of the block that runs. 0 if they are not in linear memory. */
  clocks: 28,
  /** The offset of the lists of accesses. 0 if they are not in linear memory. */
  nodes: 32,
  /** In a kernel that runs many blocks in one call: the block whose clocks these are. */
  blockX: 36,
  blockY: 40,
  blockZ: 44,
  /** The threads of a block in x, and in x and y. */
  threadsX: 48,
  threadsXY: 52,
  threadsXYZ: 56,
  /** Not 0 if enough signals between blocks are recorded. */
  knowsSignals: 60,
  /** See `signalTable`. */
  signals: 256,
} as const;

/** Instead of the offset of a table: no access is checked, or all are checked outside of WebAssembly. */
export const tableOff = 0;
/** @see tableOff */
export const tableOutside = 1;

/** The offset of the state in linear memory. */
export const checkStateBegin = 0x1_e000;
/** The bytes of the state. */
export const checkStateByteLength = 768;

/**
 * The last strong writes to global memory, by the lower bits of the number of their word: the offset in linear memory,
 * and one more than the number of the first thread of the block.
 */
export const signalTable = { entryBytes: 8, entries: 64 } as const;

/**
 * The tables have an entry of 4 bytes for each page of memory: 0 if the page has to be looked for, `ignored`, or where
 * its cells are, plus the binary logarithm of the bytes of a cell.
 */
export const checkTable = { pageShift: 12, byteLength: 0x40_0000, ignored: 3 } as const;

/** The bits of an entry that are not part of an offset. */
export const entryFlags = 3;

/**
 * The clocks of a block: the time of the last barrier of all threads, the number of the first thread, the number of
 * threads in whole warps, and for each warp the time of its last barrier, and for each thread its epoch.
 */
export const clockLayout = { blockTime: 0, base: 4, threads: 8, warpTimes: 16, epochs: 144, byteLength: 4240 } as const;

/**
 * What is noted of a word: one bit for each byte that is accessed, above them the line that has accessed them first, and
 * in a second number the thread that did, as its number in the grid. Of a word whose bytes were accessed by different
 * lines, no line is noted: it is divided.
 */
export const note = { lineShift: 4, divided: 0x4000_0000, wordsShift: 1 } as const;

/**
 * The fields of a cell: what the check of races knows of a word of memory, or of a byte. Threads are one more than their number in the launch, or 0 for none; an epoch is the time of what
 * last ordered the accesses of the thread before.
 */
export const cellField = {
  writer: 0,
  writeEpoch: 1,
  writePlace: 2,
  reader: 3,
  readEpoch: 4,
  readPlace: 5,
  /** The first node of other readers, and of strong accesses. 0 for none. Negative if no more have to be recorded. */
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

/** The maximum number of nodes of a list. Further ones are not recorded, and races with them are missed. */
export const mostNodes = 64;

/** The bits that say how an access or a fence is ordered. */
export const orderBits = {
  /** A strong access: relaxed, volatile, acquire, release, or atomic. Others are weak. */
  strong: 1,
  acquire: 2,
  release: 4,
  /** The scope is more than the block. Every block is a cluster of its own. */
  wide: 8,
  /** A load by the cache that is not coherent. */
  notCoherent: 16,
  /** A copy that continues after the instruction. */
  asynchronous: 32,
  /**
   * A store that is complete when the thread does anything else, so that memory shows whether it has changed the value.
   */
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
