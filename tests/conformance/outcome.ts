/**
 * The result of a row, as it is recorded and compared.
 *
 * @module
 */
import { isDeepStrictEqual } from "node:util";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import type { Answer, Situation } from "./situation.ts";

/** A result that can be recorded. */
export type Outcome =
  | { readonly answer: Answer }
  /** The code of a CudaError. */
  | { readonly error: string }
  /** The error of a public object: the name of its class, and for a SharingError also its code. */
  | { readonly refusal: string }
  /** The signal that ended the process. */
  | { readonly crash: string }
  /** The row was still running at its time limit. */
  | { readonly hang: true };

/** The result of a row, or the error of a row that is itself broken. Such an error is never recorded. */
export type Result = Outcome | { readonly failure: string };

/** Returns the outcome of a row that returned. */
export function outcomeOfAnswer(answer: Answer | void): Outcome {
  return { answer: answer ?? null };
}

/** Returns the result of a row that threw. */
export function resultOfError(error: unknown): Result {
  if (error instanceof CudaError) return { error: error.code };
  if (error instanceof SharingError) return { refusal: `SharingError:${error.code}` };
  if (error instanceof Error && isRefusal(error)) return { refusal: error.name };
  return { failure: error instanceof Error ? error.stack ?? error.message : String(error) };
}

/** Returns the outcome that CUDA's documentation gives for a row, or undefined if the row names none. */
export function documentedOutcome({ documented }: Situation): Outcome | undefined {
  if (documented === undefined) return undefined;
  const { answer } = documented;
  return isError(answer) ? answer : outcomeOfAnswer(answer);
}

/** Whether two results are equal. */
export function isSame(first: Result, second: Result): boolean {
  return isDeepStrictEqual(throughJson(first), throughJson(second));
}

/**
 * Whether a public object refused a call. Its errors begin with "Cannot", as do some errors that the runtimes throw for
 * mistakes in a program, which do not count.
 */
function isRefusal(error: Error): boolean {
  return ["TypeError", "RangeError", "ReferenceError"].includes(error.name) &&
    /^Cannot (?!read properties|set properties|mix|convert|access|destructure)/.test(error.message);
}

function isError(answer: Answer | { readonly error: string }): answer is { readonly error: string } {
  return typeof answer === "object" && answer !== null && "error" in answer && Object.keys(answer).length === 1;
}

/** Returns the result as it is after a round trip through JSON. */
function throughJson(result: Result): unknown {
  return JSON.parse(JSON.stringify(result));
}
