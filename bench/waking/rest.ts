/**
 * Doing nothing, and what that costs.
 *
 * @module
 */
import process from "node:process";

/** Milliseconds until what a connection began with is over: timers, compilers, garbage. */
const settlingMilliseconds = 300;
const idleMilliseconds = 2000;

/** Lets the event loop turn for so long. */
export function rest(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** The part of a processor's time that this process takes while it waits for what does not happen. */
export async function idleShare(): Promise<number> {
  await rest(settlingMilliseconds);
  const start = performance.now();
  const before = process.cpuUsage();
  await rest(idleMilliseconds);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / (performance.now() - start);
}
