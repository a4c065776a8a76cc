/**
 * The layout of the memory in which compiled kernels record accesses for the checks, so that most accesses need no call
 * out of WebAssembly; the cells of the check `race`; and the bits that describe the memory order of accesses.
 *
 * @module
 */

/**
 * The state of the running launch's checks: the offset of each field from the start of `scratch.checks`. Each field is
 * a 32-bit number.
 */
export const checkState = {
  /**
   * The offset of the tables of recorded accesses, one table for each kind of access, back to back. `tableOff` if
   * accesses are not recorded, `tableOutside` if all accesses are recorded outside of WebAssembly.
   */
  notes: 0,
  /**
   * The offset of the table of the check `race`. `tableOff` without that check, `tableOutside` if all accesses are
   * checked outside of WebAssembly.
   */
  races: 4,
  /**
   * Nonzero if the next access must be checked outside of WebAssembly, for example because the effect of the last store
   * has not been examined yet.
   */
  isBusy: 8,
  /** Nonzero if threads may execute release operations other than barriers. */
  hasReleases: 12,
  /** The offset of the running block's shared memory. */
  sharedBegin: 16,
  /** The size of the running block's shared memory in bytes. */
  sharedBytes: 20,
  /** The entry that the shared memory of the running block has in the table of the check `race`; see `checkTable`. */
  sharedCells: 24,
  /** The offset of the running block's clocks. 0 if the clocks are not stored in linear memory. */
  clocks: 28,
  /** The offset of the nodes of access lists. 0 if the nodes are not stored in linear memory. */
  nodes: 32,
  /** The index of the block to which `clocks` belongs. Only used by kernels that run many blocks in one call. */
  blockX: 36,
  blockY: 40,
  blockZ: 44,
  /**
   * The number of threads of a block in x. `threadsXY` and `threadsXYZ` are the products of the numbers of threads in x
   * and y, and in x, y and z.
   */
  threadsX: 48,
  threadsXY: 52,
  threadsXYZ: 56,
  /**
   * Nonzero once the maximum number of signals between blocks has been recorded: compiled code then stops reporting
   * signals.
   */
  knowsSignals: 60,
  /** The offset of the table of recent strong writes; see `signalTable`. */
  signals: 256,
} as const;

/** Stored instead of a table's offset if accesses are not checked. */
export const tableOff = 0;
/** Stored instead of a table's offset if all accesses are checked outside of WebAssembly. */
export const tableOutside = 1;

/** The offset in linear memory of the fields that `checkState` describes. */
export const checkStateBegin = 0x1_e000;
/** The number of bytes reserved for the fields that `checkState` describes. */
export const checkStateByteLength = 768;

/**
 * A direct-mapped cache of the last strong writes to global memory, indexed by the low bits of the index of the written
 * word. Each entry consists of the word's offset in linear memory, and the number of the writing block's first thread
 * plus 1.
 */
export const signalTable = { entryBytes: 8, entries: 64 } as const;

/**
 * The layout of a table that has a 4-byte entry for each 4096-byte page of linear memory. An entry is 0 if accesses to
 * the page must be checked outside of WebAssembly, `ignored` if they are not checked, and otherwise the offset of the
 * page's cells plus the base-2 logarithm of the number of bytes that a cell describes.
 */
export const checkTable = { pageShift: 12, byteLength: 0x40_0000, ignored: 3 } as const;

/** The mask of the low bits of an entry of a `checkTable`. These bits are not part of the offset of the cells. */
export const entryFlags = 3;

/**
 * The layout of a block's clocks, as byte offsets: the time of the last barrier of the whole block, the number of the
 * block's first thread, the number of threads rounded up to whole warps, the time of each warp's last barrier, and each
 * thread's epoch.
 */
export const clockLayout = { blockTime: 0, base: 4, threads: 8, warpTimes: 16, epochs: 144, byteLength: 4240 } as const;

