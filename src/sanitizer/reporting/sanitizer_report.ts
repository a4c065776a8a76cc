/**
 * The public types of reports, and their summary in one line.
 *
 * @module
 */
import { countOf, listOf } from "../../support/printing.ts";
import { shortLocationOf } from "./call_stacks.ts";

/** A check of the sanitizer. */
export type SanitizerCheck = "stream-order" | "memory" | "initialization" | "race" | "synchronization" | "leak";

/** One of the operations that a report is about. */
export interface SanitizerAccess {
  /** The name of the call: `"kernel saxpy"`, `"copyFrom"`, `"read"`, `"fill"`, `"allocate"` or `"free"`. */
  readonly operation: string;
  /** How the operation accesses the memory. */
  readonly access: "read" | "write" | "atomic" | "allocate" | "free" | "barrier";
  /** The operation's stream, such as `"stream 1 of device 0"`. Undefined for an operation of the host. */
  readonly stream: string | undefined;
  /**
   * The call stack in the program from which the operation was called, without the library's own frames. One line per
   * frame.
   */
  readonly stack: string;
  /** The call stack of the launch, if the operation is a part of a graph. `stack` is then where it was captured or added. */
  readonly launched?: string;
  /** The index of the accessing thread's block, if it is known. */
  readonly block?: readonly [x: number, y: number, z: number];
  /** The index of the accessing thread in its block, if it is known. */
  readonly thread?: readonly [x: number, y: number, z: number];
  /** The accessing line of the kernel: `"saxpy.cu:12"` if the PTX has line information, otherwise `"PTX line 31"`. */
  readonly source?: string;
  /** The process ID, if the operation belongs to another process. */
  readonly pid?: number;
}

/** A mistake that the sanitizer has found in a program. */
export interface SanitizerReport {
  /** The check that found the mistake. */
  readonly check: SanitizerCheck;
  /** The kind of mistake: `"use-after-free"`, `"unordered-write-read"` and so on. */
  readonly kind: string;
  /** The complete report, which has several lines. */
  readonly message: string;
  /** The later access, followed by the earlier one if there are two. */
  readonly accesses: readonly SanitizerAccess[];
  /** The number of occurrences so far. Increases until the `Cuda` object is disposed. */
  readonly count: number;
}

/** Thrown when a `Cuda` object is disposed, if the sanitizer has found mistakes and there is no `onReport` listener. */
export class SanitizerError extends Error {
  /** The error's name. */
  override readonly name = "SanitizerError" as const;
  readonly #reports: readonly SanitizerReport[];

  /** Creates an error with the given reports. */
  constructor(reports: readonly SanitizerReport[]) {
    super(`The sanitizer has found ${summaryOfReports(reports)}; each was printed when it was found`);
    this.#reports = reports;
  }

  /**
   * The reports, one for each mistake. This is an accessor because runtimes print data properties along with an error.
   */
  get reports(): readonly SanitizerReport[] {
    return this.#reports;
  }
}

/**
 * Returns a summary in one line:
 * `3 mistakes: unordered-write-read at script.ts:14 (seen 12 times), script.ts:20; leak at script.ts:6`.
 */
export function summaryOfReports(reports: readonly SanitizerReport[]): string {
  const byKind = Array.from(Map.groupBy(reports, ({ kind }) => kind), ([kind, all]) => `${kind}${placesIn(all)}`);
  return `${countOf(reports.length, "mistake")}${byKind.length === 0 ? "" : `: ${byKind.join("; ")}`}`;
}

/** Returns the part of a summary that lists locations: ` at script.ts:14 (seen 12 times), script.ts:20`. */
function placesIn(reports: readonly SanitizerReport[]): string {
  const byPlace = Array.from(Map.groupBy(reports, shortLocationOf), ([place = "an unknown place", at]) => {
    return `${place}${at.length === 1 ? countIn(at[0]!) : ` (${countOf(at.length, "mistake")})`}`;
  });
  return ` at ${listOf(byPlace)}`;
}

/**
 * Returns the part of a summary that states a report's count, or "" if the count is 1. The count of a race is the
 * number of pairs of accesses.
 */
function countIn({ check, count }: SanitizerReport): string {
  return check === "race" && count > 1 ? ` (in ${count} pairs of accesses)` : timesOf(count);
}

/** Returns the part of a summary with a count: `" (seen 3 times)"`, or "" if the count is 1. */
export function timesOf(count: number): string {
  return count > 1 ? ` (seen ${count} times)` : "";
}
