import type { DetailWriter, TrackItem } from "./perfetto.ts";
import type { EndedTrace } from "./ended_traces.ts";
import type { TraceEvent } from "./read_trace.ts";
import { messagesPerConnection } from "./trace_format.ts";

/** What a process holds for some time: frames and leases of another one, or entries of a store. */
export interface HeldSlice extends Omit<TrackItem, "track"> {
  /** The name of the row. Slices that overlap are in different rows. */
  readonly row: string;
}

/** The flows that pass through what is held. */
export interface HeldFlows {
  /** The numbers of the generations of a store's entries, by the numbers of their memory. */
  readonly generations: ReadonlyMap<number, number>;
  of(event: TraceEvent): readonly bigint[] | undefined;
  connect(events: readonly TraceEvent[]): void;
}

/** A time in which something was held. */
interface Span {
  /** The event with which it begins. */
  readonly event: TraceEvent;
  readonly end: number;
  readonly isReleased: boolean;
  readonly row: string;
  readonly name: string;
  readonly category: string;
}

/** The messages with which a process begins and ends to hold a frame or an offer. */
const holding = {
  "receive frame": { what: "frame", begins: true },
  "send release-slot": { what: "frame", begins: false },
  "send held": { what: "offer", begins: true },
  "send released": { what: "offer", begins: false },
} as const;

/** The events with which a process begins and ends to hold an entry of a store. */
const holdingEntries = {
  "create entry": { begins: true, ends: false },
  "map entry": { begins: true, ends: false },
  "wake entry": { begins: true, ends: false },
  "publish entry": { begins: true, ends: true },
  "sleep entry": { begins: false, ends: true },
  "unmap entry": { begins: false, ends: true },
} as const;

/** The events that are only shown as the slices that begin or end with them. */
export const isHeldSlice: ReadonlySet<string> = new Set([
  "receive frame",
  "send held",
  ...Object.keys(holdingEntries),
]);

/** The maximum number of rows for slices of a kind. Those that overlap even more are instants. */
export const mostLanes = 64;

/** Returns the end of the name of a row. */
export function suffixOf(lane: number): string {
  return lane === 0 ? "" : lane === mostLanes ? " (more)" : ` (${lane + 1})`;
}

/** Returns what a process holds, each until its release. */
export function heldSlices(trace: EndedTrace, flows: HeldFlows): HeldSlice[] {
  const spans = [...messageSpans(trace, flows), ...entrySpans(trace, flows)];
  const rows = new Map<string, number[]>();
  return spans.sort((a, b) => a.event.begin - b.event.begin).map((span) => {
    const { event, end, isReleased, row, name, category } = span;
    const ends = rows.get(row) ?? [];
    rows.set(row, ends);
    const free = ends.findIndex((last) => last <= event.begin);
    const lane = free < 0 ? Math.min(ends.length, mostLanes) : free;
    if (lane < mostLanes) ends[lane] = end;
    const byteLength = event.value("byteLength");
    return {
      row: row + suffixOf(lane),
      begin: event.begin,
      duration: lane === mostLanes ? undefined : end - event.begin,
      name: `${name}${isReleased ? "" : " (not released)"}`,
      category,
      flows: flows.of(event) ?? [],
      details: byteLength === undefined
        ? undefined
        : { writeTo: (writer: DetailWriter) => writer.number("byteLength", byteLength) },
    };
  });
}

/** Returns the frames that a process has read, each until its release, and the offers that it has mapped. */
function messageSpans({ events, texts, end: last }: EndedTrace, flows: HeldFlows): Span[] {
  const offers = new Map<string, TraceEvent>();
  const begun = new Map<string, TraceEvent>();
  const spans: Span[] = [];
  const add = (event: TraceEvent, end: number, offer: TraceEvent | undefined, isReleased: boolean): void => {
    const { peer, subject } = event.values;
    const isFrame = event.name === "receive frame";
    spans.push({
      event,
      end,
      isReleased,
      row: `${isFrame ? "frames" : "leases"} of process ${peer}`,
      name: isFrame ? `frame ${subject}` : texts.get(offer?.value("name") ?? 0) ?? `offer ${subject}`,
      category: isFrame ? "frame" : "lease",
    });
  };
  for (const event of events) {
    const isOffer = event.name === "receive offer";
    if (!isOffer && !Object.hasOwn(holding, event.name)) continue;
    const { peer, message = 0, subject } = event.values;
    const { what, begins } = isOffer
      ? { what: "offer", begins: undefined }
      : holding[event.name as keyof typeof holding];
    const key = `${what} ${peer} ${Math.floor(message / messagesPerConnection)} ${subject}`;
    const offer = offers.get(key);
    if (isOffer) offers.set(key, event);
    else if (begins === true) begun.set(key, event);
    else if (begins === false && begun.has(key)) {
      add(begun.get(key)!, event.begin, offer, true);
      begun.delete(key);
    }
    if (begins === true && offer !== undefined) flows.connect([offer, event]);
  }
  // What was not released was held to the end.
  for (const [key, event] of begun) add(event, Math.max(last, event.begin), offers.get(key), false);
  return spans;
}

/** Returns the entries of stores that a process has mapped, each with its generation. */
function entrySpans({ events, texts, end: last }: EndedTrace, { generations }: HeldFlows): Span[] {
  /** The mappings of each entry that have not ended. */
  const begun = new Map<number, TraceEvent[]>();
  const spans: Span[] = [];
  const add = (event: TraceEvent, end: number, isReleased: boolean): void => {
    const isWritten = event.name === "create entry";
    const entry = event.value("entry") ?? 0;
    const generation = isWritten ? undefined : event.value("generation") || generations.get(entry);
    const name = texts.get(event.value("name") ?? 0) ?? `entry ${entry}`;
    spans.push({
      event,
      end,
      isReleased,
      row: "entries of stores",
      name: isWritten
        ? `${name}, being written`
        : generation === undefined
        ? name
        : `${name}, generation ${generation}`,
      category: "entry",
    });
  };
  for (const event of events) {
    if (!Object.hasOwn(holdingEntries, event.name)) continue;
    const { begins, ends } = holdingEntries[event.name as keyof typeof holdingEntries];
    const entry = event.value("entry") ?? 0;
    const mappings = begun.get(entry) ?? [];
    begun.set(entry, mappings);
    const ended = ends ? mappings.shift() : undefined;
    if (ended !== undefined) add(ended, event.begin, true);
    if (begins) mappings.push(event);
  }
  for (const event of [...begun.values()].flat()) add(event, Math.max(last, event.begin), false);
  return spans;
}