/**
 * The layout of the access record of a 4-byte word, which consists of two numbers. The first number has one bit per
 * accessed byte in its low bits, and above them the PTX line of the first access, or `divided` if different lines
 * accessed different bytes. The second number is the index, within the grid, of the first thread that accessed the
 * word.
 */
export const note = { lineShift: 4, divided: 0x4000_0000, wordsShift: 1 } as const;

/**
 * The fields of a cell, in which the check `race` records the accesses to a word or a byte of memory. Fields for
 * threads contain the thread's number in the launch plus 1, or 0 for none. An epoch is the time of the thread's last
 * barrier, fence or release before the access. A place is an encoded code location (`encodePlace`).
 */
export const cellField = {
  writer: 0,
  writeEpoch: 1,
  writePlace: 2,
  reader: 3,
  readEpoch: 4,
  readPlace: 5,
  /**
   * The index of the first node of the list of further readers; 0 if the list is empty. Negated if no further readers
   * have to be recorded.
   */
  readers: 6,
  /**
   * The index of the first node of the list of strong accesses; 0 if the list is empty. Negated if no further accesses
   * have to be recorded.
   */
  strong: 7,
} as const;

/** The binary logarithm of the number of fields of a cell. */
export const cellShift = 3;

/** The value of `writeEpoch` for a write by an asynchronous copy that is not complete. */
export const pendingEpoch = 0x7fff_ffff;

/** The fields of a node in an access list. A node describes the lanes of one warp that accessed a cell in one epoch. */
export const nodeField = { next: 0, warp: 1, epoch: 2, lanes: 3, place: 4, order: 5 } as const;

/** The number of fields of a node. */
export const nodeWords = 6;

/**
 * The fields of node 0, which is not part of any list: the first node of the free list, the index of the first node
 * that was never used, and the total length of the array.
 */
export const nodeLists = { free: 1, end: 2, length: 3 } as const;

/**
 * The maximum number of nodes of an access list. Accesses beyond this limit are not recorded, and races with them are
 * missed.
 */
export const mostNodes = 64;

/** The bits that describe the memory order of an access or a fence. */
export const orderBits = {
  /** The access is strong: relaxed, volatile, acquire, release, or atomic. Otherwise, it is weak. */
  strong: 1,
  acquire: 2,
  release: 4,
  /** The scope is wider than a cluster. */
  wide: 8,
  /** A load through the non-coherent cache. */
  notCoherent: 16,
  /** A write by an asynchronous copy, which may take place after the copy instruction has completed. */
  asynchronous: 32,
  /**
   * A store that takes effect before the thread's next operation, so that the memory can then be read to find out
   * whether the store has changed the value.
   */
  immediate: 64,
  /**
   * Not a memory operation: the thread commits all asynchronous copies that it has started and not yet committed, as a
   * group.
   */
  commit: 128,
  /**
   * Not a memory operation: the thread waits until at most a given number of its groups of asynchronous copies are
   * pending.
   */
  wait: 256,
  /** An arrival at an `mbarrier`, or a test of its phase. */
  phased: 512,
  /** A sequentially consistent fence. */
  sequential: 1024,
  /** An atomic operation that returns its result to the thread. */
  hasResult: 2048,
  /** A volatile load or store. */
  volatile: 4096,
  /** A volatile load that polls: its result determines whether a loop exits. */
  polls: 8192,
  /** An access by the asynchronous proxy, as that of a bulk copy; or a fence between that proxy and the generic one. */
  proxy: 16384,
  /** An access to texels by a texture or a surface. Its reads go through a cache that does not see writes. */
  texels: 32768,
  /** The scope is the cluster: that of a block, or a wider one if clusters have several blocks. */
  cluster: 65536,
  /** An atomic operation that is a load and a store in the code of a GPU, if the memory is another block's. */
  divided: 131072,
} as const;

/**
 * The number of low bits that `orderBits` occupy. The bits above them contain the base-2 logarithm of the number of
 * elements of an access or, for `wait`, the number of groups.
 */
export const orderCountShift = 18;
