/**
 * The processes that this one is or was connected to, which the sanitizer asks for.
 *
 * @module
 */

/** A process with more is not worth counting. */
const maximum = 4096;
const pids = new Set<number>();

/** Notes a connection to a process, by its number, which is 0 for one that cannot be seen. */
export function noteConnection(pid: number): void {
  if (pids.size < maximum) pids.add(pid);
}

/** The processes that were connected, in the order of their first connections. The set grows. */
export function connectedProcesses(): ReadonlySet<number> {
  return pids;
}

/** Whether there were too many to know them all. */
export function hasManyConnections(): boolean {
  return pids.size >= maximum;
}
