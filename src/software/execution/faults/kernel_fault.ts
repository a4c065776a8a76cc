/**
 * Faults of kernels, as compiled code reports them and as users see them, and the limit on a kernel's steps.
 *
 * @module
 */
import { decodePlace, faultKind, type FaultPlace } from "../../abi/addresses.ts";
import type { WaitingThreads } from "../scheduling/block_barriers.ts";

/** The index of a block or of a thread. */
export type Index = readonly [x: number, y: number, z: number];

/** What is known at the point where a kernel stops. */
export interface FaultReport {
  /** One of `faultKind`. */
  readonly kind: number;
  /** Its meaning depends on the kind and the place: an address, an offset, or another value. */
  readonly address?: bigint;
  readonly place?: Partial<FaultPlace>;
  /**
   * Its meaning depends on the place; by default, the number of the thread's record. Undefined if no particular thread
   * has faulted.
   */
  readonly thread?: number | undefined;
  /** The index of the thread, if it is known already. */
  readonly index?: Index;
  /** The source of the kernel at that place, if the kernel itself names it. */
  readonly source?: string | undefined;
  /** What happened, if the kind does not say it. May name lines of the PTX, and waiting threads. */
  readonly what?: string | ((nameLine: (line: number) => string, waiting: string) => string);
  /** Set if the kernel was stopped because no block makes progress. */
  readonly stuck?: StuckBlocks;
}

/** Blocks that only wait for each other, or for blocks that have not started. */
export interface StuckBlocks {
  /** What each of them waits at. */
  describe(nameLine: (line: number) => string): string;
  readonly advice: string;
  /** The threads of the first one. */
  readonly waiting: readonly WaitingThreads[];
}

/** Thrown through compiled code to stop a kernel. Its launch turns it into a {@linkcode KernelFault}. */
export class KernelStop extends Error {
  override readonly name = "KernelStop";
  readonly report: FaultReport;

  constructor(report: FaultReport) {
    super("The kernel was stopped");
    this.report = report;
  }
}

/** A kernel was stopped by an illegal address, a trap, or another fault. */
export class KernelFault extends Error {
  override readonly name = "KernelFault";
  /** One of `faultKind`. */
  readonly kind: number;
  readonly kernel: string;
  readonly block: Index;
  /** Undefined if no particular thread has faulted. */
  readonly thread: Index | undefined;
  /** The line in the PTX text. 0 if it is not known. */
  readonly line: number;
  /** The line of the source, such as `saxpy.cu:12`. Undefined if it is unknown. */
  readonly source: string | undefined;
  /** The generic address. Undefined if the fault does not concern memory. */
  readonly address: bigint | undefined;
  /** What the kernel did, as it follows the place. */
  readonly what: string;
  /** The arguments of the launch, as they follow the description. May be empty. */
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
   * The message.
   *
   * @param device the device that ran the kernel, to be named
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

/** A line of the PTX, in a message. */
export function nameOfLine(line: number): string {
  return `line ${line} of the PTX`;
}

/** Counts the steps of a block's threads, and stops them at the limit: most likely they never end. */
export class StepCounter {
  /** How many loop iterations a kernel may run before it asks for more fuel. */
  readonly fuelPerRefill: number = 2 ** 20;
  readonly #limit: number;
  #count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The steps of the block that runs. */
  get count(): number {
    return this.#count;
  }

  get limit(): number {
    return this.#limit;
  }

  /** Starts the next block, or resumes one that has done some steps. */
  restart(steps = 0): void {
    this.#count = steps;
  }

  /** Called by compiled code with the place and the thread. */
  refuel(place: number, thread: number): number {
    this.#count += this.fuelPerRefill;
    if (this.#count > this.#limit) this.#stop({ place: decodePlace(place), thread });
    return this.fuelPerRefill;
  }

  /** Counts the steps of a thread or, from that thread on, of its warp. `locate` finds the thread if it is stopped. */
  add(steps: number, thread: number, locate: (thread: number) => Pick<FaultReport, "thread">): void {
    this.#count += steps;
    if (this.#count > this.#limit) this.#stop(locate(thread));
  }

  #stop(report: Pick<FaultReport, "place" | "thread">): never {
    const steps = this.#count;
    throw new KernelStop({
      kind: faultKind.stepLimit,
      what: (_, waiting) => {
        const others = waiting === "" ? "" : `, while others wait: ${waiting}`;
        const advice = waiting.includes("(barrier)")
          ? "all threads of the block must reach the same barrier"
          : "check the loop's condition and the arguments that it depends on";
        return `stopped after ${steps} steps, perhaps in a loop that never ends${others}; ${advice}; ` +
          "POOLPASS_SOFTWARE_STEPS sets the limit for a block";
      },
      ...report,
    });
  }
}
