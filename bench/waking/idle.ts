/**
 * Measures what idling costs.
 *
 * @module
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

/** Milliseconds until the work after connecting has ended: timers, compilation, garbage collection. */
const settleMilliseconds = 300;
const idleMilliseconds = 2000;

/** Resolves to the share of one processor that this process uses while it waits and nothing happens. */
export async function idleShare(): Promise<number> {
  await sleep(settleMilliseconds);
  const start = performance.now();
  const before = process.cpuUsage();
  await sleep(idleMilliseconds);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / (performance.now() - start);
}
