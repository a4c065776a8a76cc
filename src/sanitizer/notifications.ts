/**
 * Notifies the sanitizer of events that no driver call shows: the library's reads of the program's own memory, and its
 * connections to other processes, which may order the work of this process. The state is global, because structs are
 * decoded and sockets are connected without a `Cuda` object, and because connections may be older than the sanitizer.
 *
 * @module
 */

/** Called before the library reads memory of the program. `operation` is the name of the call: `"decode"`. */
export type HostReadObserver = (source: ArrayBufferView | ArrayBuffer, operation: string) => void;

const observers = new Set<HostReadObserver>();

/** The maximum size of `pids`. */
const maximum = 4096;
/**
 * The maximum number of processes that a call of `endedProcesses` checks. If this many are still running, the sanitizer
 * suppresses reports of conflicts between processes in any case, so the remaining processes need no check.
 */
const maximumAsked = 8;
/**
 * The process IDs of all processes that have ever connected to this process, except those that are known to have
 * exited.
 */
const pids = new Set<number>();
/** The number of connections of this process so far. */
let connections = 0;
/** The process IDs of connected processes that are known to have exited, in the order of detection. */
const ended: number[] = [];

/** Registers an observer for reads of host memory. Returns a function that removes the observer. */
export function observeHostReads(observer: HostReadObserver): () => void {
  observers.add(observer);
  return () => void observers.delete(observer);
}

/** Notifies the observers that the call `operation` of the library is about to read memory of the program. */
export function noteHostRead(source: ArrayBufferView | ArrayBuffer, operation: string): void {
  if (observers.size === 0) return;
  for (const observer of observers) observer(source, operation);
}

/** Records a connection to a process. `pid` is 0 if the process is not visible in this process's PID namespace. */
export function noteConnection(pid: number): void {
  connections++;
  if (pids.size < maximum) pids.add(pid);
}

/** Returns the number of connections so far. */
export function connectionCount(): number {
  return connections;
}

/** Returns the process IDs of all connected processes, except those that are known to have exited. */
export function connectedProcesses(): ReadonlySet<number> {
  return pids;
}

/** Returns whether the set of connected processes is full, so that it may lack some of them. */
export function hasManyConnections(): boolean {
  return pids.size >= maximum;
}

/**
 * Checks some of the connected processes. Returns the IDs of all that are known to have exited, in the order of
 * detection. Each call returns the same growing array.
 *
 * @param options.isLeftOut returns whether to skip a process
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
