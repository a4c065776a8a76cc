/**
 * The check `initialization`: finds uses of uninitialized values that affect the execution of a kernel.
 *
 * @module
 */
import type { LaunchFinding, ThreadAccess } from "../../../kernel_checker.ts";
import { bytesOfPlace, lineOfPlace } from "../../abi/addresses.ts";
import { type Decision, decisions } from "../../abi/host_functions.ts";
import { addressOfOffset, scratch } from "../../memory/memory_layout.ts";
import type { MemoryShadow } from "../../memory/check_memory.ts";
import type { BlockObserver } from "../scheduling/block_records.ts";
import type { Findings, KernelFinding } from "./findings.ts";

/** The information about a checked launch that the check `initialization` uses. */
export interface CheckedThreads {
  readonly findings: Findings;
  threadAt(place: number, thread: number): Pick<ThreadAccess, "block" | "thread">;
  threadOfBlock(thread: number): Pick<ThreadAccess, "block" | "thread">;
  sourceOf(place: number): string;
  sourceOfLine(line: number): string;
  isGlobal(offset: number): boolean;
  nameOf(offset: number, byteLength: number): string | undefined;
}

/** A load of uninitialized bits. `place` is an encoded code location. */
interface Load {
  readonly offset: number;
  readonly place: number;
  readonly who: Pick<ThreadAccess, "block" | "thread">;
}

/** A shuffle that read from a lane that does not participate. */
interface Shuffle {
  readonly line: number;
  readonly who: Load["who"];
}

interface Wording {
  readonly kind: string;
  readonly what: string;
}

const wordings: Readonly<Record<Decision, Wording>> = {
  "branch": { kind: "uninitialized-branch", what: "a branch depends on" },
  "predicate": { kind: "uninitialized-branch", what: "whether an instruction is executed depends on" },
  "address": { kind: "uninitialized-address", what: "an address is computed from" },
  "call target": { kind: "uninitialized-address", what: "which function is called depends on" },
  "atomic operand": { kind: "uninitialized-atomic", what: "an atomic operation takes" },
  "atomic memory": { kind: "uninitialized-atomic", what: "an atomic operation changes" },
  "lane mask": { kind: "uninitialized-barrier", what: "the mask of the lanes that wait for each other is" },
  "barrier": { kind: "uninitialized-barrier", what: "an operand of a barrier is" },
  "size": { kind: "uninitialized-size", what: "the size of a copy, or of memory on the stack, is" },
};

const unwritten = "memory that nothing has written";

const advices = {
  heap: "Write the memory that malloc or new has returned before it is read",
  variable: "Give the variable a value where it is declared, and on each way to where it is read",
  block: "Let threads write the memory, and meet at a barrier if others read it, before it is read",
  local: "Give each element of the array or structure a value before it is read",
  update: "Fill the memory before the launch, with the value that the operation starts from",
  shuffle:
    "Let all lanes of the warp come to the shuffle, those behind the end with a value that changes nothing, such " +
    "as 0 in a sum, and return behind it; or use a value only if its lane is there",
  buffer: "Write the memory before the launch, by a fill, a copy or another kernel, or read less of it",
} as const;

/** The check `initialization` of one launch. */
export class InitializationCheck {
  readonly #threads: CheckedThreads;
  readonly #shadow: MemoryShadow;
  /** The last load of uninitialized bits by each thread. The key is the thread number that compiled code reports. */
  readonly #loads = new Map<number, Load>();
  /** The last load of uninitialized bits by any thread. */
  #last: Load | undefined;
  /** Maps the offset of each heap block that the kernel has allocated to the size of the block in bytes. */
  readonly #allocated = new Map<number, number>();
  /** The last shuffle that read from a lane that does not participate. */
  #shuffle: Shuffle | undefined;
  /** Maps the kind and line of a use of an uninitialized value to the key of the finding that reports the use. */
  readonly #mistakes = new Map<string, string>();
  /**
   * Maps the offset and line of a load of uninitialized bits to the key of the finding that reports all uses of the
   * loaded value.
   */
  readonly #causes = new Map<string, string>();

  constructor(threads: CheckedThreads, shadow: MemoryShadow) {
    this.#threads = threads;
    this.#shadow = shadow;
  }

  /** Records that a thread loaded uninitialized bits. */
  load(offset: number, place: number, thread: number): void {
    this.#last = { offset, place, who: this.#threads.threadAt(place, thread) };
    this.#loads.set(thread, this.#last);
  }

  /**
   * Returns an observer that records shuffles with undefined results, in which a lane reads from a lane that does not
   * participate.
   */
  observeBlock(): BlockObserver {
    const ignore = () => {};
    return {
      start: ignore,
      resume: ignore,
      arrive: ignore,
      complete: ignore,
      meet: (warp, { suspension: { line }, readerOfAbsentLane }) => {
        const lane = readerOfAbsentLane();
        if (lane !== undefined) this.#shuffle = { line, who: this.#threads.threadOfBlock(warp * 32 + lane) };
      },
    };
  }

