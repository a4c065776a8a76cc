/**
 * The processes that this one is connected to, or was until they ended, which the sanitizer asks for.
 *
 * @module
 */

/** A process with more is not worth counting. */
const maximum = 4096;
/** How many are asked for each time: as long as those run, it does not matter whether others do. */
const maximumAsked = 8;
const pids = new Set<number>();
let connections = 0;
/** Those that were found to have ended, in that order. */
const ended: number[] = [];

/** Notes a connection to a process, by its number, which is 0 for one that cannot be seen. */
export function noteConnection(pid: number): void {
  connections++;
  if (pids.size < maximum) pids.add(pid);
}

/** Counts the connections. */
export function connectionCount(): number {
  return connections;
}

/** The processes that were connected, but for those that are known to have ended. */
export function connectedProcesses(): ReadonlySet<number> {
  return pids;
}

/** Whether there were too many to know them all. */
export function hasManyConnections(): boolean {
  return pids.size >= maximum;
}

/**
 * The processes that were found to have ended, in the order in which that was found. The list grows.
 *
 * @param options.isLeftOut says which are not asked for
 */
export function endedProcesses(
  { isLeftOut, hasEnded }: { isLeftOut: (pid: number) => boolean; hasEnded: (pid: number) => boolean },
): readonly number[] {
  let asked = 0;
  for (const pid of pids) {
    if (isLeftOut(pid)) continue;
    if (++asked > maximumAsked) break;
    if (!hasEnded(pid)) continue;
    pids.delete(pid);
    ended.push(pid);
  }
  return ended;
}
