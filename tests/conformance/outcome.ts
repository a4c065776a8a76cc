/**
 * What came of a row, as it is recorded and compared.
 *
 * @module
 */
import { isDeepStrictEqual } from "node:util";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import type { Answer, Situation } from "./situation.ts";

/** What can be recorded of a row. */
export type Outcome =
  | { readonly answer: Answer }
  /** The code of a CudaError. */
  | { readonly error: string }
  /** What a public object refused with: the name of the error's class, and for a SharingError its code. */
  | { readonly refusal: string }
  /** The signal that ended the process. */
  | { readonly crash: string }
  /** It was still running at its limit. */
  | { readonly hang: true };

/** What came of a row, or what went wrong in the row itself: that is never recorded. */
export type Result = Outcome | { readonly failure: string };

/** What a row that returned came to. */
export function outcomeOfAnswer(answer: Answer | void): Outcome {
  return { answer: answer ?? null };
}

/** What a row that threw came to. */
export function resultOfError(error: unknown): Result {
  if (error instanceof CudaError) return { error: error.code };
  if (error instanceof SharingError) return { refusal: `SharingError:${error.code}` };
  if (error instanceof Error && isRefusal(error)) return { refusal: error.name };
  return { failure: error instanceof Error ? error.stack ?? error.message : String(error) };
}

/** What a row comes to by the documentation; undefined where it names none. */
export function documentedOutcome({ documented }: Situation): Outcome | undefined {
  if (documented === undefined) return undefined;
  const { answer } = documented;
  return isError(answer) ? answer : outcomeOfAnswer(answer);
}

/** Whether two outcomes are the same. */
export function isSame(first: Result, second: Result): boolean {
  return isDeepStrictEqual(plain(first), plain(second));
}

/** A refusal says what cannot be done; the runtimes say much the same of a mistake in the program. */
function isRefusal(error: Error): boolean {
  return ["TypeError", "RangeError", "ReferenceError"].includes(error.name) &&
    /^Cannot (?!read properties|set properties|mix|convert|access|destructure)/.test(error.message);
}

function isError(answer: Answer | { readonly error: string }): answer is { readonly error: string } {
  return typeof answer === "object" && answer !== null && "error" in answer && Object.keys(answer).length === 1;
}

/** As it is once it has been through JSON. */
function plain(result: Result): unknown {
  return JSON.parse(JSON.stringify(result));
}
