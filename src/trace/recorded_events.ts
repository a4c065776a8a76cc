import type { Trace, TraceEvent } from "./read_trace.ts";

/** The records of an event of CUDA and the waits for it, from its creation until its handle stands for another event. */
interface EventUses {
  /** The number that stands for the event in all processes; undefined if no other process uses it. */
  shared: number | undefined;
  readonly uses: TraceEvent[];
}

const records: ReadonlySet<string> = new Set(["eventRecord", "eventRecordWithFlags"]);
const waits: ReadonlySet<string> = new Set(["streamWaitEvent", "eventSynchronize", "eventQuery", "wait for event"]);
/** The calls that return the handle of another event. */
const creations: ReadonlySet<string> = new Set(["eventCreateWithFlags", "ipcOpenEventHandle"]);
/** The calls that name an event of several processes. */
const sharings: ReadonlySet<string> = new Set(["ipcGetEventHandle", "ipcOpenEventHandle"]);

/** Returns each record that something waits for, followed by these waits, which may be those of other processes. */
export function recordsWithWaits(traces: readonly Trace[]): TraceEvent[][] {
  const shared = new Map<number, TraceEvent[]>();
  const found: TraceEvent[][] = [];
  for (const trace of traces) {
    for (const { shared: number, uses } of usesOf(trace)) {
      if (number === undefined) addRecords(found, uses);
      else {
        const known = shared.get(number);
        if (known === undefined) shared.set(number, [...uses]);
        else for (const use of uses) known.push(use);
      }
    }
  }
  for (const uses of shared.values()) addRecords(found, uses.sort((a, b) => a.begin - b.begin));
  return found;
}

/** Returns the uses of each event of a process. */
function usesOf({ events, sharedEvents }: Trace): EventUses[] {
  const current = new Map<number, EventUses>();
  const all: EventUses[] = [];
  const begin = (handle: number, shared: number | undefined): EventUses => {
    const event: EventUses = { shared, uses: [] };
    current.set(handle, event);
    all.push(event);
    return event;
  };
  for (const event of events) {
    const { name } = event;
    const isUse = records.has(name) || waits.has(name);
    if (!isUse && !creations.has(name) && !sharings.has(name)) continue;
    const handle = event.value("event") ?? 0;
    // Newer events may have replaced those of the creation.
    const known = creations.has(name)
      ? begin(handle, undefined)
      : current.get(handle) ?? begin(handle, sharedEvents.get(handle));
    if (isUse) known.uses.push(event);
    else if (sharings.has(name)) known.shared = event.value("handle");
  }
  return all;
}

/** Divides the uses of an event at its records. */
function addRecords(found: TraceEvent[][], uses: readonly TraceEvent[]): void {
  let current: TraceEvent[] | undefined;
  for (const use of uses) {
    if (records.has(use.name)) current = [use];
    else if (current !== undefined && current.push(use) === 2) found.push(current);
  }
}
