/**
 * Faults of kernels, as reported by compiled code and as presented to users, and the limit on a kernel's steps.
 *
 * @module
 */
import { decodePlace, faultKind, type FaultPlace } from "../../abi/addresses.ts";
import type { WaitingThreads } from "../scheduling/block_barriers.ts";

/** The index of a block or of a thread. */
export type Index = readonly [x: number, y: number, z: number];

/** The information about a fault that is available where the kernel stops. */
export interface FaultReport {
  /** One of `faultKind`. */
  readonly kind: number;
  /** Compilers use the same PTX type for signed and unsigned integer parameters. */
  readonly address?: bigint;
  readonly place?: Partial<FaultPlace>;
  /**
   * The thread that faulted, in the form that `place.thread` specifies; by default, the index of its thread record.
   * Undefined if no particular thread has faulted.
   */
  readonly thread?: number | undefined;
  /** The index of the thread within the block, if it is known directly. */
  readonly index?: Index;
  /** The source line, if the kernel itself provides it. */
  readonly source?: string | undefined;
  /**
   * The description of the fault, if the kind is not sufficient. A function receives names of lines and waiting
   * threads.
   */
  readonly what?: string | ((nameLine: (line: number) => string, waiting: string) => string);
  /** The blocks, if the kernel was stopped because no block makes progress. */
  readonly stuck?: StuckBlocks;
}

/** Resident blocks that only wait for each other, or for blocks that have not started. */
export interface StuckBlocks {
  /** Describes the suspend points at which the blocks wait. */
  describe(nameLine: (line: number) => string): string;
  readonly advice: string;
  /** The waiting threads of the first block. */
  readonly waiting: readonly WaitingThreads[];
}

/** Thrown through compiled code to stop a kernel. The launch converts it to a {@linkcode KernelFault}. */
export class KernelStop extends Error {
  override readonly name = "KernelStop";
  readonly report: FaultReport;

  constructor(report: FaultReport) {
    super("The kernel was stopped");
    this.report = report;
  }
}

/** The error of a kernel that was stopped by an illegal address, a trap, or another fault. */
export class KernelFault extends Error {
  override readonly name = "KernelFault";
  /** One of `faultKind`. */
  readonly kind: number;
  readonly kernel: string;
  readonly block: Index;
  /** Undefined if no particular thread has faulted. */
  readonly thread: Index | undefined;
  /** The line in the PTX text. 0 if it is unknown. */
  readonly line: number;
  /** The line of the source, such as `saxpy.cu:12`. Undefined if it is unknown. */
  readonly source: string | undefined;
  /** The generic address of the access. Undefined if the fault does not concern memory. */
  readonly address: bigint | undefined;
  /** The description of the fault, as a verb phrase. */
  readonly what: string;
  /** The description of the launch's arguments, to be appended to the message. May be empty. */
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
   * Returns the message.
   *
   * @param device the device that ran the kernel, if the message should name it
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

/** Counts the steps of a block's threads, and stops the kernel at the limit, since it most likely never ends. */
export class StepCounter {
  /** The number of loop iterations that a kernel may run before it requests more fuel. */
  readonly fuelPerRefill: number = 2 ** 20;
  readonly #limit: number;
  #count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The number of steps of the running block. */
  get count(): number {
    return this.#count;
  }

  get limit(): number {
    return this.#limit;
  }

  /** Starts the next block, or resumes a block that has already run `steps` steps. */
  restart(steps = 0): void {
    this.#count = steps;
  }

  /** Implements the host function `refuel`. Returns the number of further loop iterations. */
  refuel(place: number, thread: number): number {
    this.#count += this.fuelPerRefill;
    if (this.#count > this.#limit) this.#stop({ place: decodePlace(place), thread });
    return this.fuelPerRefill;
  }

  /**
   * Counts the steps of a thread, or of the warp that starts with the thread. At the limit, `locate` finds the thread
   * to report.
   */
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
