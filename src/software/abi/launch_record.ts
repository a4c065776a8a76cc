/**
 * The layout of the memory that compiled kernels share with the scheduler of threads: a launch record, and one record
 * for each thread that has not finished.
 *
 * @module
 */
import { exchangeLength } from "./textures.ts";

/** The number of threads in a warp. */
export const warpSize = 32;

/** The names of a launch record's fields, in order. Each field is a 32-bit number. */
export const launchFields = [
  /**
   * The first block to run, by its x index, in a kernel without suspensions. `lastBlockX` is the x index after the last
   * block.
   */
  "firstBlockX",
  "lastBlockX",
  /** The x index of the running block. */
  "blockX",
  /** The first thread to run in a kernel with suspensions. `lastThread` is the thread after the last one to run. */
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
  /** The offset of the block's shared memory. */
  "shared",
  /** The size of the block's shared memory in bytes. */
  "sharedBytes",
  /** The offset of the first thread's local memory. */
  "localMemory",
  /** The offset of the first thread's saved registers. */
  "savedRegisters",
  /** The offset of the thread records. */
  "threads",
  /** The offset of the device's bounds table. */
  "bounds",
  /**
   * The remaining fuel: the number of loop iterations that may run before the kernel calls the host function `refuel`.
   */
  "fuelLeft",
  /** The offset of the save areas of gangs. */
  "gangs",
  /** The number of times that gangs have diverged in the current call of the kernel. */
  "divergences",
  /** The number of times that the current call of the kernel has run all gangs of a block. */
  "rounds",
  /**
   * The y index of the running threads, for fault reports of kernels without suspensions and of gangs. `rowZ` is the z
   * index.
   */
  "rowY",
  "rowZ",
  /**
   * The number that determines the multiprocessor of a block: (`multiprocessor` + `blockX`) modulo
   * `multiProcessorCount`.
   */
  "multiprocessor",
  /**
   * The upper 32 bits of the generic address of a cooperative launch's workspace; `workspaceLow` has the lower 32 bits.
   * Both are 0 in other launches.
   */
  "workspaceHigh",
  "workspaceLow",
  /** The size of a cluster of blocks, in blocks. */
  "clusterDimX",
  "clusterDimY",
  "clusterDimZ",
  /** 1 if the launch or the kernel states the size of its clusters. */
  "isCluster",
  /** The first address in `.shared` of the running block: its rank in the cluster times the size of the state space. */
  "clusterBase",
  /**
   * The offset of a table with the offset of the shared memory of each block of the cluster, by rank. 0 if the other
   * blocks of the cluster are not resident.
   */
  "clusterTable",
  /**
   * For kernels with the check `memory`: the offset of a table of the ranges that the 64-bit parameters point into. An
   * entry is located at the same offset in the table as the parameter in the packed parameters. The entry consists of
   * the offset and the size of the range, or of 0 and `unboundedLength` if the parameter points into no allocation.
   */
  "argumentRanges",
  /**
   * For kernels that run the threads of a block in a varied order: the x index of the first thread to run. The next two
   * fields are the y and z index.
   */
  "threadStartX",
  "threadStartY",
  "threadStartZ",
  /**
   * For kernels that run the threads of a block in a varied order: a bit set of the dimensions in which threads run in
   * descending order. Bit 0 is x.
   */
  "reversedThreads",
  /** For kernels with products of matrices: the offset of the memory in which the products of a block are computed. */
  "warpWorkspace",
] as const;

/** The fields that contain the index of the first thread to run in x, y and z. */
export const threadStarts = ["threadStartX", "threadStartY", "threadStartZ"] as const;

/** The size of an argument range without a known end. */
export const unboundedLength = 0xffff_ffff;
/** The maximum size of the table of argument ranges, in bytes. Parameters at higher offsets have no ranges. */
export const argumentRangesByteLength = 0x4000;

/** The maximum number of blocks in a cluster. */
export const mostClusterBlocks = 16;

