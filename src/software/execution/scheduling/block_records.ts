/**
 * The thread records of a block, which compiled code reads and writes; the positions of suspended threads; and the
 * interface for observers of a block's threads.
 *
 * @module
 */
import {
  type CallSite,
  exited,
  savedHeader,
  type Suspension,
  threadRecord,
  threadRecordByteLength,
  warpSize,
} from "../../abi/launch_record.ts";
import { shadowOffset } from "../../abi/addresses.ts";
import type { KernelOrder } from "../../schedule.ts";
import type { ClusterBarrier } from "./cluster_barrier.ts";
import { WarpRecords } from "./warp_operations.ts";

/**
 * The place in the program where a suspended thread resumes: the `order` of each active call site, starting with the
 * call site in the kernel, followed by the `order` of the suspend point in the innermost function.
 */
export type ResumePosition = readonly number[];

/** Parameters of {@linkcode ThreadPositions}. */
interface PositionsOptions {
  readonly memory: WebAssembly.Memory;
  /** The offset of the thread records. */
  readonly threads: number;
  /** The offset of the saved registers. */
  readonly saved: number;
  readonly kernel: {
    readonly suspensions: readonly Suspension[];
    readonly savedBytes: number;
    readonly callSites?: ReadonlyMap<number, CallSite>;
  };
}

/** Determines where in the PTX each suspended thread of a block will resume. */
export class ThreadPositions {
  readonly #options: PositionsOptions;
  readonly #words: Int32Array;
  /** For each suspend point of the kernel, the position of a thread that waits there outside of any function call. */
  readonly #ofSuspensions: readonly ResumePosition[];

  constructor(options: PositionsOptions) {
    this.#options = options;
    this.#words = new Int32Array(options.memory.buffer);
    this.#ofSuspensions = options.kernel.suspensions.map(({ order }) => [order]);
  }

  /**
   * Whether threads at the same suspend point may have different positions, because they reached it through different
   * call sites.
   */
  get mayDiffer(): boolean {
    return (this.#options.kernel.callSites?.size ?? 0) > 0;
  }

  /** Returns the position of a suspended thread. */
  of(thread: number): ResumePosition {
    const { threads, saved, kernel: { callSites, savedBytes } } = this.#options;
    const record = threads + thread * threadRecordByteLength;
    const field = (name: keyof typeof threadRecord) => this.#words[(record + threadRecord[name]) / 4]!;
    const last = this.#ofSuspensions[field("request") - 1]!;
    if (callSites === undefined || callSites.size === 0) return last;
    const position = [...last];
    const begin = saved + thread * savedBytes;
    for (let header = field("saved"); header > begin;) {
      const site = callSites.get(this.#words[(header + savedHeader.resumeIndex) / 4]!);
      if (site === undefined) break;
      position.push(site.order);
      header -= site.savedBytes;
    }
    return position.reverse();
  }
}

/**
 * Compares two positions by program order. Returns a negative number if `a` comes first, and 0 if the positions are
 * equal.
 */
export function comparePositions(a: ResumePosition, b: ResumePosition): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) if (a[index] !== b[index]) return a[index]! - b[index]!;
  return b.length - a.length;
}

const words = threadRecordByteLength / 4;
const warpWords = warpSize * words;
const requestWord = threadRecord.request / 4;

/** Parameters for running a block's threads. */
export interface BlockThreads {
  readonly memory: WebAssembly.Memory;
  readonly block: readonly [x: number, y: number, z: number];
  /** The offset of the thread records. */
  readonly threads: number;
  /** The offset of the threads' saved registers. */
  readonly saved: number;
  /** The offset of the threads' local memory. */
  readonly local: number;
  /** Called before the threads of a block start. */
  readonly onStart?: (() => void) | undefined;
  /** Whether the kernel tracks uninitialized values. */
  readonly hasShadows?: boolean;
  readonly kernel: {
    readonly suspensions: readonly Suspension[];
    readonly savedBytes: number;
    readonly localBytes: number;
    readonly frameBytes: number;
    /**
     * Maps the number of the resume point after each call to the call site. Undefined if the kernel calls no functions.
     */
    readonly callSites?: ReadonlyMap<number, CallSite>;
  };
  /** Observes the threads of each block. Undefined if nothing observes them. */
  readonly observer?: BlockObserver | undefined;
  /** The order in which warps and threads run. Default: ascending. */
  readonly order?: KernelOrder | undefined;
  /** Runs the runnable threads from `firstThread` to `lastThread` (exclusive). */
  run(firstThread: number, lastThread: number): void;
  /**
   * Adds to the step count. `thread` is the thread that made the steps, or the first thread of the warp that made them.
   * Throws if the step limit is exceeded.
   */
  countSteps(steps: number, thread: number): void;
}

