/**
 * The interface between the sanitizer and a driver that observes and checks kernel launches.
 *
 * @module
 */
import type { KernelLaunch, LaunchAttributes, MemoryRange } from "./driver.ts";

/**
 * The part of a driver that observes and checks kernels. Only the software device has one, since it executes kernels
 * itself; CUDA has no equivalent.
 */
export interface KernelChecker {
  /** The checks that are performed on each launch. */
  readonly checks: ReadonlySet<KernelCheck>;
  /** Whether `onAccesses` is called with the accesses of launches. */
  readonly observesAccesses: boolean;
  /** Performs `launchKernel`, or `launchKernelEx` if there are `attributes`, and observes the launch. */
  launch(launch: KernelLaunch, attributes: LaunchAttributes | undefined, observation: LaunchObservation): void;
  /**
   * Records that a caching allocator has given `part` of an allocation to the program. Later work on `stream` may use
   * that part.
   */
  partAllocated(part: MemoryRange, device: number, stream: bigint): void;
  /** Records that the program has freed a part of an allocation. */
  partFreed(address: bigint): void;
  /**
   * Returns the memory that kernels have allocated and not freed. Empty while work is pending or if the devices are
   * lost.
   */
  unfreedHeap(): readonly UnfreedHeap[];
}

/** Properties of a launch that the sanitizer has determined in advance, and callbacks for the results of the launch. */
export interface LaunchObservation {
  /** Whether the check for races can be skipped, because no accesses of the launch's threads conflict. */
  readonly isRaceFree?: boolean;
  /**
   * Whether the check of barriers can be skipped, because all threads of a block reach each barrier together, and lanes
   * do not exchange values.
   */
  readonly hasUniformBarriers?: boolean;
  /**
   * All accesses of the launch, if they are known in advance. `onAccesses` is then called with them, and the launch is
   * not observed.
   */
  readonly accesses?: readonly LaunchAccess[] | undefined;
  /**
   * All accesses to global memory. Only set if they are known, and if the launch reads no memory other than its
   * arguments, constants, and shared memory that the launch itself has written.
   */
  readonly globalAccesses?: GlobalAccesses | undefined;
  /**
   * Called with the accesses to global memory when the launch is done or has failed, if the driver observes accesses.
   * Reads come first, then writes, then atomic accesses, each in the order of addresses.
   */
  readonly onAccesses?: ((accesses: readonly LaunchAccess[]) => void) | undefined;
  /** Called with the kernel's errors, when the launch is done or has failed. */
  readonly onFindings?: ((findings: readonly LaunchFinding[]) => void) | undefined;
}

/** The global memory that a launch reads and writes. Memory that atomic operations update is in both lists. */
export interface GlobalAccesses {
  readonly reads: readonly MemoryRange[];
  readonly writes: readonly MemoryRange[];
}

/** A check of the operations of a kernel's threads. */
export type KernelCheck = "memory" | "initialization" | "race" | "synchronization";

/** An error of a kernel. Equal errors of the same instructions are reported as one finding of a launch. */
export interface LaunchFinding {
  readonly check: KernelCheck;
  /** The kind of error: `"out-of-bounds"`, `"uninitialized-read"`, `"shared-race"` and so on. */
  readonly kind: string;
  /** The description of the error, as a sentence without a full stop. */
  readonly problem: string;
  /** Advice on how to fix the error, as a sentence without a full stop. */
  readonly advice: string;
  /** The name of the accessed memory if it is not global: `"the array tile in shared memory"`. */
  readonly memory?: string | undefined;
  /** The accessed range of global memory. */
  readonly range?: MemoryRange | undefined;
  /**
   * The allocation to which `range` should belong or once belonged. If undefined, it is the allocation that contains
   * `range`.
   */
  readonly allocation?: MemoryRange | undefined;
  /** The accesses that cause the error. If there are two, the later one is first. */
  readonly accesses: readonly ThreadAccess[];
  /** The number of times that the error occurred in the launch. */
  readonly count: number;
}

/** An operation of a thread: an access to memory, a free, or an arrival at a barrier. */
export interface ThreadAccess {
  readonly access: "read" | "write" | "atomic" | "free" | "barrier";
  /** The source line: `"saxpy.cu:12"`, or `"PTX line 31"` without line information. */
  readonly source: string;
  readonly block: readonly [x: number, y: number, z: number];
  /** The index of the thread; undefined if no particular thread makes the access. */
  readonly thread: readonly [x: number, y: number, z: number] | undefined;
}

/** A range of memory that a launch has accessed, with the first instruction that accessed it. */
export interface LaunchAccess {
  readonly address: bigint;
  /** Size in bytes. */
  readonly byteLength: number;
  /** `"atomic"` includes volatile and ordered accesses, which may also be concurrent with those of other threads. */
  readonly operation: "read" | "write" | "atomic";
  /** The source line: `"saxpy.cu:12"`, or `"PTX line 31"` without line information. */
  readonly source: string;
  /** The first thread that accessed the first byte of the range. */
  readonly first?: ThreadIndex | undefined;
  /** The parts of the range that different instructions have accessed, if there is more than one instruction. */
  readonly parts?: AccessParts | undefined;
}

/** The parts of a range that different instructions access, such as the fields of structs in an array. */
export interface AccessParts {
  /** The number of bytes after which the access pattern repeats. */
  readonly period: number;
  /** Yields the parts that overlap a range, in order. Offsets are relative to the start of the access. */
  of(begin: number, end: number): Iterable<AccessPart>;
}

/** A range of bytes that one instruction accesses. */
export interface AccessPart extends Pick<LaunchAccess, "source" | "first"> {
  readonly begin: number;
  readonly end: number;
}

/** The index of a thread in a launch. */
export interface ThreadIndex {
  readonly block: readonly [x: number, y: number, z: number];
  readonly thread: readonly [x: number, y: number, z: number];
}

/** The unfreed memory that kernels have allocated with `malloc` at one source line. */
export interface UnfreedHeap {
  readonly count: number;
  /** The total size in bytes. */
  readonly byteLength: number;
  /** The name of the kernel. Undefined if it was not recorded. */
  readonly kernel: string | undefined;
  /** The source line of the call to `malloc`. Undefined if it was not recorded. */
  readonly source: string | undefined;
}
