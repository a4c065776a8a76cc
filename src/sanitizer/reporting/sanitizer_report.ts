/**
 * The public types of reports, and their summary in one line.
 *
 * @module
 */
import { countOf, listOf } from "../../support/printing.ts";
import { shortLocationOf } from "./call_sites.ts";

/** A kind of check. */
export type SanitizerCheck = "stream-order" | "memory" | "initialization" | "race" | "synchronization" | "leak";

/** One of the operations that a report is about. */
export interface SanitizerAccess {
  /** The name of the call: `"kernel saxpy"`, `"copyFrom"`, `"read"`, `"fill"`, `"allocate"` or `"free"`. */
  readonly operation: string;
  /** How the operation accesses the memory. */
  readonly access: "read" | "write" | "atomic" | "allocate" | "free" | "barrier";
  /** The stream of the operation, such as `"stream 1 of device 0"`. Undefined for an operation of the host. */
  readonly stream: string | undefined;
  /** The lines of the operation's call stack in TypeScript, without the library's own frames. */
  readonly stack: string;
  /** The block of the thread in the kernel, if it is known. */
  readonly block?: readonly [x: number, y: number, z: number];
  /** The thread in its block, if it is known. */
  readonly thread?: readonly [x: number, y: number, z: number];
  /** The source line in the kernel: `"saxpy.cu:12"` if the PTX has line info, else `"PTX line 31"`. */
  readonly source?: string;
  /** The id of the process, if the operation is of another process. */
  readonly pid?: number;
}

/** A mistake that the sanitizer has found in a program. */
export interface SanitizerReport {
  /** The check that found the mistake. */
  readonly check: SanitizerCheck;
  /** The kind of mistake: `"use-after-free"`, `"unordered-write-read"` and so on. */
  readonly kind: string;
  /** The complete report as text of several lines. */
  readonly message: string;
  /** The later access, then the earlier one. */
  readonly accesses: readonly SanitizerAccess[];
  /** How often the mistake was seen so far. Grows until the `Cuda` object is disposed. */
  readonly count: number;
}

/** Thrown when a `Cuda` object without `onReport` is disposed and the sanitizer has found mistakes. */
export class SanitizerError extends Error {
  /** The error's name. */
  override readonly name = "SanitizerError" as const;
  readonly #reports: readonly SanitizerReport[];

  /** Creates an error with the given reports. */
  constructor(reports: readonly SanitizerReport[]) {
    super(`The sanitizer has found ${summaryOfReports(reports)}; each was printed when it was found`);
    this.#reports = reports;
  }

  /** The reports, one per mistake. An accessor, so that runtimes do not print them again with the error. */
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

/** Returns the suffix with the locations: ` at script.ts:14 (seen 12 times), script.ts:20`. */
function placesIn(reports: readonly SanitizerReport[]): string {
  const byPlace = Array.from(Map.groupBy(reports, shortLocationOf), ([place = "an unknown place", at]) => {
    return `${place}${at.length === 1 ? countIn(at[0]!) : ` (${countOf(at.length, "mistake")})`}`;
  });
  return ` at ${listOf(byPlace)}`;
}

/** Returns a suffix with the count of a report. The count of a race is the number of conflicting access pairs. */
function countIn({ check, count }: SanitizerReport): string {
  return check === "race" && count > 1 ? ` (in ${count} pairs of accesses)` : timesOf(count);
}

/** Returns a suffix for a count: `" (seen 3 times)"`, empty for 1. */
export function timesOf(count: number): string {
  return count > 1 ? ` (seen ${count} times)` : "";
}
