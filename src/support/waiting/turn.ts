/** Calls back at the next turn of the event loop, without the delay of a timer. */
export function atNextTurn(callback: () => void): void {
  // All three runtimes have setImmediate, but the standard library's types do not declare it.
  const { setImmediate } = globalThis as unknown as { setImmediate(callback: () => void): void };
  setImmediate(callback);
}

/** Resolves at the next turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise(atNextTurn);
}
