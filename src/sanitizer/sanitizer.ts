/**
 * The sanitizer of a `Cuda` object: selects the checks, and delivers and prints the reports. See README.md in this
 * folder.
 *
 * @module
 */
import type { Driver, MemoryRange } from "../driver.ts";
import type { KernelCheck } from "../kernel_checker.ts";
import { escapeControlsInLines, listOf, startStackAbove } from "../support/printing.ts";
import { observeHostReads } from "./notifications.ts";
import { bytesOf, shown, whatIs } from "../support/validation.ts";
import { captureCallStack } from "./reporting/call_stacks.ts";
import { LeakCandidates, type UnfreedPieces } from "./leaks.ts";
import type { KernelOptions } from "./kernel_accesses/launch_accesses.ts";
import type { CommunicatorRank } from "./observer/observed_communicators.ts";
import type { StreamHandle } from "./observer/observed_streams.ts";
import { type CollectiveOnStream, Observer } from "./observer/observer.ts";
import type { Outputs } from "./reporting/outputs.ts";
import { atProcessEnd, letProcessFail, letProcessSucceed, printSuppressed } from "./reporting/process_end.ts";
import { suppressedOf, type Suppressions, unusedOf } from "./reporting/suppressions.ts";
import { Reports } from "./reporting/reports.ts";
import {
  type SanitizerCheck,
  SanitizerError,
  type SanitizerReport,
  summaryOfReports,
} from "./reporting/sanitizer_report.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** All checks of the sanitizer. */
const availableChecks: readonly SanitizerCheck[] = [
  "stream-order",
  "memory",
  "initialization",
  "race",
  "synchronization",
  "leak",
];
/** The checks of accesses and barriers inside kernels. The driver performs them. */
const kernelChecks: readonly KernelCheck[] = ["memory", "initialization", "race", "synchronization"];

/** Observes the driver calls of a program, and reports the program's mistakes. */
export class Sanitizer {
  readonly #reports: Reports;
  readonly #checks: ReadonlySet<SanitizerCheck>;
  readonly #hasListener: boolean;
  readonly #outputs: Outputs;
  readonly #kernels: KernelOptions;
  /** Removes this sanitizer's listener for the exit of the process. */
  readonly #forgetEnd: () => void;
  /** Removes this sanitizer's observer, which is notified before the library reads memory of the program. */
  readonly #forgetReads: () => void;
  #observer: Observer | undefined;
  readonly #unfreed = new LeakCandidates((at) => this.#observer?.allocationAt(at));
  /** Called before the process exits, unless `finish` was called. */
  #beforeEnd: () => void = () => {};

