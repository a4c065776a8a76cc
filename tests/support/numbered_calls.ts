/**
 * Lets a report say which step of a program an operation is: each step calls from a line of its own.
 *
 * @module
 */

const firstLine = 10;
// Each on its line. Without `void`, an engine may drop the frame.
const calls = [
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
  (call: () => void) => void call(),
];

/** The most steps that are told apart. */
export const maximumCalls: number = calls.length;

/** Calls a function as a step. */
export function callAs(step: number, call: () => void): void {
  calls[step]!(call);
}

/** The step that a stack leads to. */
export function stepOf(stack: string): number | undefined {
  const line = /numbered_calls\.ts:(\d+)/.exec(stack)?.[1];
  return line === undefined ? undefined : Number(line) - firstLine;
}
