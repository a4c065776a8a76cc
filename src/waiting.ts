/**
 * The one place where the library waits for a GPU without blocking the event loop.
 *
 * CUDA has no descriptor to wait on, and a native call parked for each stream would use up the runtime's few threads:
 * so the driver is asked again and again, first at every turn of the event loop, later once in a millisecond.
 *
 * @module
 */

import { nextTurn } from "./turn.ts";

/** May be ended early. */
export interface WaitOptions {
  /** Ends the wait, not the work: the promise rejects with the signal's reason. */
  signal?: AbortSignal;
}

const eagerMilliseconds = 2;

/** Resolves once `isDone` returns true. Rejects with what it throws, or with the reason of an aborted signal. */
export async function waitUntil(isDone: () => boolean, { signal }: WaitOptions = {}): Promise<void> {
  signal?.throwIfAborted();
  const eagerEnd = performance.now() + eagerMilliseconds;
  while (!isDone()) {
    await (performance.now() < eagerEnd ? nextTurn() : nextMillisecond());
    signal?.throwIfAborted();
  }
}

function nextMillisecond(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}
