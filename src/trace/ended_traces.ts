import type { Trace, TraceEvent } from "./read_trace.ts";

/** A trace all of whose events have ended. */
export interface EndedTrace extends Trace {
  /** The time of the last event that has ended. */
  readonly last: number;
  /** The time at which the process ended; that of the last event of all traces if it is not known. */
  readonly end: number;
  /** The events by which other processes knew that this one had ended. */
  readonly noticed: readonly TraceEvent[];
  /** Whether the process has closed CUDA, as a process does that ends in order. */
  readonly isClosed: boolean;
}

/** Ends the events that have not ended when their process did. */
export function endedTraces(traces: readonly Trace[]): EndedTrace[] {
  const losses = new Map<number, TraceEvent[]>();
  for (const { events, texts } of traces) {
    for (const event of events) {
      const isConnection = event.name === "connection lost";
      if (!isConnection && event.name !== "commRevoke") continue;
      const { lost, peer, why } = event.values;
      const pid = isConnection ? peer : lost;
      if (!pid || isConnection && texts.get(why ?? 0) !== "peer-gone") continue;
      const known = losses.get(pid);
      if (known === undefined) losses.set(pid, [event]);
      else known.push(event);
    }
  }
  const ends = traces.map(({ events }) => endOf(events));
  const last = ends.reduce((last, end) => Math.max(last, end), 0);
  return traces.map((trace, index) => {
    const isClosed = hasClosed(trace.events);
    const own = ends[index]!;
    // A connection also ends when the other process closes it, and goes on with other work.
    const noticed = isClosed ? [] : (losses.get(trace.process.pid) ?? []).filter(({ begin }) => begin >= own);
    const end = isClosed ? own : noticed.reduce((first, { begin }) => Math.min(first, begin), last);
    const events = trace.events.map((event) => event.hasEnded ? event : event.endingAt(end));
    return { ...trace, events, last: own, end, noticed, isClosed };
  });
}

/**
 * Returns whether a process has closed CUDA and not used it afterwards: another `Cuda` object may be open. Messages,
 * releases of entries and the ends of ranges may follow.
 */
function hasClosed(events: readonly TraceEvent[]): boolean {
  const mayFollow = (event: TraceEvent) =>
    event.name === "range" || event.value("peer") !== undefined || event.value("entry") !== undefined;
  return events.findLast((event) => !mayFollow(event))?.name === "close";
}

/** Returns the time of the last of some events. */
function endOf(events: readonly TraceEvent[]): number {
  return events.reduce((last, { begin, duration }) => Math.max(last, begin + duration), 0);
}
