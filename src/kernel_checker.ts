/**
 * What the sanitizer asks of a driver that observes kernels, and receives about their launches.
 *
 * @module
 */
import type { KernelLaunch, LaunchAttributes, MemoryRange } from "./driver.ts";

/**
 * A driver's checks of kernels. It is not CUDA's: the software device, which executes kernels itself, has one, and a GPU
 * has none.
 */
export interface KernelChecker {
  /** The checks that launches make. */
  readonly checks: ReadonlySet<KernelCheck>;
  /** Whether launches say what they have accessed. */
  readonly observesAccesses: boolean;
  /** `launchKernel`, or `launchKernelEx` with `attributes`, of a launch that is observed. */
  launch(launch: KernelLaunch, attributes: LaunchAttributes | undefined, observation: LaunchObservation): void;
  /**
   * Records a part of an allocation that an allocator hands out when the program asks for it, with the stream in whose
   * order it does.
   */
  partAllocated(part: MemoryRange, device: number, stream: bigint): void;
  /** Records that the allocator gets a part back. */
  partFreed(address: bigint): void;
  /** What kernels have allocated and not freed: nothing while work is pending, or once the devices are lost. */
  unfreedHeap(): readonly UnfreedHeap[];
}

/** What is known of a launch before it runs, and who receives what it did. */
export interface LaunchObservation {
  /** Whether no races have to be looked for: none of its threads' accesses conflict. */
  readonly isRaceFree?: boolean;
  /**
   * Whether its barriers need not be checked: all threads of a block reach each of them together, and nothing is
   * exchanged between lanes.
   */
  readonly hasUniformBarriers?: boolean;
  /** All that it accesses, if that is known, so that a driver need not observe it: what `onAccesses` gets in the end. */
  readonly accesses?: readonly LaunchAccess[] | undefined;
  /**
   * All global memory that it accesses, if that is known and it reads no other memory but its arguments, constants and
   * the shared memory that it has written.
   */
  readonly globalAccesses?: GlobalAccesses | undefined;
  /**
   * Called with the global memory that the launch has accessed, when it is done or has failed, if the driver observes
   * accesses. What was read comes first, then what was written, then what was accessed atomically, each by address.
   */
  readonly onAccesses?: ((accesses: readonly LaunchAccess[]) => void) | undefined;
  /** Called with the mistakes of the kernel, when the launch is done or has failed. */
  readonly onFindings?: ((findings: readonly LaunchFinding[]) => void) | undefined;
}

/** All global memory that a launch reads and writes. What an atomic operation changes is in both. */
export interface GlobalAccesses {
  readonly reads: readonly MemoryRange[];
  readonly writes: readonly MemoryRange[];
}

/** A check of what the threads of a kernel do. */
export type KernelCheck = "memory" | "initialization" | "race" | "synchronization";

/** A mistake of a kernel. A launch reports what the same instructions do in the same way once. */
export interface LaunchFinding {
  readonly check: KernelCheck;
  /** Which mistake: `"out-of-bounds"`, `"uninitialized-read"`, `"shared-race"` and so on. */
  readonly kind: string;
  /** What is wrong, as a sentence without a full stop. */
  readonly problem: string;
  /** What to do, as such a sentence. */
  readonly advice: string;
  /** The memory that it is about, unless it is global memory: `"the array tile in shared memory"`. */
  readonly memory?: string | undefined;
  /** The bytes of global memory that it is about. */
  readonly range?: MemoryRange | undefined;
  /** The allocation that these bytes should lie in, or did lie in. Default: the one that has them. */
  readonly allocation?: MemoryRange | undefined;
  /** What the threads do: the later access, then the earlier one if there are two. */
  readonly accesses: readonly ThreadAccess[];
  /** How often it was found in the launch. */
  readonly count: number;
}

/** What a thread of a kernel does at one place. */
export interface ThreadAccess {
  readonly access: "read" | "write" | "atomic" | "free" | "barrier";
  /** Where in the source, as `"saxpy.cu:12"`, or `"PTX line 31"`. */
  readonly source: string;
  readonly block: readonly [x: number, y: number, z: number];
  /** Undefined if no thread in particular does it. */
  readonly thread: readonly [x: number, y: number, z: number] | undefined;
}

/** Bytes that a launch has accessed, by the instruction that did so first. */
export interface LaunchAccess {
  readonly address: bigint;
  /** Size in bytes. */
  readonly byteLength: number;
  /** `"atomic"` stands for all accesses that other threads may make at the same time: volatile and ordered ones, too. */
  readonly operation: "read" | "write" | "atomic";
  /** Where in the source, as `"saxpy.cu:12"`, or `"PTX line 31"`. */
  readonly source: string;
  /** Who has accessed the first of the bytes first. */
  readonly first?: ThreadIndex | undefined;
  /** Which instruction has accessed which of the bytes, if there are several. */
  readonly parts?: AccessParts | undefined;
}

/** The parts of a range that several instructions access, as they do the fields of structs in an array. */
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
  /** Of all blocks together. */
  readonly byteLength: number;
  /** The kernel, and where in its source. Undefined if that was not noted. */
  readonly kernel: string | undefined;
  readonly source: string | undefined;
}
