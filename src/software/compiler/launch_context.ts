/**
 * Where a compiled kernel finds what its caller tells it, and where it leaves the threads that it has not finished: a
 * record of numbers for the launch, and one for each thread. What compiled code reads and writes, and what the scheduler of
 * threads does, meet here.
 *
 * @module
 */

/** The numbers of 32 bits that a launch consists of, in order. */
export const contextFields = [
  /** Of a kernel whose threads never wait: the blocks that are run, in x, to one past the last. */
  "firstBlockX",
  "lastBlockX",
  /** Of another: the block, and its threads that are run, to one past the last. */
  "blockX",
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
  /** Where in the memory the packed parameters begin. */
  "parameters",
  /** Where the block's shared memory begins, and its bytes. */
  "shared",
  "sharedBytes",
  /** Where the first thread's local memory begins. */
  "localMemory",
  /** Where the first thread's registers are saved. */
  "savedRegisters",
  /** Where the records of the threads begin. */
  "threads",
  /** Where the device's table of bounds begins. */
  "bounds",
  /** How often a thread may go around its loops before it asks whether it may go on. */
  "fuelLeft",
  /** Where the registers of gangs of threads are saved. */
  "gangs",
  /** How often the threads of a gang have gone different ways, and how often all gangs of a block have been run. */
  "divergences",
  "rounds",
] as const;

/** One of the numbers of a launch. */
export type ContextField = typeof contextFields[number];

const contextOffsets: ReadonlyMap<ContextField, number> = new Map(
  contextFields.map((field, index) => [field, index * 4]),
);

/** Where a number lies in the record, in bytes. */
export function contextOffset(field: ContextField): number {
  return contextOffsets.get(field)!;
}

/** Bytes of a thread's record. */
export const threadRecordByteLength = 64;

/** Where in a thread's record something lies, in bytes. */
export const threadRecord = {
  /** Its place in the block: x, y from bit 10 on, z from bit 20 on. Written by the scheduler. */
  place: 0,
  /** Where in the kernel it goes on: 0 at its start. */
  resumeIndex: 4,
  /** What it waits for: one more than the index of a suspension; 0 where it may go on; -1 once it has exited. */
  request: 8,
  /** Where its registers are saved, and where its frame and what lies above that begin. */
  saved: 12,
  frame: 16,
  top: 20,
  /** What it asks with: numbers of 32 bits but for the value, which may have 64. */
  mask: 24,
  first: 28,
  second: 32,
  value: 40,
  /** What it is answered: written by the scheduler, in place of the value. */
  result: 48,
  predicate: 56,
} as const;

/** The request of a thread that has exited. */
export const exited = -1;

/** Where a thread may be suspended, and what it asks for there. */
export interface Suspension {
  readonly request: SuspensionRequest;
  /** Of the PTX text. */
  readonly line: number;
}

/** What a suspended thread asks for. */
export type SuspensionRequest =
  /** `bar.sync`, `bar.red` and `bar.arrive`: `first` is the barrier, `second` how many threads, 0 for all. */
  | { readonly kind: "barrier"; readonly operation: "sync" | "arrive" | "popc" | "and" | "or" }
  /** `bar.warp.sync` */
  | { readonly kind: "warpBarrier" }
  /** `shfl.sync`: `first` is the lane or distance, `second` the clamp and segment mask. */
  | { readonly kind: "shuffle"; readonly mode: "up" | "down" | "bfly" | "idx" }
  /** `vote.sync`; `value` is the predicate. */
  | { readonly kind: "vote"; readonly mode: "all" | "any" | "uni" | "ballot" }
  | { readonly kind: "match"; readonly mode: "any" | "all" }
  /** `redux.sync` */
  | {
    readonly kind: "reduction";
    readonly operation: "add" | "min" | "max" | "and" | "or" | "xor";
    readonly signed: boolean;
  }
  /** The threads of the warp that are at the same place. */
  | { readonly kind: "activeMask" }
  /** Others may go on first. */
  | { readonly kind: "yield" };
