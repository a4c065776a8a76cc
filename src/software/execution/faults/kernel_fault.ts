/**
 * Faults of kernels: as compiled code reports them, and as users see them.
 *
 * @module
 */
import type { FaultPlace } from "../../abi/addresses.ts";
import type { WaitingThreads } from "../scheduling/waiting_threads.ts";

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
