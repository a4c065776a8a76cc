/**
 * Faults of kernels, as reported by compiled code and as presented to users, and the limit on a kernel's steps.
 *
 * @module
 */
import { formatSeconds } from "../../../support/printing.ts";
import { decodePlace, faultKind, type FaultPlace } from "../../abi/addresses.ts";
import type { WaitingThreads } from "../scheduling/block_barriers.ts";

/** The index of a block or of a thread. */
export type GridIndex = readonly [x: number, y: number, z: number];

/** The information about a fault that is available where the kernel stops. */
export interface FaultReport {
  /** One of `faultKind`. */
  readonly kind: number;
  /** An address, an offset, or another value, depending on `kind` and `place.space`. */
  readonly address?: bigint;
  readonly place?: Partial<FaultPlace>;
  /**
   * The thread that faulted, in the form that `place.thread` specifies; by default, the index of its thread record.
   * Undefined if no particular thread has faulted.
   */
  readonly thread?: number | undefined;
  /** The index of the thread within the block. Undefined if `thread` identifies the thread instead. */
  readonly index?: GridIndex;
  /** The source line, if the kernel itself reports it. */
  readonly source?: string | undefined;
  /**
   * A description that replaces the default description of this kind of fault. If it depends on line numbers or waiting
   * threads, a function that returns the description, given a function that formats line numbers and a description of
   * the waiting threads.
   */
  readonly what?: string | ((nameLine: (line: number) => string, waiting: string) => string);
  /** The blocks that are stuck, if the kernel was stopped because no block makes progress. */
  readonly stuck?: StuckBlocks;
}

/** Blocks whose threads wait at the same places. */
export interface WaitingBlocks {
  /** The places, with lines as {@linkcode markLine} marks them. */
  readonly where: string;
  readonly blocks: readonly GridIndex[];
}

/** Resident blocks that wait only for each other, or for blocks that have not started. */
export interface StuckBlocks {
  readonly blocks: readonly WaitingBlocks[];
  readonly advice: string;
  /** The waiting threads of the first of the blocks. */
  readonly waiting: readonly WaitingThreads[];
}

/** Stands in the description of a fault for that of the blocks that are stuck. */
export const stuckMark = "\0stuck\0";

/** The maximum number of groups of blocks that a message describes. */
const describedGroups = 4;

/** Describes blocks that are stuck, with lines as {@linkcode markLine} marks them. */
export function describeStuck(stuck: readonly WaitingBlocks[]): string {
  const byPlace = Map.groupBy(stuck, ({ where }) => where);
  const groups = Array.from(byPlace, ([where, groups]) => ({
    where,
    blocks: groups.flatMap(({ blocks }) => blocks).sort(compareBlocks),
  })).sort((a, b) => compareBlocks(a.blocks[0]!, b.blocks[0]!));
  const texts = groups.slice(0, describedGroups).map(({ where, blocks }) => {
    const others = blocks.length === 1 ? "" : ` and ${blocks.length - 1} more`;
    return `block (${blocks[0]})${others}, ${where}`;
  });
  if (groups.length > describedGroups) texts.push("and others");
  return `all blocks that run only wait, ${texts.join("; ")}`;
}

function compareBlocks(a: GridIndex, b: GridIndex): number {
  return a[2] - b[2] || a[1] - b[1] || a[0] - b[0];
}

/** A fault and where it occurred, as plain data, which the thread that ran the block sends to the main thread. */
export interface LocatedFault {
  readonly report: Pick<FaultReport, "kind" | "address" | "place" | "source">;
  readonly block: GridIndex;
  /** Undefined if no particular thread has faulted. */
  readonly thread: GridIndex | undefined;
  /** The line in the PTX text. 0 if it is unknown. */
  readonly line: number;
  /**
   * A description that replaces the default one, with lines as {@linkcode markLine} marks them, and `stuckMark` for the
   * description of `stuck`.
   */
  readonly what: string | undefined;
  /** The blocks that are stuck, if the kernel was stopped because no block makes progress. */
  readonly stuck: readonly WaitingBlocks[] | undefined;
}

/** Marks a line of the PTX in a description. Only the main thread knows the source lines. */
export function markLine(line: number): string {
  return `\0${line}\0`;
}

/** Replaces the lines that {@linkcode markLine} has marked by their names. */
export function nameLines(text: string, nameLine: (line: number) => string): string {
  return text.replace(/\0(\d+)\0/g, (_, line) => nameLine(Number(line)));
}

/**
 * An exception that compiled code propagates, so that the kernel stops. The launch converts it to a
 * {@linkcode KernelFault}.
 */
export class KernelStop extends Error {
  override readonly name = "KernelStop";
  readonly report: FaultReport;

  constructor(report: FaultReport) {
    super("The kernel was stopped");
    this.report = report;
  }
}

/** An exception that compiled code propagates, so that the running blocks are left, which need not be finished. */
export class InVainError extends Error {
  override readonly name = "InVainError";
}

