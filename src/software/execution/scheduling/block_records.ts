/**
 * The records of a block's threads, which compiled code reads and writes, where the threads are, and who observes them.
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
} from "../../abi/launch_record.ts";
import { shadowOffset } from "../../abi/addresses.ts";
import type { KernelOrder } from "../../schedule.ts";
import { WarpRecords, warpSize } from "./warp_operations.ts";

/** Where a thread is: the places of the calls that it is in, from the kernel's on, and the place in the last function. */
export type Position = readonly number[];

/** What the positions of a block's threads are read from. */
interface PositionsOptions {
  readonly memory: WebAssembly.Memory;
  /** The offsets of the thread records and of the saved registers. */
  readonly threads: number;
  readonly saved: number;
  readonly kernel: {
    readonly suspensions: readonly Suspension[];
    readonly savedBytes: number;
    readonly callSites?: ReadonlyMap<number, CallSite>;
  };
}

/** The positions of suspended threads. */
export class ThreadPositions {
  readonly #options: PositionsOptions;
  readonly #words: Int32Array;
  /** The positions in the kernel itself. */
  readonly #ofSuspensions: readonly Position[];

  constructor(options: PositionsOptions) {
    this.#options = options;
    this.#words = new Int32Array(options.memory.buffer);
    this.#ofSuspensions = options.kernel.suspensions.map(({ order }) => [order]);
  }

  /** Whether threads that are suspended at the same place may have reached it by different calls. */
  get mayDiffer(): boolean {
    return (this.#options.kernel.callSites?.size ?? 0) > 0;
  }

  /** The position of a thread. */
  of(thread: number): Position {
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

/** Negative if a position comes before another, 0 if they are the same. */
export function comparePositions(a: Position, b: Position): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) if (a[index] !== b[index]) return a[index]! - b[index]!;
  return b.length - a.length;
}

const words = threadRecordByteLength / 4;
const warpWords = warpSize * words;
const requestWord = threadRecord.request / 4;

/** What is needed to run a block's threads. */
export interface BlockThreads {
  readonly memory: WebAssembly.Memory;
  readonly block: readonly [x: number, y: number, z: number];
  /** The offsets of the thread records, of the saved registers and of the local memory of the threads. */
  readonly threads: number;
  readonly saved: number;
  readonly local: number;
  /** Called before the threads are put at the kernel's start. */
  readonly onStart?: (() => void) | undefined;
  /** Whether the kernel tracks uninitialized values. */
  readonly hasShadows?: boolean;
  readonly kernel: {
    readonly suspensions: readonly Suspension[];
    readonly savedBytes: number;
    readonly localBytes: number;
    readonly frameBytes: number;
    /** Undefined if it calls no functions. */
    readonly callSites?: ReadonlyMap<number, CallSite>;
  };
  /** Observes the threads. Default: none. */
  readonly observer?: BlockObserver | undefined;
  /** The order of warps and threads. Default: as they are counted. */
  readonly order?: KernelOrder | undefined;
  /** Runs the threads of a range that do not wait. */
  run(firstThread: number, lastThread: number): void;
  /** Counts steps of a thread or, from that thread on, of its warp. Throws if there were too many. */
  countSteps(steps: number, thread: number): void;
}

/** A field of a thread's record. */
type ThreadField = (typeof threadRecord)[keyof typeof threadRecord];

/** The thread records of a block. */
export class BlockRecords {
  /** The number of threads. */
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

  /** What a thread has asked for: a suspension's index plus 1, `exited`, or 0 for a thread that can run. */
  requestOf(thread: number): number {
    return this.#words[thread * words + requestWord]!;
  }

  get(thread: number, field: ThreadField): number {
    return this.#words[thread * words + field / 4]!;
  }

  set(thread: number, field: ThreadField, value: number): void {
    this.#words[thread * words + field / 4] = value;
  }

  /** The number of lanes of a warp: fewer than 32 in the block's last warp. */
  lanesOf(warp: number): number {
    return Math.min(warpSize, this.count - warp * warpSize);
  }

  /** The mask of these lanes. */
  allLanesOf(warp: number): number {
    const lanes = this.lanesOf(warp);
    return lanes === warpSize ? -1 : (1 << lanes) - 1;
  }

