/**
 * The memory that compiled kernels share with their caller: a launch record, and one record for each thread that has
 * not finished. Compiled code and the scheduler of threads agree on their layout here.
 *
 * @module
 */

/** The fields of a launch record, in order. Each is a 32-bit number. */
export const launchFields = [
  /** For a kernel without suspensions: the blocks to run, in x. The last is exclusive. */
  "firstBlockX",
  "lastBlockX",
  /** The block that runs. */
  "blockX",
  /** For a kernel with suspensions: the threads to run. The last is exclusive. */
  "firstThread",
  "lastThread",
  "blockY",
  "blockZ",
  "gridX",
  "gridY",
  "gridZ",
  "blockDimX",
  "blockDimY",
  "blockDimZ",
  /** The offset of the packed parameters in memory. */
  "parameters",
  /** The offset of the block's shared memory, and its bytes. */
  "shared",
  "sharedBytes",
  /** The offset of the first thread's local memory. */
  "localMemory",
  /** The offset of the first thread's saved registers. */
  "savedRegisters",
  /** The offset of the thread records. */
  "threads",
  /** The offset of the device's bounds table. */
  "bounds",
  /** Loop iterations left before the kernel asks for more fuel. */
  "fuelLeft",
  /** The offset of the save areas of gangs. */
  "gangs",
  /** How often a gang has diverged, and how often all gangs of a block have been run. */
  "divergences",
  "rounds",
  /** For a kernel without suspensions and for gangs: the row of threads that runs, which a fault is reported for. */
  "rowY",
  "rowZ",
  /** Which multiprocessor runs the block: the sum of this and `blockX`, modulo `multiProcessorCount`. */
  "multiprocessor",
  /** The generic address of a cooperative launch's workspace, in two halves. 0 in other launches. */
  "workspaceHigh",
  "workspaceLow",
  /**
   * The offset of the ranges that the parameters of 64 bits point into, for kernels that check memory. Each has the
   * offset and the bytes of its range, at its own place among the parameters; of one that points nowhere, 0 and
   * `unboundedLength`.
   */
  "argumentRanges",
  /**
   * For kernels that are compiled to run the threads of a block in another order: in x, y and z, with how many of them
   * before it comes first, and a bit for each of these in which they run backwards.
   */
  "threadStartX",
  "threadStartY",
  "threadStartZ",
  "reversedThreads",
] as const;

/** The first thread in x, y and z. */
export const threadStarts = ["threadStartX", "threadStartY", "threadStartZ"] as const;

/** The length of a range that accesses need not lie in. */
export const unboundedLength = 0xffff_ffff;
/** The bytes of the parameters that have ranges, at most. */
export const argumentRangesByteLength = 0x4000;

/** How many multiprocessors a device has, as kernels see it. */
export const multiProcessorCount = 4;

/** A field of a launch record. */
export type LaunchField = typeof launchFields[number];

const launchFieldOffsets: ReadonlyMap<LaunchField, number> = new Map(
  launchFields.map((field, index) => [field, index * 4]),
);

/** The offset of the launch record in linear memory. */
export const launchRecordBegin = 0x1_8000;

/** The offset of a field in a launch record, in bytes. */
export function launchFieldOffset(field: LaunchField): number {
  return launchFieldOffsets.get(field)!;
}

/** The bytes of a thread record. */
export const threadRecordByteLength = 64;

/** The offsets of the fields of a thread record, in bytes. */
export const threadRecord = {
  /** The thread's index in the block: x, y from bit 10 on, z from bit 20 on. Written by the scheduler. */
  threadIndex: 0,
  /** The place in the kernel where the thread resumes: 0 at its start. */
  resumeIndex: 4,
  /** The request of the thread: one more than the index of a suspension, 0 if it can run, or -1 once it has exited. */
  request: 8,
  /** The offsets of its saved registers, of its frame, and of the free stack above the frame. */
  saved: 12,
  frame: 16,
  stackPointer: 20,
  /** The operands of its request. All have 32 bits except the value, which may have 64. */
  mask: 24,
  first: 28,
  second: 32,
  value: 40,
  /** The results of its request, written by the scheduler. */
  result: 48,
  predicate: 56,
} as const;

/** The request of a thread that has exited. */
export const exited = -1;

/** What a call saves beside registers: where the caller resumes, its frame, and the free stack above the frame. */
export const savedHeader = { resumeIndex: 0, frame: 4, stackPointer: 8, byteLength: 16 } as const;

/** A call: its place in the function, as {@linkcode Suspension} has it, and the bytes that the function saves. */
export interface CallSite {
  readonly order: number;
  readonly savedBytes: number;
}

/**
 * What threads tell of a barrier, for the check of synchronization: that they take a branch on which it depends whether
 * they get there, that they are there, and that the ways of the branch have met again.
 */
export const barrierMarks = { branch: 0, barrier: 1, meeting: 2, count: 3 } as const;

/** A place where a thread may be suspended, and what it requests there. */
export interface Suspension {
  readonly request: SuspensionRequest;
  /** The line in the PTX text. */
  readonly line: number;
  /** Its place in the function. Of lanes that wait at different places, those with the lowest go on first. */
  readonly order: number;
}

/** What a suspended thread requests. */
export type SuspensionRequest =
  /**
   * `bar.sync`, `bar.red` and `bar.arrive`: `first` is the barrier, and `second` the number of threads, or 0 for all. If
   * it is aligned, all lanes of a warp must execute the same instruction.
   */
  | {
    readonly kind: "barrier";
    readonly operation: "sync" | "arrive" | "popc" | "and" | "or";
    readonly isAligned: boolean;
  }
  /** `bar.warp.sync` */
  | { readonly kind: "warpBarrier" }
  /** `shfl.sync`: `first` is the lane or distance, `second` the clamp and segment mask. */
  | { readonly kind: "shuffle"; readonly mode: "up" | "down" | "bfly" | "idx" }
  /** `vote.sync`: `value` is the predicate. */
  | { readonly kind: "vote"; readonly mode: "all" | "any" | "uni" | "ballot" }
  | { readonly kind: "match"; readonly mode: "any" | "all" }
  /** `redux.sync` */
  | {
    readonly kind: "reduction";
    readonly operation: "add" | "min" | "max" | "and" | "or" | "xor";
    readonly signed: boolean;
  }
  /**
   * `ldmatrix` and `stmatrix`: `value` is the offset of the row that the thread names, or 0. The thread's fragments of the
   * matrices are in four words from `result` on.
   */
  | { readonly kind: "matrixLoad" | "matrixStore"; readonly matrices: number; readonly transposed: boolean }
  /** `movmatrix`: `value` is the thread's fragment. */
  | { readonly kind: "matrixTranspose" }
  /** `activemask`: which threads of the warp are at the same place. */
  | { readonly kind: "activeMask" }
  /** Nothing: other threads run first. */
  | { readonly kind: "yield" }
  /**
   * A lockstep point: the lanes of the warp go on together, once none of them can run. `spins` is set in a loop where a
   * lane may wait for what another one stores.
   */
  | { readonly kind: "lockstep"; readonly spins: boolean };

/**
 * The fields of an `mbarrier` object, as the number of their lowest bit and their width: how many arrivals the phase
 * still expects, how many each phase expects, and how many bytes are yet to be copied, which may be negative. The
 * highest bit is the parity of the phase. PTX leaves the layout open.
 */
export const memoryBarrierFields = {
  pending: { first: 0n, bits: 20n },
  expected: { first: 20n, bits: 20n },
  transactions: { first: 40n, bits: 22n },
  phase: { first: 63n, bits: 1n },
} as const;
