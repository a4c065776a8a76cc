/**
 * The records of a block's threads, which compiled code reads and writes.
 *
 * @module
 */
import {
  type CallSite,
  exited,
  type Suspension,
  threadRecord,
  threadRecordByteLength,
} from "../../abi/launch_record.ts";
import type { BlockObserver } from "./block_observer.ts";
import { shadowOffset } from "../../abi/addresses.ts";
import type { KernelOrder } from "./kernel_order.ts";
import { WarpRecords, warpSize } from "./warp_records.ts";

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