/** The error of a kernel that was stopped by an illegal address, a trap, or another fault. */
export class KernelFault extends Error {
  override readonly name = "KernelFault";
  /** One of `faultKind`. */
  readonly kind: number;
  readonly kernel: string;
  readonly block: GridIndex;
  /** Undefined if no particular thread has faulted. */
  readonly thread: GridIndex | undefined;
  /** The line in the PTX text. 0 if it is unknown. */
  readonly line: number;
  /** The source line, such as `saxpy.cu:12`. Undefined if it is unknown. */
  readonly source: string | undefined;
  /** The generic address of the access. Undefined if the fault does not concern memory. */
  readonly address: bigint | undefined;
  /** The description of the fault, as a verb phrase. */
  readonly what: string;
  /** The description of the launch's arguments, which is appended to the error message. May be empty. */
  readonly launched: string;

  constructor(fault: Omit<KernelFault, keyof Error | "describe">) {
    super();
    this.kind = fault.kind;
    this.kernel = fault.kernel;
    this.block = fault.block;
    this.thread = fault.thread;
    this.line = fault.line;
    this.source = fault.source;
    this.address = fault.address;
    this.what = fault.what;
    this.launched = fault.launched;
    this.message = this.describe();
  }

  /**
   * Returns the error message.
   *
   * @param device the device that ran the kernel, if the message should name the device
   */
  describe(device?: number): string {
    const { kernel, block, thread, source, line, what } = this;
    const places = [`kernel ${kernel}${device === undefined ? "" : ` on device ${device}`}`, `block (${block})`];
    if (thread !== undefined) places.push(`thread (${thread})`);
    if (source !== undefined) places.push(source);
    else if (line > 0) places.push(nameOfLine(line));
    return `${places.join(", ")}: ${what}`;
  }
}

/** Formats a line number of the PTX for a message. */
export function nameOfLine(line: number): string {
  return `line ${line} of the PTX`;
}

/**
 * The number of steps after which the time of a block is measured. Shorter blocks do not incur the cost of measuring.
 */
const untimedSteps = 2 ** 16;

/**
 * Counts the steps of a block's threads, and stops the kernel when the step limit is reached, because a kernel that
 * reaches the limit most likely never terminates.
 */
export class StepCounter {
  /** The number of loop iterations that a kernel may run before it calls `refuel` again. */
  readonly fuelPerRefill: number = 2 ** 20;
  /** Returns whether the running blocks need not be finished, and must be left. Undefined if they must be finished. */
  isInVain: (() => boolean) | undefined;
  readonly #limit: number;
  #count = 0;
  /**
   * The `performance.now()` time at which the timing of the running block began, after its first steps. Undefined until
   * then.
   */
  #begin: number | undefined;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The number of steps that the running block's threads have made so far. */
  get count(): number {
    return this.#count;
  }

  get limit(): number {
    return this.#limit;
  }

  /** Starts counting the steps of the next block, or of a resumed block that has already made `steps` steps. */
  restart(steps = 0): void {
    this.#count = steps;
    if (steps === 0) this.#begin = undefined;
  }

  /** Implements the host function `refuel`. Returns the number of loop iterations that may run before the next call. */
  refuel(place: number, thread: number): number {
    this.#leaveIfInVain();
    this.#begin ??= performance.now();
    this.#count += this.fuelPerRefill;
    if (this.#count > this.#limit) this.#stop({ place: decodePlace(place), thread });
    return this.fuelPerRefill;
  }

  /**
   * Adds steps of a thread, or of the warp whose first thread is `thread`. If the limit is reached, calls `locate` to
   * find the thread to report.
   */
  add(steps: number, thread: number, locate: (thread: number) => Pick<FaultReport, "thread">): void {
    this.#leaveIfInVain();
    this.#count += steps;
    if (this.#count > untimedSteps) this.#begin ??= performance.now();
    if (this.#count > this.#limit) this.#stop(locate(thread));
  }

  #leaveIfInVain(): void {
    if (this.isInVain?.()) throw new InVainError();
  }

  #stop(report: Pick<FaultReport, "place" | "thread">): never {
    const steps = this.#count;
    const duration = this.#begin === undefined ? "" : `, which took ${formatSeconds(performance.now() - this.#begin)}`;
    throw new KernelStop({
      kind: faultKind.stepLimit,
      what: (_, waiting) => {
        const others = waiting === "" ? "" : `, while others wait: ${waiting}`;
        const advice = waiting.includes("(barrier)")
          ? "all threads of the block must reach the same barrier"
          : "check the loop's condition and the arguments that it depends on";
        return `stopped after ${steps} steps${duration}, perhaps in a loop that never ends${others}; ` +
          `${advice}; ` + "POOLPASS_SOFTWARE_STEPS sets the limit for a block";
      },
      ...report,
    });
  }
}
