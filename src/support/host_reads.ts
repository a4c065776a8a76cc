/**
 * What the library reads of the program's own memory, for whoever looks at the order of that.
 *
 * @module
 */

/** Called before the memory is read. `operation` is the call: `"decode"`. */
export type HostReadObserver = (source: ArrayBufferView | ArrayBuffer, operation: string) => void;

const observers = new Set<HostReadObserver>();

/** Looks at all reads until the returned function is called. */
export function observeHostReads(observer: HostReadObserver): () => void {
  observers.add(observer);
  return () => void observers.delete(observer);
}

/** Says that a call is about to read memory of the program. */
export function noteHostRead(source: ArrayBufferView | ArrayBuffer, operation: string): void {
  if (observers.size === 0) return;
  for (const observer of observers) observer(source, operation);
}
