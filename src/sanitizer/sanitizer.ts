/**
 * The sanitizer of a `Cuda` object.
 *
 * @module
 */
import type { Driver, MemoryRange } from "../driver.ts";
import { listOf } from "../support/printing.ts";
import { shown, whatIs } from "../support/validation.ts";
import { callSiteHere } from "./call_sites.ts";
import { observedDriver, Observer, type StreamHandle } from "./observed_driver.ts";
import { Reports } from "./reports.ts";
import { type SanitizerCheck, SanitizerError, type SanitizerReport } from "./sanitizer_report.ts";

/** The checks that can be made. */
const availableChecks: readonly SanitizerCheck[] = ["stream-order"];

interface Process {
  exitCode?: number | string | undefined;
}

/** Those that have found something of which nobody was told by an error yet. */
const unfinished = new Set<Sanitizer>();
let isFailing = false;
let exitCodeBefore: number | string | undefined;

/** Looks for mistakes in what a program does with a driver. */
export class Sanitizer {
  readonly #reports: Reports;
  readonly #hasListener: boolean;
  #observer: Observer | undefined;

  /** @param onReport gets every report; by default, each is printed, and `finish` throws them */
  constructor(onReport: ((report: SanitizerReport) => void) | undefined) {
    this.#hasListener = onReport !== undefined;
    this.#reports = new Reports(onReport ?? ((report) => this.#print(report)));
  }

  /** Returns a driver that does the same and is looked at. */
  observe(driver: Driver): Driver {
    this.#observer = new Observer(driver, this.#reports);
    return observedDriver(driver, this.#observer, this.#reports);
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
   * Notes a wait for an event that was never recorded.
   *
   * @param wait who waits, and for what: "a stream waits for an event of device 0"
   * @param created where the event was created
   */
  waitedForNothing(wait: string, created: string): void {
    this.#reports.addUnrecordedEvent({ wait, site: callSiteHere(), created: { stack: created } });
    this.#reports.deliver();
  }

  /**
   * Ends it.
   *
   * @throws {SanitizerError} If there were reports, and nobody has got them
   */
  finish(): void {
    this.#reports.deliver();
    unfinished.delete(this);
    setExitCode();
    const { all } = this.#reports;
    if (!this.#hasListener && all.length > 0) throw new SanitizerError(all);
  }

  #print(report: SanitizerReport): void {
    console.error(report.message);
    unfinished.add(this);
    setExitCode();
  }
}

/** Lets the process fail while there are reports that no error has told: it may end at any time. */
function setExitCode(): void {
  const { process } = globalThis as unknown as { process?: Process };
  if (process === undefined || (unfinished.size > 0) === isFailing) return;
  isFailing = unfinished.size > 0;
  if (isFailing) exitCodeBefore = process.exitCode;
  // Bun keeps the code if it is set to undefined.
  process.exitCode = isFailing ? 1 : exitCodeBefore ?? 0;
}

/**
 * Whether the checks that are asked for are to be made.
 *
 * @param option of `open`
 * @param variable the value of POOLPASS_SANITIZE, which counts without the option
 * @throws {TypeError} If the option has the wrong type
 * @throws {RangeError} If there is no such check
 */
export function wantsSanitizer(option: unknown, variable: string | undefined): boolean {
  if (option !== undefined) {
    if (typeof option === "boolean") return option;
    if (!Array.isArray(option)) {
      throw new TypeError(`Cannot sanitize ${whatIs(option)}: give true, or an array of checks`);
    }
    return checksAmong(option, "sanitize");
  }
  if (variable === undefined || variable === "" || variable === "0") return false;
  return variable === "1" || checksAmong(variable.split(","), "POOLPASS_SANITIZE");
}

function checksAmong(names: readonly unknown[], where: string): boolean {
  for (const name of names) {
    if (availableChecks.some((check) => check === name)) continue;
    const known = listOf(availableChecks.map((check) => `"${check}"`));
    throw new RangeError(`Cannot make the check ${shown(name)} of ${where}: the checks are ${known}`);
  }
  return names.length > 0;
}
