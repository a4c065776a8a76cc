/**
 * What the sanitizer finds.
 *
 * @module
 */
import { summaryOf } from "./summary.ts";

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
    super(`The sanitizer has found ${summaryOf(reports)}; each was printed when it was found`);
    this.#reports = reports;
  }

  /** What was found: each mistake once. Runtimes do not print it with the error: each was printed before. */
  get reports(): readonly SanitizerReport[] {
    return this.#reports;
  }
}
