/**
 * Notifies the sanitizer of what no call of a driver shows: the library's reads of the program's own memory, and the
 * processes that it connects to, which may order this one's work. Neither belongs to a
 * session: structs are decoded and sockets are connected without one, and a sanitizer asks for connections that were made
 * before it was there.
 *
 * @module
 */

/** Called before memory of the program is read. `operation` is the call: `"decode"`. */
export type HostReadObserver = (source: ArrayBufferView | ArrayBuffer, operation: string) => void;

const observers = new Set<HostReadObserver>();

/** The most connected processes that are kept. */
const maximum = 4096;
/** The most processes that are checked at a time: as long as those run, whether others do makes no difference. */
const maximumAsked = 8;
/** The processes that this one is connected to, or was until they ended. */
const pids = new Set<number>();
let connections = 0;
/** The processes that were found to have ended, in the order in which they were found. */
const ended: number[] = [];

/** Calls an observer before each read, until the returned function is called. */
export function observeHostReads(observer: HostReadObserver): () => void {
  observers.add(observer);
  return () => void observers.delete(observer);
}

/** Notifies that a call is about to read memory of the program. */
export function noteHostRead(source: ArrayBufferView | ArrayBuffer, operation: string): void {
  if (observers.size === 0) return;
  for (const observer of observers) observer(source, operation);
}

/** Notifies of a connection to a process. Its pid is 0 if it is not visible from this one. */
export function noteConnection(pid: number): void {
  connections++;
  if (pids.size < maximum) pids.add(pid);
}

/** The number of connections so far. */
export function connectionCount(): number {
  return connections;
}

/** The connected processes, without those that are known to have ended. */
export function connectedProcesses(): ReadonlySet<number> {
  return pids;
}

/** Whether there were more connected processes than are kept. */
export function hasManyConnections(): boolean {
  return pids.size >= maximum;
}

/**
 * The processes that were found to have ended, in the order in which that was found. The list grows.
 *
 * @param options.isLeftOut whether a process is not to be checked
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