  /**
   * @param checks the enabled checks
   * @param onReport called with each report; by default, reports are printed, and `finish` throws an error with all of
   * them
   * @param outputs the suppressions, the log file and the annotations of reports
   * @param kernels how to find the accesses of kernels that the driver does not observe
   */
  constructor(
    checks: ReadonlySet<SanitizerCheck>,
    onReport: ((report: SanitizerReport) => void) | undefined,
    outputs: Outputs = {},
    kernels: KernelOptions = {},
  ) {
    this.#kernels = kernels;
    this.#checks = checks;
    this.#hasListener = onReport !== undefined;
    this.#outputs = outputs;
    const { log, prepare, suppressions } = outputs;
    const handle = onReport ?? ((report) => this.#print(report));
    const onEach = (report: SanitizerReport) => {
      prepare?.(report);
      log?.add(report);
      handle(report);
    };
    this.#reports = new Reports(checks, onEach, suppressions);
    this.#forgetReads = observeHostReads((source, operation) => this.#hostReads(source, operation));
    this.#forgetEnd = atProcessEnd((hasFailed) => this.#endWithProcess(hasFailed));
    if (!this.#hasListener && suppressions !== undefined) warnOfUnused(suppressions);
  }

  /** Returns a layer over a driver that observes and forwards all calls. */
  observe(driver: Driver): Driver {
    this.#observer = new Observer(driver, this.#reports, this.#kernels);
    return this.#observer.layer();
  }

  /**
   * Call when the program receives a buffer of page-locked memory. The program's own accesses to it cannot be observed.
   */
  onExposedToProgram(buffer: ArrayBufferLike): void {
    this.#observer?.onExposedToProgram(buffer);
  }

  /**
   * Returns whether the program has learned, by its own wait or query, that the work before an event's record is
   * complete.
   */
  isKnown(event: bigint): boolean {
    return this.#observer?.isKnown(event) ?? true;
  }

  /**
   * Call when a rank of this process has joined a communicator.
   *
   * @param key a name that all ranks of the communicator share, and that no other communicator has
   */
  onRankJoined(key: string, rank: number, size: number): CommunicatorRank | undefined {
    return this.#observer?.onRankJoined(key, rank, size);
  }

  /** Call when a rank has left its communicator and enqueues no more collectives. */
  onRankLeft(rank: CommunicatorRank): void {
    this.#observer?.onRankLeft(rank);
  }

  /** Call when a group of collectives was enqueued. */
  onCollectives(collectives: readonly CollectiveOnStream[]): void {
    this.#observer?.onCollectives(collectives);
    this.#reports.deliver();
  }

  /**
   * Call when an allocator has allocated a part of its memory to the program, in stream order. This involves no driver
   * call that could be observed.
   */
  partAllocated(stream: StreamHandle, part: MemoryRange): void {
    this.#observer?.partAllocated(stream, part);
  }

  /** Call when the program has freed a part of an allocator's memory, in stream order. */
  partFreed(stream: StreamHandle, address: bigint): void {
    this.#observer?.partFreed(stream, address);
  }

  /**
   * Adds memory that was still allocated when its pool or allocator was disposed. The memory is a leak unless the
   * program frees it later.
   *
   * @returns whether the check for leaks is enabled
   */
  addUnfreed(...unfreed: readonly UnfreedPieces[]): boolean {
    if (!this.#checks.has("leak")) return false;
    this.#unfreed.add(unfreed);
    return true;
  }

  /**
   * Reports leaks: the given memory, and memory from earlier calls of `addUnfreed` that is still not freed.
   *
   * @param before the event before which the memory should have been freed: "the Cuda object was disposed"
   * @returns whether the check for leaks is enabled
   */
  reportLeaks(unfreed: readonly UnfreedPieces[], before: string): boolean {
    if (!this.addUnfreed(...unfreed)) return false;
    for (const leak of this.#unfreed.leaks()) this.#reports.addLeak(leak, before);
    for (const heap of this.#observer?.unfreedHeap() ?? []) this.#reports.addHeapLeak(heap, before);
    this.#reports.deliver();
    return true;
  }

  /** Sets a function to call before the process exits, unless `finish` is called first. */
  beforeProcessEnd(report: () => void): void {
    this.#beforeEnd = report;
  }

  /**
   * Reports a wait for an event that was never recorded.
   *
   * @param wait a description of the wait: "a stream waits for an event of device 0"
   * @param created the call stack of the event's creation
   */
  reportUnrecordedWait(wait: string, created: string): void {
    this.#reports.addUnrecordedEvent({ wait, site: captureCallStack(), created: { stack: created } });
    this.#reports.deliver();
  }

  #hostReads(source: ArrayBufferView | ArrayBuffer, operation: string): void {
    this.#observer?.hostRead(bytesOf(source), operation);
    this.#reports.deliver();
  }

  /**
   * Delivers the last reports, and stops observing.
   *
   * @param called the public function that the program has called; the stack of the thrown error begins at its caller
   * @throws {SanitizerError} If there were reports and there is no listener
   */
  finish(called: () => void): void {
    this.#observer?.finish();
    this.#reports.deliver();
    this.#forgetEnd();
    this.#forgetReads();
    const { all } = this.#reports;
    this.#close();
    letProcessSucceed(this);
    if (this.#hasListener || all.length === 0) return;
    printSuppressed(isSanitizerError);
    throw startStackAbove(new SanitizerError(all), called);
  }

  /**
   * Delivers the last reports and prints a summary. Called if the process exits before the `Cuda` object is disposed.
   */
  #endWithProcess(hasFailed: boolean): void {
    // Do not report leaks if the program fails: it exits before it can free its memory.
    if (!hasFailed) this.#beforeEnd();
    this.#reports.deliver();
    const { all } = this.#reports;
    if (!this.#hasListener && all.length > 0) print(`poolpass sanitizer: ${summaryOfReports(all)}`);
    this.#close();
  }

  #close(): void {
    const { suppressed } = this.#reports;
    if (!this.#hasListener && suppressed.length > 0) print(`poolpass sanitizer: ${suppressedOf(suppressed)}`);
    this.#outputs.log?.end(suppressed);
  }

  #print(report: SanitizerReport): void {
    print(report.message);
    if (this.#outputs.annotate !== undefined) print(this.#outputs.annotate(report));
    letProcessFail(this);
  }
}

/**
 * Prints text to standard error with control characters escaped, because names may come from PTX or other processes.
 */
function print(text: string): void {
  console.error(escapeControlsInLines(text));
}

function isSanitizerError(error: unknown): boolean {
  return error instanceof SanitizerError;
}

/** The suppressions whose unused entries will be printed when the process exits. */
const watched = new WeakSet<Suppressions>();

/** Makes the process print the unused entries of a suppression file when it exits, once per file. */
function warnOfUnused(suppressions: Suppressions): void {
  if (watched.has(suppressions)) return;
  watched.add(suppressions);
  atProcessEnd(() => {
    if (suppressions.unused.length > 0) print(`poolpass sanitizer: ${unusedOf(suppressions)}`);
  });
}

/** The checks that the program or the environment enables. */
export interface WantedChecks {
  readonly checks: ReadonlySet<SanitizerCheck>;
  /**
   * The name of the option or environment variable that lists the checks. Undefined if all available checks are
   * enabled.
   */
  readonly namedBy: string | undefined;
}

const allChecks: WantedChecks = { checks: new Set(availableChecks), namedBy: undefined };

/**
 * Returns the checks that the option or the environment variable enables, or undefined if the sanitizer is not enabled.
 *
 * @param option the option `sanitize` of `open`
 * @param variable the value of POOLPASS_SANITIZE, which is used if the option is undefined
 * @throws {TypeError} If the option has the wrong type
 * @throws {RangeError} If a name is not the name of a check
 */
export function wantedChecks(option: unknown, variable: string | undefined): WantedChecks | undefined {
  if (option !== undefined) {
    if (typeof option === "boolean") return option ? allChecks : undefined;
    if (!Array.isArray(option)) {
      throw new TypeError(`Cannot sanitize ${whatIs(option)}: give true, or an array of checks`);
    }
    return checksAmong(option, "sanitize");
  }
  if (variable === undefined || variable === "" || variable === "0") return undefined;
  return variable === "1" ? allChecks : checksAmong(variable.split(","), "POOLPASS_SANITIZE");
}

function checksAmong(names: readonly unknown[], namedBy: string): WantedChecks | undefined {
  const checks = new Set<SanitizerCheck>();
  for (const name of names) {
    const check = availableChecks.find((check) => check === name);
    if (check === undefined) {
      const known = listOf(availableChecks.map((check) => `"${check}"`));
      throw new RangeError(`Cannot make the check ${shown(name)} of ${namedBy}: the checks are ${known}`);
    }
    checks.add(check);
  }
  return checks.size === 0 ? undefined : { checks, namedBy };
}

/** Returns the enabled checks that the driver performs inside kernels. */
export function kernelChecksAmong({ checks }: WantedChecks): ReadonlySet<KernelCheck> {
  return new Set(kernelChecks.filter((check) => checks.has(check)));
}

/**
 * Throws unless the driver supports every kernel check that was enabled by name.
 *
 * @throws {RangeError} If the driver does not support a check
 */
export function checkThatDriverMakes(wanted: WantedChecks, driver: Pick<Driver, "checker">): void {
  if (wanted.namedBy === undefined) return;
  for (const check of kernelChecksAmong(wanted)) {
    if (driver.checker?.checks.has(check)) continue;
    throw new RangeError(
      `Cannot make the check "${check}" of ${wanted.namedBy} on a GPU: only the software device makes it; run the ` +
        `same program with the driver "software"`,
    );
  }
}
