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
  /** What was called: `"kernel saxpy"`, `"copyFrom"`, `"read"`, `"fill"`, `"allocate"` or `"free"`. */
  readonly operation: string;
  /** What it does with the memory. */
  readonly access: "read" | "write" | "atomic" | "allocate" | "free" | "barrier";
  /** The stream that does it, such as `"stream 1 of device 0"`. Undefined if the host does. */
  readonly stream: string | undefined;
  /** Where it was called in TypeScript: lines of a call stack, without those of the library. */
  readonly stack: string;
  /** The block of the thread in the kernel, if it is known. */
  readonly block?: readonly [x: number, y: number, z: number];
  /** The thread in its block, if it is known. */
  readonly thread?: readonly [x: number, y: number, z: number];
  /** Where in the kernel: `"saxpy.cu:12"` where the PTX has line info, else `"PTX line 31"`. */
  readonly source?: string;
  /** The process, if it is another one. */
  readonly pid?: number;
}

/** A mistake in what a program did. */
export interface SanitizerReport {
  /** The check that found it. */
  readonly check: SanitizerCheck;
  /** Which mistake: `"use-after-free"`, `"unordered-write-read"` and so on. */
  readonly kind: string;
  /** All of it, in several lines, for a person. */
  readonly message: string;
  /** The later access, then the earlier one. */
  readonly accesses: readonly SanitizerAccess[];
  /** How often it was seen so far. Grows until the `Cuda` object is disposed. */
  readonly count: number;
}

/** Thrown when a `Cuda` object is disposed for which the sanitizer has found something, and `onReport` was not given. */
export class SanitizerError extends Error {
  /** The error's name. */
  override readonly name = "SanitizerError" as const;
  readonly #reports: readonly SanitizerReport[];

  /** Creates the error of some reports. */
  constructor(reports: readonly SanitizerReport[]) {
    super(`The sanitizer has found ${summaryOfReports(reports)}; each was printed when it was found`);
    this.#reports = reports;
  }

  /** What was found: each mistake once. Runtimes do not print it with the error: each was printed before. */
  get reports(): readonly SanitizerReport[] {
    return this.#reports;
  }
}

/** `3 mistakes: unordered-write-read at script.ts:14 (seen 12 times), script.ts:20; leak at script.ts:6`. */
export function summaryOfReports(reports: readonly SanitizerReport[]): string {
  const byKind = Array.from(Map.groupBy(reports, ({ kind }) => kind), ([kind, all]) => `${kind}${placesIn(all)}`);
  return `${countOf(reports.length, "mistake")}${byKind.length === 0 ? "" : `: ${byKind.join("; ")}`}`;
}

/** ` at script.ts:14 (seen 12 times), script.ts:20`. */
function placesIn(reports: readonly SanitizerReport[]): string {
  const byPlace = Array.from(Map.groupBy(reports, shortLocationOf), ([place = "an unknown place", at]) => {
    return `${place}${at.length === 1 ? countIn(at[0]!) : ` (${countOf(at.length, "mistake")})`}`;
  });
  return ` at ${listOf(byPlace)}`;
}

/** The count of races is one of pairs of accesses. */
function countIn({ check, count }: SanitizerReport): string {
  return check === "race" && count > 1 ? ` (in ${count} pairs of accesses)` : timesOf(count);
}

/** A suffix for a count: `" (seen 3 times)"`, empty for 1. */
export function timesOf(count: number): string {
  return count > 1 ? ` (seen ${count} times)` : "";
}
