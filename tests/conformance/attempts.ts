/**
 * Runs the several calls of a row and collects a result for each, under the call's name.
 *
 * @module
 */
import { resultOfError } from "./outcome.ts";
import type { Answer } from "./situation.ts";

/** The results of several calls, by name. */
export interface Attempts {
  [name: string]: Answer;
}

/**
 * Makes each call and returns the results: the call's value if it is a string, a number or a boolean; "done" for a
 * handle, an address or no value; or the name of the error that it threw, which is the code of a CUDA error or the
 * class of a refusal. Calls are made in the order of their names in `calls`, where whole numbers come first.
 */
export function attemptEach(calls: Readonly<Record<string, () => unknown>>): Attempts {
  const answers: Attempts = {};
  for (const [name, call] of Object.entries(calls)) {
    try {
      answers[name] = comparable(call());
    } catch (error) {
      answers[name] = nameOf(error);
    }
  }
  return answers;
}

/** Like `attemptEach`, for asynchronous calls, such as those of another process. Awaits each call before the next. */
export async function attemptEachAsync(calls: Readonly<Record<string, () => unknown>>): Promise<Attempts> {
  const answers: Attempts = {};
  for (const [name, call] of Object.entries(calls)) {
    try {
      answers[name] = comparable(await call());
    } catch (error) {
      answers[name] = nameOf(error);
    }
  }
  return answers;
}

function comparable(value: unknown): Answer {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : "done";
}

function nameOf(error: unknown): string {
  const result = resultOfError(error);
  if ("error" in result) return result.error;
  if ("refusal" in result) return result.refusal;
  // An error of any other kind is a mistake in the row.
  throw error;
}
