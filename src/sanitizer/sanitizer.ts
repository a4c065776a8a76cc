/**
 * The sanitizer of a `Cuda` object.
 *
 * @module
 */
import type { Driver, MemoryRange } from "../driver.ts";
import type { KernelCheck } from "../kernel_checker.ts";
import { escapeControlsInLines, listOf, startStackAbove } from "../support/printing.ts";
import { observeHostReads } from "./notifications.ts";
import { bytesOf, shown, whatIs } from "../support/validation.ts";
import { callSiteHere } from "./reporting/call_sites.ts";
import { UnfreedCandidates, type UnfreedMemory } from "./leaks.ts";
import type { KernelOptions } from "./kernel_accesses/launch_accesses.ts";
import type { CommunicatorRank } from "./observer/observed_communicators.ts";
import type { StreamHandle } from "./observer/observed_streams.ts";
import { type CollectiveOnStream, Observer } from "./observer/observer.ts";
import type { Outputs } from "./reporting/outputs.ts";
import { atProcessEnd, letProcessFail, letProcessSucceed, printSuppressed } from "./reporting/process_end.ts";
import { suppressedOf, type Suppressions, unusedOf } from "./reporting/suppressions.ts";
import { Reports } from "./reporting/reports.ts";
import { type SanitizerCheck, SanitizerError, type SanitizerReport, summaryOf } from "./reporting/sanitizer_report.ts";

/** The checks that can be made. */
const availableChecks: readonly SanitizerCheck[] = [
  "stream-order",
  "memory",
  "initialization",
  "race",
  "synchronization",
  "leak",
];
/** Those that look at what the threads of kernels do. */
const kernelChecks: readonly KernelCheck[] = ["memory", "initialization", "race", "synchronization"];

/** Looks for mistakes in what a program does with a driver. */
export class Sanitizer {
  readonly #reports: Reports;
  readonly #checks: ReadonlySet<SanitizerCheck>;
  readonly #hasListener: boolean;
  readonly #outputs: Outputs;
  readonly #kernels: KernelOptions;
  /** Gives up what the end of the process would do. */
  readonly #forgetEnd: () => void;
  readonly #forgetReads: () => void;
  #observer: Observer | undefined;
  readonly #unfreed = new UnfreedCandidates((at) => this.#observer?.allocationAt(at));
  #beforeEnd: () => void = () => {};

  /**
   * @param checks the checks to make
   * @param onReport gets every report; by default, each is printed, and `finish` throws them
   * @param outputs what else is done with reports
   * @param kernels what to do about kernels, where a driver does not say what they access
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
    const { log, suppressions } = outputs;
    const handle = onReport ?? ((report) => this.#print(report));
    const onEach = (report: SanitizerReport) => {
      log?.add(report);
      handle(report);
    };
    this.#reports = new Reports(checks, onEach, suppressions);
    this.#forgetReads = observeHostReads((source, operation) => this.#hostReads(source, operation));
    this.#forgetEnd = atProcessEnd((hasFailed) => this.#endWithProcess(hasFailed));
    if (!this.#hasListener && suppressions !== undefined) warnOfUnused(suppressions);
  }

  /** Returns a driver that does the same and is looked at. */
  observe(driver: Driver): Driver {
    this.#observer = new Observer(driver, this.#reports, this.#kernels);
    return this.#observer.layer();
  }

  /** Notes that the program gets page-locked memory into its hands. */
  onExposedToProgram(buffer: ArrayBufferLike): void {
    this.#observer?.onExposedToProgram(buffer);
  }

  /** Whether the program knows that the work before an event's record is done, by a wait or a question of its own. */
  isKnown(event: bigint): boolean {
    return this.#observer?.isKnown(event) ?? true;
  }

  /**
   * Adds a rank of a communicator.
   *
   * @param key the same for all its ranks, and for no other communicator
   */
  onRankJoined(key: string, rank: number, size: number): CommunicatorRank | undefined {
    return this.#observer?.onRankJoined(key, rank, size);
  }

  /** Forgets a rank, which makes no more collectives. */
  onRankLeft(rank: CommunicatorRank): void {
    this.#observer?.onRankLeft(rank);
  }

  /** Notes that streams were given collectives together, which wait for those of other ranks, here and elsewhere. */
  onCollectives(collectives: readonly CollectiveOnStream[]): void {
    this.#observer?.onCollectives(collectives);
    this.#reports.deliver();
  }