/** The number of multiprocessors that a device has according to the special registers that kernels read. */
export const multiProcessorCount = 4;
/** The most threads that can be resident on a multiprocessor. */
export const maxThreadsPerMultiProcessor = 2048;

/** A field of a launch record. */
export type LaunchField = typeof launchFields[number];

const launchFieldOffsets: ReadonlyMap<LaunchField, number> = new Map(
  launchFields.map((field, index) => [field, index * 4]),
);

/**
 * The offset in a launch record of the exchange, by which compiled code passes operands to host functions and gets
 * results (`textures.ts`).
 */
export const exchangeOffset: number = Math.ceil(launchFields.length / 2) * 8;

/** The size of a launch record in bytes. */
export const launchRecordByteLength: number = exchangeOffset + exchangeLength * 4;

/** The offset of the launch record in linear memory. */
export const launchRecordBegin = 0x1_8000;

/** Returns the offset of a field in a launch record, in bytes. */
export function launchFieldOffset(field: LaunchField): number {
  return launchFieldOffsets.get(field)!;
}

/** The size in bytes of the memory in which products of matrices are computed. Each block has its own. */
export const productWorkspaceByteLength = 59_392;

/** The size of a thread record in bytes. */
export const threadRecordByteLength = 64;

/** The offsets of the fields of a thread record, in bytes. */
export const threadRecord = {
  /** The thread's index in the block: x in bits 0 to 9, y from bit 10, z from bit 20. Written by the scheduler. */
  threadIndex: 0,
  /** The number of the point in the kernel at which the thread resumes. 0 is the start of the kernel. */
  resumeIndex: 4,
  /**
   * The thread's request: the index of the suspension at which it waits plus 1, 0 if the thread can run, or `exited`.
   */
  request: 8,
  /** The offset of the thread's saved registers. */
  saved: 12,
  /** The offset of the thread's stack frame. */
  frame: 16,
  /** The offset of the free part of the stack, above the thread's stack frame. */
  stackPointer: 20,
  /**
   * The first of the request's operands: `mask`, `first`, `second` and `value`. Each has 32 bits, except for `value`,
   * which has up to 64.
   */
  mask: 24,
  first: 28,
  second: 32,
  /**
   * For a thread that continues in another part of its kernel: the number of spin-loop iterations left before the
   * thread yields. 0 for a thread that has been suspended.
   */
  spins: 36,
  value: 40,
  /** The first of the request's results, `result` and `predicate`, which the scheduler writes. */
  result: 48,
  predicate: 56,
} as const;

/** The value of `threadRecord.request` for a thread that has exited. */
export const exited = -1;

/**
 * The layout of the header that a function call saves before the registers: the caller's resume point, stack frame and
 * stack pointer.
 */
export const savedHeader = { resumeIndex: 0, frame: 4, stackPointer: 8, byteLength: 16 } as const;

/** A call site in a function. */
export interface CallSite {
  /** The position of the call in the function, comparable with {@linkcode Suspension.order}. */
  readonly order: number;
  /** The number of bytes of registers that the calling function saves for the call. */
  readonly savedBytes: number;
}

/**
 * The events that a thread reports for each barrier to the check `synchronization`: the thread executes a branch that
 * decides whether it reaches the barrier (`branch`), reaches the barrier (`barrier`), or arrives where the paths of the
 * branch reconverge (`meeting`). An encoded event is the number of the barrier times `count`, plus the event.
 */
export const barrierMarks = { branch: 0, barrier: 1, meeting: 2, count: 3 } as const;

/**
 * The mistakes with registers of asynchronous products that a thread reports to the check `synchronization`: it uses a
 * result too early, it writes a register too early, or it starts a product without a fence after writes of its registers.
 */
export const productMistakes = ["use", "overwrite", "fence"] as const;
/** One of {@linkcode productMistakes}. */
export type ProductMistake = typeof productMistakes[number];

/** Encodes a mistake with registers of a product at a line. It is negative, unlike the events of barriers. */
export function encodeProductMark(line: number, mistake: ProductMistake): number {
  return -(line * productMistakes.length + productMistakes.indexOf(mistake) + 1);
}