  /** A bit for each lane of a warp that has not exited. */
  presentLanesOf(warp: number): number {
    let lanes = 0;
    for (const thread of this.threadsOf(warp)) if (this.requestOf(thread) !== exited) lanes |= 1 << thread % warpSize;
    return lanes;
  }

  /** The threads of a warp. */
  threadsOf(warp: number): number[] {
    return Array.from({ length: this.lanesOf(warp) }, (_, lane) => warp * warpSize + lane);
  }

  /** Puts every thread at the kernel's start. */
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

  /** The request that all threads of a warp have made together. 0 if they differ, or if some were waiting already. */
  commonRequestOf(warp: number): number {
    const records = this.#words;
    const at = warp * warpWords + requestWord;
    const end = Math.min(at + warpWords, records.length);
    const request = records[at]!;
    for (let other = at + words; other < end; other += words) if (records[other] !== request) return 0;
    return request;
  }

  /** The barrier that all threads of a warp name, for all threads of the block. Undefined if they differ. */
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

  /** Whether the mask of each thread of a warp names all of them. */
  nameAll(warp: number): boolean {
    const records = this.#words;
    const all = this.allLanesOf(warp);
    const begin = warp * warpWords;
    const end = Math.min(begin + warpWords, records.length);
    for (let at = begin; at < end; at += words) if ((records[at + threadRecord.mask / 4]! & all) !== all) return false;
    return true;
  }

  /** Lets all threads of a warp run. */
  clearRequestsOf(warp: number): void {
    const records = this.#words;
    const begin = warp * warpWords + requestWord;
    const end = Math.min(begin + warpWords, records.length);
    for (let at = begin; at < end; at += words) records[at] = 0;
  }
}

/** Observes the threads of a block, and of the blocks that run after it in its place. */
export interface BlockObserver {
  /** All threads are at the kernel's start. */
  start(): void;
  /** Threads of the block are about to run. */
  resume(): void;
  /** A thread, or the first one of a warp that arrives as a whole, has arrived at a barrier. */
  arrive(thread: number, arrival: ObservedArrival): void;
  /** The threads that wait at a barrier are about to resume. */
  complete(barrier: ObservedBarrier): void;
  /** Lanes of a warp have met, at its barrier or to exchange values, and are about to resume. */
  meet(warp: number, meeting: ObservedMeeting): void;
}

/** An arrival at a barrier. */
export interface ObservedArrival {
  readonly barrier: number;
  /** The number of threads that the barrier is for, or 0 for all threads of the block. */
  readonly count: number;
  readonly suspension: Suspension;
}

/** A barrier whose threads are about to resume. */
export interface ObservedBarrier {
  readonly barrier: number;
  /** The threads that have waited, and their places. */
  threads(): readonly number[];
  suspensionOf(thread: number): Suspension | undefined;
  /** Whether a thread has exited, or does not exist. */
  hasExited(thread: number): boolean;
  /** Whether whole warps have waited, and each of them at one place. */
  readonly isOfWholeWarps: boolean;
  /** Whether the other threads of the block have exited. */
  readonly isOfAll: boolean;
}

/** Lanes of a warp that have met. */
export interface ObservedMeeting {
  /** A bit for each of them, and for each lane that has not exited. */
  readonly lanes: number;
  readonly present: number;
  readonly suspension: Suspension;
  /** The lanes in a lane's mask. */
  maskOf(lane: number): number;
  /** The first lane that would receive the value of a lane that does not participate in a shuffle. */
  readerOfAbsentLane(): number | undefined;
}

/** Combines several observers into one. Undefined for none. */
export function observeTogether(observers: readonly (BlockObserver | undefined)[]): BlockObserver | undefined {
  const all = observers.filter((observer) => observer !== undefined);
  if (all.length < 2) return all[0];
  return {
    start: () => all.forEach((observer) => observer.start()),
    resume: () => all.forEach((observer) => observer.resume()),
    arrive: (thread, arrival) => all.forEach((observer) => observer.arrive(thread, arrival)),
    complete: (barrier) => all.forEach((observer) => observer.complete(barrier)),
    meet: (warp, meeting) => all.forEach((observer) => observer.meet(warp, meeting)),
  };
}