/** A field of a thread's record. */
type ThreadField = (typeof threadRecord)[keyof typeof threadRecord];

/** The thread records of a block. */
export class BlockRecords {
  /** The number of threads in the block. */
  readonly count: number;
  readonly warps: readonly WarpRecords[];
  readonly #options: BlockThreads;
  readonly #words: Int32Array;

  constructor(options: BlockThreads) {
    const [x, y, z] = options.block;
    this.count = x * y * z;
    this.#options = options;
    this.#words = new Int32Array(options.memory.buffer, options.threads, this.count * words);
    const shadows = options.hasShadows
      ? new Int32Array(options.memory.buffer, options.threads + shadowOffset, this.count * words)
      : undefined;
    this.warps = Array.from({ length: Math.ceil(this.count / warpSize) }, (_, warp) => {
      const shadow = shadows && new WarpRecords(shadows.subarray(warp * warpWords));
      return new WarpRecords(this.#words.subarray(warp * warpWords), shadow);
    });
  }

  /** Returns a thread's request: the index of a suspension plus 1, `exited`, or 0 if the thread can run. */
  requestOf(thread: number): number {
    return this.#words[thread * words + requestWord]!;
  }

  get(thread: number, field: ThreadField): number {
    return this.#words[thread * words + field / 4]!;
  }

  set(thread: number, field: ThreadField, value: number): void {
    this.#words[thread * words + field / 4] = value;
  }

  /** Returns the number of lanes of a warp. The last warp of a block may have fewer than 32. */
  lanesOf(warp: number): number {
    return Math.min(warpSize, this.count - warp * warpSize);
  }

  /** Returns the mask of all lanes of a warp. */
  allLanesOf(warp: number): number {
    const lanes = this.lanesOf(warp);
    return lanes === warpSize ? -1 : (1 << lanes) - 1;
  }

  /** Returns the mask of the lanes of a warp that have not exited. */
  presentLanesOf(warp: number): number {
    let lanes = 0;
    for (const thread of this.threadsOf(warp)) if (this.requestOf(thread) !== exited) lanes |= 1 << thread % warpSize;
    return lanes;
  }

  /** Returns the numbers of a warp's threads. */
  threadsOf(warp: number): number[] {
    return Array.from({ length: this.lanesOf(warp) }, (_, lane) => warp * warpSize + lane);
  }

  /** Initializes the records so that every thread starts at the beginning of the kernel. */
  start(): void {
    const { block: [blockX, blockY], kernel: { savedBytes, localBytes, frameBytes }, saved, local } = this.#options;
    this.#options.onStart?.();
    const records = this.#words;
    let x = 0, y = 0, z = 0;
    for (let thread = 0; thread < this.count; thread++) {
      const at = thread * words;
      records[at + threadRecord.threadIndex / 4] = x | y << 10 | z << 20;
      records[at + threadRecord.resumeIndex / 4] = 0;
      records[at + requestWord] = 0;
      records[at + threadRecord.saved / 4] = saved + thread * savedBytes;
      records[at + threadRecord.frame / 4] = local + thread * localBytes;
      records[at + threadRecord.stackPointer / 4] = local + thread * localBytes + frameBytes;
      if (++x < blockX) continue;
      x = 0;
      if (++y < blockY) continue;
      y = 0;
      z++;
    }
  }

  /** Returns the request that all threads of a warp share, or 0 if their requests differ. */
  commonRequestOf(warp: number): number {
    const records = this.#words;
    const at = warp * warpWords + requestWord;
    const end = Math.min(at + warpWords, records.length);
    const request = records[at]!;
    for (let other = at + words; other < end; other += words) if (records[other] !== request) return 0;
    return request;
  }

  /**
   * If all threads of a warp wait at the same barrier for the whole block, returns the number of the barrier. Returns
   * undefined if they wait at different barriers, or at a barrier with a thread count.
   */
  commonBarrierOf(warp: number): number | undefined {
    const records = this.#words;
    const begin = warp * warpWords;
    const end = Math.min(begin + warpWords, records.length);
    const barrier = records[begin + threadRecord.first / 4]!;
    for (let at = begin; at < end; at += words) {
      if (records[at + threadRecord.first / 4] !== barrier || records[at + threadRecord.second / 4] !== 0) {
        return undefined;
      }
    }
    return barrier;
  }

  /** Returns whether the mask operands of all threads of a warp include all lanes of the warp. */
  nameAll(warp: number): boolean {
    const records = this.#words;
    const all = this.allLanesOf(warp);
    const begin = warp * warpWords;
    const end = Math.min(begin + warpWords, records.length);
    for (let at = begin; at < end; at += words) if ((records[at + threadRecord.mask / 4]! & all) !== all) return false;
    return true;
  }

  /** Clears the requests of all threads of a warp, so that they can run. */
  clearRequestsOf(warp: number): void {
    const records = this.#words;
    const begin = warp * warpWords + requestWord;
    const end = Math.min(begin + warpWords, records.length);
    for (let at = begin; at < end; at += words) records[at] = 0;
  }
}

/** The number of the cluster's barrier for observers. It follows the numbers of the block's barriers, 0 to 15. */
export const clusterBarrier = 16;

/** Receives events of the blocks that a scheduler runs, one after another, and of the threads of these blocks. */
export interface BlockObserver {
  /**
   * Called when a block starts.
   *
   * @param cluster the barrier of its cluster. Undefined if the kernel uses none and the block is a cluster of its own
   */
  start(cluster: ClusterBarrier | undefined): void;
  /** Called before threads of the block run. */
  resume(): void;
  /**
   * Called when a thread arrives at a barrier. If a whole warp arrives at once, only called for the warp's first
   * thread.
   */
  arrive(thread: number, arrival: ObservedArrival): void;
  /** Called when a barrier is complete, before its threads resume. */
  complete(barrier: ObservedBarrier): void;
  /** Called when a thread arrives at the barrier of the cluster. Phases have consecutive numbers. */
  arriveAtCluster?(thread: number, arrival: { readonly phase: number; readonly isRelaxed: boolean }): void;
  /** Called before threads resume that have waited for a phase of the barrier of the cluster. */
  leaveCluster?(threads: readonly number[], completed: { readonly phase: number }): void;
  /** Called when all threads of the block have exited. */
  end?(): void;
  /** Called before lanes of a warp resume from a warp barrier, or from an operation in which lanes exchange values. */
  meet(warp: number, meeting: ObservedMeeting): void;
}

/** An arrival at a barrier. */
export interface ObservedArrival {
  readonly barrier: number;
  /** The number of threads for which the barrier waits, or 0 for all threads of the block. */
  readonly count: number;
  readonly suspension: Suspension;
}

/** A completed barrier whose threads are about to resume. */
export interface ObservedBarrier {
  readonly barrier: number;
  /** Returns the threads that have waited at the barrier. */
  threads(): readonly number[];
  /** Returns the suspend point where a thread waits. Undefined if the thread does not wait. */
  suspensionOf(thread: number): Suspension | undefined;
  /** Returns whether a thread has exited, or does not exist. */
  hasExited(thread: number): boolean;
  /** Whether only whole warps have waited, with all threads of a warp at the same suspend point. */
  readonly isOfWholeWarps: boolean;
  /** Whether all threads of the block that have not exited have waited at the barrier. */
  readonly isOfAll: boolean;
}

/** A warp barrier, or an operation in which lanes exchange values, among some lanes of a warp. */
export interface ObservedMeeting {
  /** The mask of the participating lanes. */
  readonly lanes: number;
  /** The mask of the lanes that have not exited. */
  readonly present: number;
  readonly suspension: Suspension;
  /** Returns the mask operand of a lane's instruction. */
  maskOf(lane: number): number;
  /**
   * Returns the first lane whose shuffle would read from a lane that does not participate, or undefined if there is
   * none.
   */
  readerOfAbsentLane(): number | undefined;
}

/** Combines several observers into one. Returns undefined if all of them are undefined. */
export function observeTogether(observers: readonly (BlockObserver | undefined)[]): BlockObserver | undefined {
  const all = observers.filter((observer) => observer !== undefined);
  if (all.length < 2) return all[0];
  return {
    start: (cluster) => all.forEach((observer) => observer.start(cluster)),
    resume: () => all.forEach((observer) => observer.resume()),
    arrive: (thread, arrival) => all.forEach((observer) => observer.arrive(thread, arrival)),
    complete: (barrier) => all.forEach((observer) => observer.complete(barrier)),
    arriveAtCluster: (thread, arrival) => all.forEach((observer) => observer.arriveAtCluster?.(thread, arrival)),
    leaveCluster: (threads, completed) => all.forEach((observer) => observer.leaveCluster?.(threads, completed)),
    end: () => all.forEach((observer) => observer.end?.()),
    meet: (warp, meeting) => all.forEach((observer) => observer.meet(warp, meeting)),
  };
}