/** Decodes a number that {@linkcode encodeProductMark} has returned. */
export function decodeProductMark(mark: number): { line: number; mistake: ProductMistake } {
  const encoded = -mark - 1;
  return {
    line: Math.floor(encoded / productMistakes.length),
    mistake: productMistakes[encoded % productMistakes.length]!,
  };
}

/** A suspend point of the kernel, and the request that a thread makes there. */
export interface Suspension {
  readonly request: SuspensionRequest;
  /** The line in the PTX text. */
  readonly line: number;
  /**
   * The position of the suspend point in the function. If lanes wait at different suspend points, those at the lowest
   * position resume first.
   */
  readonly order: number;
}

/** The request of a suspended thread. */
export type SuspensionRequest =
  /**
   * `bar.sync`, `bar.red` and `bar.arrive`: `first` is the barrier, and `second` the number of threads, or 0 for all.
   * If `isAligned`, all lanes of a warp must execute the same instruction.
   */
  | {
    readonly kind: "barrier";
    readonly operation: "sync" | "arrive" | "popc" | "and" | "or";
    readonly isAligned: boolean;
  }
  /**
   * `barrier.cluster`: the thread arrives, or waits until all threads of the cluster that have not exited have arrived.
   */
  | {
    readonly kind: "clusterBarrier";
    readonly operation: "arrive" | "wait";
    readonly isAligned: boolean;
    /** Whether the arrival orders no memory: `.relaxed`. */
    readonly isRelaxed: boolean;
  }
  /** `bar.warp.sync`: the lanes in the mask operand wait for each other. */
  | { readonly kind: "warpBarrier" }
  /** `shfl.sync`: `first` is the lane or distance, `second` the clamp and segment mask. */
  | { readonly kind: "shuffle"; readonly mode: "up" | "down" | "bfly" | "idx" }
  /** `vote.sync`: `value` is the predicate. */
  | { readonly kind: "vote"; readonly mode: "all" | "any" | "uni" | "ballot" }
  | { readonly kind: "match"; readonly mode: "any" | "all" }
  /** `redux.sync`: `value` is the operand to reduce. */
  | {
    readonly kind: "reduction";
    readonly operation: "add" | "min" | "max" | "and" | "or" | "xor";
    readonly signed: boolean;
  }
  /**
   * `stmatrix`: `value` is the offset of the matrix row whose address the thread provides, or 0 if there is none. The
   * thread's fragments of the matrices are stored in four words starting at `result`.
   */
  | { readonly kind: "matrixStore"; readonly matrices: number; readonly transposed: boolean }
  /** `movmatrix`: `value` is the thread's fragment of the matrix. */
  | { readonly kind: "matrixTranspose" }
  /**
   * Products and loads of matrices: the lanes wait for each other. Each lane's `result` is 1. The first lane that resumes
   * executes the operations for all lanes, and sets all of them to 0.
   */
  | { readonly kind: "matrixProduct" }
  /** Requests the mask of the lanes that execute the same `activemask` instruction. */
  | { readonly kind: "activeMask" }
  /** The thread can resume at any time, but other threads of the block run first. */
  | { readonly kind: "yield" }
  /**
   * A lockstep point: once no lane of the warp can run, the lanes that wait at the point resume together. `spins` is
   * set in a loop in which a lane may wait for a store of another lane.
   */
  | { readonly kind: "lockstep"; readonly spins: boolean };

/**
 * The bit fields of an `mbarrier` object, by lowest bit and width: the pending arrivals of the current phase, the
 * expected arrivals of each phase, the pending transaction bytes (which may be negative), and the parity of the phase.
 * PTX leaves the layout to the implementation.
 */
export const memoryBarrierFields = {
  pending: { first: 0n, bits: 20n },
  expected: { first: 20n, bits: 20n },
  transactions: { first: 40n, bits: 22n },
  phase: { first: 63n, bits: 1n },
} as const;

/** The most bytes that can be pending at an `mbarrier`. One less can be complete before they are expected. */
export const mostPendingBytes: bigint = 2n ** 20n;
