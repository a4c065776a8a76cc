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

/** The maximum number of connected processes in `pids`. */
const maximum = 4096;
/**
 * The maximum number of processes that one call of `endedProcesses` checks. While those are running, the sanitizer
 * reports nothing between processes anyway, so the state of the remaining ones does not matter.
 */
const maximumAsked = 8;
/** The processes that this process has ever connected to, without those that are known to have ended. */
const pids = new Set<number>();
/** The number of connections so far. */
let connections = 0;
/** The connected processes that are known to have ended, in the order in which that was detected. */
const ended: number[] = [];

/** Registers an observer of host reads. Returns a function that removes it. */
export function observeHostReads(observer: HostReadObserver): () => void {
  observers.add(observer);
  return () => void observers.delete(observer);
}

/** Notifies the observers that a call is about to read memory of the program. */
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

/** Returns the connected processes, without those that are known to have ended. */
export function connectedProcesses(): ReadonlySet<number> {
  return pids;
}

/** Returns whether the set of connected processes is full, so that some may be missing. */
export function hasManyConnections(): boolean {
  return pids.size >= maximum;
}

/**
 * Checks some of the connected processes, and returns all that are known to have ended, in the order in which that was
 * detected. The returned array is reused and grows.
 *
 * @param options.isLeftOut returns whether a process needs no check
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
