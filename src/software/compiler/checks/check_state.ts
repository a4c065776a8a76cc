/**
 * The memory in which compiled kernels note their accesses for the checks, so that most accesses call nothing outside of
 * WebAssembly. Kernels and the checks agree on its layout here.
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
  /** Not 0 while the last access has to be looked at again. */
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
  /** Not 0 if it is known of enough blocks which of them have told each other something by strong accesses. */
  knowsSignals: 60,
  /** See `signalTable`. */
  signals: 256,
} as const;

/** Instead of the offset of a table: no access is looked at, or all are looked at outside of WebAssembly. */
export const tableOff = 0;
/** @see tableOff */
export const tableOutside = 1;

/** Where the state is in linear memory. */
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
