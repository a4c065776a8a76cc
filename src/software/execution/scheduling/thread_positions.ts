import {
  type CallSite,
  savedHeader,
  type Suspension,
  threadRecord,
  threadRecordByteLength,
} from "../../abi/launch_record.ts";

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
