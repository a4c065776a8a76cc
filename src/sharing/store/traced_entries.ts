import { currentRecorder } from "../../trace/open_trace.ts";
import { noDeviceByte } from "../../trace/trace_format.ts";

/** What a process does with an entry of a store. */
type EntryEvent = "create entry" | "publish entry" | "map entry" | "sleep entry" | "wake entry" | "unmap entry";

/** What is recorded of an entry, as far as it is known. */
interface TracedEntry {
  readonly name?: string;
  readonly generation?: number;
  readonly byteLength?: number;
}

/**
 * Records what this process does with an entry of a store, if a trace is recorded.
 *
 * @param entry the number of the entry's memory, which is the same in all processes
 */
export function traceEntry(
  event: EntryEvent,
  entry: number,
  { name, generation = 0, byteLength = 0 }: TracedEntry = {},
): void {
  const recorder = currentRecorder();
  if (recorder === undefined) return;
  const kind = recorder.kind({ name: event, values: ["entry", "name", "generation", "byteLength"] });
  recorder.instant(kind, entry, name === undefined ? 0 : recorder.text(name), generation, byteLength);
}

/** Waits for an entry of a store, and records how long that takes. */
export function tracedWait<Result>(name: string, wait: () => Promise<Result>): Promise<Result> {
  const recorder = currentRecorder();
  return recorder === undefined ? wait() : recorder.wait("entry", recorder.text(name), noDeviceByte, wait);
}