  /** Notes that an allocator has handed out a part of its memory, which the driver does not see. */
  partAllocated(stream: StreamHandle, part: MemoryRange): void {
    this.#observer?.partAllocated(stream, part);
  }

  /** Notes that an allocator has got a part back, for use after the work of a stream. */
  partFreed(stream: StreamHandle, address: bigint): void {
    this.#observer?.partFreed(stream, address);
  }

  /**
   * Notes memory that was not freed before its pool or allocator was disposed. It is a leak unless it is freed later.
   *
   * @returns whether that is looked for
   */
  addUnfreed(...unfreed: readonly UnfreedMemory[]): boolean {
    if (!this.#checks.has("leak")) return false;
    this.#unfreed.add(unfreed);
    return true;
  }

  /**
   * Reports memory that was not freed, if that is looked for.
   *
   * @param before what has ended its use: "the Cuda object was disposed"
   * @returns whether it is looked for
   */
  reportLeaks(unfreed: readonly UnfreedMemory[], before: string): boolean {
    if (!this.addUnfreed(...unfreed)) return false;
    for (const leak of this.#unfreed.leaks()) this.#reports.addLeak(leak, before);
    for (const heap of this.#observer?.unfreedHeap() ?? []) this.#reports.addHeapLeak(heap, before);
    this.#reports.deliver();
    return true;
  }

  /** Calls back before the process ends, unless `finish` comes first. */
  beforeProcessEnd(report: () => void): void {
    this.#beforeEnd = report;
  }

  /**
   * Notes a wait for an event that was never recorded.
   *
   * @param wait who waits, and for what: "a stream waits for an event of device 0"
   * @param created where the event was created
   */
  reportUnrecordedWait(wait: string, created: string): void {
    this.#reports.addUnrecordedEvent({ wait, site: callSiteHere(), created: { stack: created } });
    this.#reports.deliver();
  }

  #hostReads(source: ArrayBufferView | ArrayBuffer, operation: string): void {
    this.#observer?.hostRead(bytesOf(source), operation);
    this.#reports.deliver();
  }

  /**
   * Ends it.
   *
   * @param called by the program: the stack of the error begins with its caller
   * @throws {SanitizerError} If there were reports, and nobody has got them
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

  /** Sums up what was found, if the program has not disposed of the `Cuda` object. */
  #endWithProcess(hasFailed: boolean): void {
    // A program that stops in the middle leaves everything.
    if (!hasFailed) this.#beforeEnd();
    this.#reports.deliver();
    const { all } = this.#reports;
    if (!this.#hasListener && all.length > 0) print(`poolpass sanitizer: ${summaryOf(all)}`);
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

/** Prints lines. Names and files in them may come from PTX or from other processes. */
function print(text: string): void {
  console.error(escapeControlsInLines(text));
}

function isSanitizerError(error: unknown): boolean {
  return error instanceof SanitizerError;
}

const watched = new WeakSet<Suppressions>();

/** Tells at the end of the process which suppressions were of no use. */
function warnOfUnused(suppressions: Suppressions): void {
  if (watched.has(suppressions)) return;
  watched.add(suppressions);
  atProcessEnd(() => {
    if (suppressions.unused.length > 0) print(`poolpass sanitizer: ${unusedOf(suppressions)}`);
  });
}

/** The checks to make. */
export interface WantedChecks {
  readonly checks: ReadonlySet<SanitizerCheck>;
  /** What names them. Undefined if all are wanted that can be made. */
  readonly namedBy: string | undefined;
}

const allChecks: WantedChecks = { checks: new Set(availableChecks), namedBy: undefined };

/**
 * The checks that are asked for. Undefined if there are none.
 *
 * @param option of `open`
 * @param variable the value of POOLPASS_SANITIZE, which counts without the option
 * @throws {TypeError} If the option has the wrong type
 * @throws {RangeError} If there is no such check
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

/** Those of the checks that look at what the threads of kernels do. */
export function kernelChecksAmong({ checks }: WantedChecks): ReadonlySet<KernelCheck> {
  return new Set(kernelChecks.filter((check) => checks.has(check)));
}

/**
 * Refuses checks that are asked for by their names and that a driver does not make.
 *
 * @throws {RangeError} If there is one
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