  /** Records that a thread stored uninitialized bits. */
  store(offset: number, place: number): void {
    this.#shadow.noteStore(offset, bytesOfPlace(place));
  }

  /** Records that a thread allocated memory on the heap. `offset` is undefined if the allocation failed. */
  allocate(offset: number | undefined, byteLength: number): void {
    if (offset === undefined) return;
    this.#shadow.markUninitialized(offset, byteLength);
    this.#allocated.set(offset, byteLength);
  }

  /** Reports that an uninitialized value affects execution, for example as an address or a branch condition. */
  decide(index: number, place: number, thread: number): void {
    const key = `initialization ${index} ${lineOfPlace(place)}`;
    const known = this.#mistakes.get(key);
    if (known !== undefined) return this.#threads.findings.countAgain(known);
    const who = this.#threads.threadAt(place, thread);
    const load = this.#loadOf(thread, who);
    const shuffle = this.#shuffleOf(thread, who);
    // Reports all uses of a loaded value in a single finding.
    const cause = load === undefined || shuffle !== undefined
      ? key
      : `${load.offset} ${this.#threads.sourceOf(load.place)}`;
    const mistake = this.#causes.get(cause) ?? key;
    this.#mistakes.set(key, mistake);
    this.#causes.set(cause, mistake);
    this.#threads.findings.add(mistake, () => {
      const decision = decisions[index]!;
      return shuffle === undefined
        ? this.#describe(decision, place, who, load)
        : this.#describeShuffle(decision, place, shuffle);
    });
  }

  #describe(decision: Decision, place: number, who: Load["who"], load: Load | undefined): KernelFinding {
    const { kind, what } = wordings[decision];
    const source = this.#threads.sourceOf(place);
    const common = { check: "initialization", kind } as const;
    if (load === undefined) {
      const problem = `at ${source}, ${what} a variable that was never set`;
      const accesses = [{ access: "read", source, ...who }] as const;
      return { ...common, problem, advice: advices.variable, memory: "a variable", accesses };
    }
    const isUpdate = decision === "atomic memory";
    const problem = `at ${source}, ${what} ${isUpdate ? "" : "a value read from "}${unwritten}`;
    const read: ThreadAccess = { access: "read", source: this.#threads.sourceOf(load.place), ...load.who };
    const isGlobal = this.#threads.isGlobal(load.offset);
    const advice = this.#isAllocated(load.offset)
      ? advices.heap
      : advices[isGlobal ? isUpdate ? "update" : "buffer" : isLocal(load.offset) ? "local" : "block"];
    return { ...common, problem, advice, ...this.#memoryOf(load), accesses: [read] };
  }

  #describeShuffle(decision: Decision, place: number, { line, who }: Shuffle): KernelFinding {
    const { kind, what } = wordings[decision];
    const problem = `at ${this.#threads.sourceOf(place)}, ${what} a value that a shuffle reads from a lane that does ` +
      "not take part: it has exited, or is not named, or the block has fewer threads";
    const accesses = [{ access: "read", source: this.#threads.sourceOfLine(line), ...who }] as const;
    return {
      check: "initialization",
      kind,
      problem,
      advice: advices.shuffle,
      memory: "the value of an absent lane",
      accesses,
    };
  }

  #isAllocated(offset: number): boolean {
    for (const [begin, byteLength] of this.#allocated) if (offset >= begin && offset < begin + byteLength) return true;
    return false;
  }

  /**
   * Returns the last shuffle in the thread's block whose result was undefined. Returns undefined if the thread itself
   * loaded uninitialized bits.
   */
  #shuffleOf(thread: number, who: Load["who"]): Shuffle | undefined {
    const own = this.#loads.get(thread);
    if (own !== undefined && isSame(own.who, who)) return undefined;
    return this.#shuffle?.who.block.join() === who.block.join() ? this.#shuffle : undefined;
  }

  /**
   * Returns the last uninitialized load of a thread. If there is none, returns the last load of any thread of the same
   * block, because the lanes of a warp exchange values.
   */
  #loadOf(thread: number, who: Load["who"]): Load | undefined {
    const own = this.#loads.get(thread);
    if (own !== undefined && isSame(own.who, who)) return own;
    return this.#last?.who.block.join() === who.block.join() ? this.#last : undefined;
  }

  #memoryOf({ offset, place }: Load): Pick<LaunchFinding, "memory" | "range"> {
    const byteLength = bytesOfPlace(place);
    const memory = this.#threads.nameOf(offset, byteLength);
    if (!this.#threads.isGlobal(offset)) return { memory: memory ?? "memory of the block or the thread" };
    return { memory, range: { address: addressOfOffset(offset), byteLength } };
  }
}

/** Returns whether an offset lies in the local memory of a thread. */
function isLocal(offset: number): boolean {
  const { begin, byteLength } = scratch.local;
  return offset >= begin && offset < begin + byteLength;
}

function isSame(a: Load["who"], b: Load["who"]): boolean {
  return a.block.join() === b.block.join() && a.thread?.join() === b.thread?.join();
}
