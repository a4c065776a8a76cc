/**
 * Threads that wait, as messages name them.
 *
 * @module
 */
import type { Suspension } from "../../abi/launch_record.ts";

/** Threads that wait at the same place. */
export interface WaitingThreads {
  /** Their numbers in the block: `0-31, 40`. */
  readonly threads: string;
  readonly isOne: boolean;
  /** The first of them. */
  readonly first: number;
  readonly suspension: Suspension;
}

/** Thrown if no thread of a block can run. */
export class DeadlockError extends Error {
  override readonly name = "DeadlockError";
  /** The line where the first thread waits. */
  readonly line: number;
  readonly #waiting: readonly WaitingThreads[];

  constructor(waiting: readonly WaitingThreads[]) {
    super();
    this.line = waiting[0]!.suspension.line;
    this.#waiting = waiting;
    this.message = this.describe((line) => `line ${line}`);
  }

  /** Describes where the threads wait. */
  describe(nameLine: (line: number) => string): string {
    const places = describeWaiting(this.#waiting, nameLine);
    return `all threads of the block that have not exited wait, and none can continue: ${places}`;
  }
}

/** Describes which threads wait where. */
export function describeWaiting(waiting: readonly WaitingThreads[], nameLine: (line: number) => string): string {
  return waiting.map(({ threads, isOne, suspension: { line, request } }) => {
    const kind = request.kind === "yield" || request.kind === "lockstep" ? "loop" : request.kind;
    return `${isOne ? "thread" : "threads"} ${threads} at ${nameLine(line)} (${kind})`;
  }).join(", ");
}

/** Ascending numbers as ranges: `0-31, 40`. */
export function ranges(numbers: readonly number[]): string {
  const texts: string[] = [];
  for (let begin = 0, end = 0; begin < numbers.length; begin = ++end) {
    while (numbers[end + 1] === numbers[end]! + 1) end++;
    texts.push(begin === end ? `${numbers[begin]}` : `${numbers[begin]}-${numbers[end]}`);
  }
  return texts.join(", ");
}
