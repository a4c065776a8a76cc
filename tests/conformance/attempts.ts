/**
 * Calls of which a row's answer has several, each under a name of its own.
 *
 * @module
 */
import { resultOfError } from "./outcome.ts";
import type { Answer } from "./situation.ts";

/** The answers of several calls. */
export interface Attempts {
  [name: string]: Answer;
}

/**
 * What each call gave, in their order (but whole numbers as names come first): its value, "done" for a handle, an address
 * or nothing, or what it failed with: the name of a CUDA error, or of the class of a refusal.
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

/** The same of calls that may take their time, as those of another process do: one after the other. */
export async function attemptEachInTurn(calls: Readonly<Record<string, () => unknown>>): Promise<Attempts> {
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
  // A mistake in the row.
  throw error;
}
