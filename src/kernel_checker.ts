/**
 * The interface between the sanitizer and a driver that observes and checks the launches of kernels.
 *
 * @module
 */
import type { KernelLaunch, LaunchAttributes, MemoryRange } from "./driver.ts";

/**
 * The part of a driver that observes and checks kernels. CUDA has nothing like it: only the software device, which
 * executes kernels itself, has one.
 */
export interface KernelChecker {
  /** The checks that are made of each launch. */
  readonly checks: ReadonlySet<KernelCheck>;
  /** Whether `onAccesses` is called with the accesses of launches. */
  readonly observesAccesses: boolean;
  /** `launchKernel`, or `launchKernelEx` with `attributes`, of a launch that is observed. */
  launch(launch: KernelLaunch, attributes: LaunchAttributes | undefined, observation: LaunchObservation): void;
  /**
   * Records that an allocator has handed out a part of an allocation to the program, in the order of a stream.
   */
  partAllocated(part: MemoryRange, device: number, stream: bigint): void;
  /** Records that a part was returned to the allocator. */
  partFreed(address: bigint): void;
  /** The memory that kernels have allocated and not freed. Empty while work is pending, and after a loss of the devices. */
  unfreedHeap(): readonly UnfreedHeap[];
}

/** What the sanitizer has found out about a launch before it runs, and callbacks for what is found while it runs. */
export interface LaunchObservation {
  /** Whether the check for races can be skipped: no accesses of its threads conflict. */
  readonly isRaceFree?: boolean;
  /**
   * Whether the check of barriers can be skipped: all threads of a block reach each barrier together, and lanes
   * exchange nothing.
   */
  readonly hasUniformBarriers?: boolean;
  /** All accesses, if they are known and need not be observed: `onAccesses` is called with them. */
  readonly accesses?: readonly LaunchAccess[] | undefined;
  /**
   * All accesses to global memory, if they are known, and the launch reads no other memory than its arguments, constants,
   * and shared memory that it has written.
   */
  readonly globalAccesses?: GlobalAccesses | undefined;
  /**
   * Called with the accesses to global memory when the launch is done or has failed, if the driver observes accesses.
   * Reads come first, then writes, then atomic accesses, each in the order of addresses.
   */
  readonly onAccesses?: ((accesses: readonly LaunchAccess[]) => void) | undefined;
  /** Called with the mistakes of the kernel, when the launch is done or has failed. */
  readonly onFindings?: ((findings: readonly LaunchFinding[]) => void) | undefined;
}

/** The global memory that a launch reads, and that it writes. Memory that atomic operations update is in both. */
export interface GlobalAccesses {
  readonly reads: readonly MemoryRange[];
  readonly writes: readonly MemoryRange[];
}

/** A check of what the threads of a kernel do. */
export type KernelCheck = "memory" | "initialization" | "race" | "synchronization";

/** A mistake of a kernel. Equal mistakes of the same instructions are one finding of a launch. */
export interface LaunchFinding {
  readonly check: KernelCheck;
  /** The kind of mistake: `"out-of-bounds"`, `"uninitialized-read"`, `"shared-race"` and so on. */
  readonly kind: string;
  /** What is wrong, as a sentence without a full stop. */
  readonly problem: string;
  /** What to do, as such a sentence. */
  readonly advice: string;
  /** The memory that is accessed, unless it is global: `"the array tile in shared memory"`. */
  readonly memory?: string | undefined;
  /** The bytes of global memory that are accessed. */
  readonly range?: MemoryRange | undefined;
  /** The allocation that these bytes should belong to, or did belong to. Default: the one that contains them. */
  readonly allocation?: MemoryRange | undefined;
  /** The accesses that are the mistake: the later one first if there are two. */
  readonly accesses: readonly ThreadAccess[];
  /** How often it was found in the launch. */
  readonly count: number;
}

/** An access of a thread, a free in a kernel, or an arrival at a barrier. */
export interface ThreadAccess {
  readonly access: "read" | "write" | "atomic" | "free" | "barrier";
  /** The line of the source, as `"saxpy.cu:12"`, or `"PTX line 31"`. */
  readonly source: string;
  readonly block: readonly [x: number, y: number, z: number];
  /** Undefined if no particular thread does it. */
  readonly thread: readonly [x: number, y: number, z: number] | undefined;
}

/** Bytes that a launch has accessed, with the instruction that accessed them first. */
export interface LaunchAccess {
  readonly address: bigint;
  /** Size in bytes. */
  readonly byteLength: number;
  /** `"atomic"` stands for all accesses that other threads may make at the same time: volatile and ordered ones, too. */
  readonly operation: "read" | "write" | "atomic";
  /** Where in the source, as `"saxpy.cu:12"`, or `"PTX line 31"`. */
  readonly source: string;
  /** The thread that accessed the first of the bytes first. */
  readonly first?: ThreadIndex | undefined;
  /** The parts that different instructions have accessed, if there are several. */
  readonly parts?: AccessParts | undefined;
}

/** The parts of a range that different instructions access, such as the fields of structs in an array. */
export interface AccessParts {
  /** The distance in bytes after which the pattern of instructions repeats. */
  readonly period: number;
  /** The parts that overlap a range, in order. Offsets count from the start of the access. */
  of(begin: number, end: number): Iterable<AccessPart>;
}

/** The bytes that one instruction accesses. */
export interface AccessPart extends Pick<LaunchAccess, "source" | "first"> {
  readonly begin: number;
  readonly end: number;
}

/** A thread of a launch. */
export interface ThreadIndex {
  readonly block: readonly [x: number, y: number, z: number];
  readonly thread: readonly [x: number, y: number, z: number];
}

/** Memory that kernels have allocated with `malloc` at one place, and that no kernel has freed. */
export interface UnfreedHeap {
  readonly count: number;
  /** The total size in bytes. */
  readonly byteLength: number;
  /** The kernel, and the line of its source. Undefined if they were not recorded. */
  readonly kernel: string | undefined;
  readonly source: string | undefined;
}
