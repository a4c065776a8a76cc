/**
 * Joins the traces of several processes to one.
 *
 * @module
 */
import type { DetailWriter, ItemDetails, Track, TrackItem } from "./perfetto.ts";
import type { Trace, TraceEvent } from "./read_trace.ts";
import { messagesPerConnection, timedWork } from "./trace_format.ts";

/** The traces of several processes as one. */
export interface JoinedTrace {
  readonly items: readonly TrackItem[];
  /** What does not fit: messages that arrived before they were sent. Such clocks cannot be compared. */
  readonly mistakes: readonly string[];
}

/** A message that was sent or received. */
interface MessageEnd {
  readonly trace: Trace;
  readonly event: TraceEvent;
}

/** Joins traces by the clock that their processes share. */
export function joinTraces(traces: readonly Trace[]): JoinedTrace {
  const items: TrackItem[] = [];
  const flows = new Flows(traces);
  for (const trace of traces) addProcess(items, trace, flows);
  return { items, mistakes: flows.mistakes };
}

/** Finds the flows of a joined trace: from a message that was sent to its arrival, and from a record to its waits. */
class Flows {
  readonly mistakes: string[] = [];
  readonly #flows = new Map<TraceEvent, bigint[]>();
  #count = 0n;

  constructor(traces: readonly Trace[]) {
    this.#findMessages(traces);
    this.#findCollectives(traces);
    for (const trace of traces) this.#findRecords(trace);
  }

  of(event: TraceEvent): readonly bigint[] | undefined {
    return this.#flows.get(event);
  }

  /** Adds a flow that passes through events. */
  connect(...events: readonly TraceEvent[]): void {
    const flow = ++this.#count;
    for (const event of events) {
      const known = this.#flows.get(event);
      if (known === undefined) this.#flows.set(event, [flow]);
      else known.push(flow);
    }
  }

  #findMessages(traces: readonly Trace[]): void {
    const sent = new Map<string, MessageEnd>();
    for (const trace of traces) {
      for (const event of trace.events) {
        if (!event.name.startsWith("send ")) continue;
        sent.set(keyOf(trace.process.pid, event.value("peer") ?? 0, event), { trace, event });
      }
    }
    const early = new Map<string, { count: number; most: number }>();
    for (const trace of traces) {
      for (const event of trace.events) {
        if (!event.name.startsWith("receive ")) continue;
        const from = sent.get(keyOf(event.value("peer") ?? 0, trace.process.pid, event));
        if (from === undefined || from.event.name.slice("send ".length) !== event.name.slice("receive ".length)) {
          continue;
        }
        this.connect(from.event, event);
        const lead = from.event.begin - event.begin;
        if (lead <= 0) continue;
        const pair = `${from.trace.file} to ${trace.file}`;
        const known = early.get(pair) ?? { count: 0, most: 0 };
        early.set(pair, { count: known.count + 1, most: Math.max(known.most, lead) });
      }
    }
    for (const [pair, { count, most }] of early) {
      this.mistakes.push(
        `${count} messages from ${pair} arrived before they were sent, by up to ${(most / 1e3).toFixed(1)} us: ` +
          "the clocks of these processes differ",
      );
    }
  }

  /** Connects the parts of each collective, which each rank enqueues. */
  #findCollectives(traces: readonly Trace[]): void {
    const parts = new Map<string, TraceEvent[]>();
    for (const { events } of traces) {
      for (const event of events) {
        const [group, collective] = [event.value("group"), event.value("collective")];
        if (!group || collective === undefined) continue;
        const key = `${group} ${collective} ${event.name}`;
        const known = parts.get(key);
        if (known === undefined) parts.set(key, [event]);
        else known.push(event);
      }
    }
    for (const events of parts.values()) if (events.length > 1) this.connect(...events);
  }

  #findRecords({ events }: Trace): void {
    const records = new Map<number, { record: TraceEvent; waits: TraceEvent[] }>();
    const connect = (event: number | undefined): void => {
      const known = event === undefined ? undefined : records.get(event);
      if (known !== undefined && known.waits.length > 0) this.connect(known.record, ...known.waits);
    };
    for (const event of events) {
      const { name } = event;
      if (name === "eventRecord" || name === "eventRecordWithFlags") {
        const handle = event.value("event");
        connect(handle);
        records.set(handle!, { record: event, waits: [] });
      } else if (name === "streamWaitEvent" || name === "eventSynchronize") {
        records.get(event.value("event") ?? 0)?.waits.push(event);
      }
    }
    for (const handle of records.keys()) connect(handle);
  }
}

function keyOf(sender: number, receiver: number, event: TraceEvent): string {
  return `${sender} ${receiver} ${event.value("message")}`;
}

/** Adds the tracks of a process. */
function addProcess(items: TrackItem[], trace: Trace, flows: Flows): void {
  const { process, events } = trace;
  const of = process.thread === 0 ? "" : `, thread ${process.thread}`;
  const name = `${shortened(process.program)}${of} (${process.runtime}, ${process.driver})`;
  const root: Track = { name, process: { pid: process.pid, name } };
  const tracks = new Map<string, Track>();
  const trackOf = (name: string, options: Partial<Track> = {}): Track => {
    let track = tracks.get(name);
    if (track === undefined) tracks.set(name, track = { name, parent: root, ...options });
    return track;
  };
  const memory = new PoolMemory();
  const lanes = new Map([
    ...lanesOf(events.filter(({ name }) => name === "range")),
    ...lanesOf(events.filter(({ name }) => name.startsWith("wait for "))),
  ]);
  for (const { verb, peer, lane, ...slice } of heldSlices(trace, flows)) {
    items.push({ ...slice, track: trackOf(`${verb} process ${peer}${lane === 0 ? "" : ` (${lane + 1})`}`) });
  }
  for (const event of events) {
    // A slice shows how long the frame or the offer was held.
    if (event.name === "receive frame" || event.name === "send held") continue;
    const { begin } = event;
    const add = (track: Track, category: string, duration: number | undefined): void => {
      const [name, details] = [nameOf(trace, event), new EventDetails(trace, event)];
      items.push({ track, begin, duration, name, category, flows: flows.of(event), details });
    };
    const lane = lanes.get(event);
    const peer = event.value("peer");
    if (lane !== undefined) {
      const kind = event.name === "range" ? "range" : "wait";
      const row = lane === 0 ? "" : ` (${lane + 1})`;
      add(trackOf(`${kind}s${row}`), kind, event.duration);
    } else if (peer !== undefined) {
      add(trackOf(`messages with process ${peer}`), "message", undefined);
    } else if (isWork.has(event.name)) {
      const stream = event.value("stream") ?? -1;
      const of = stream === -1 ? "branches of graphs" : stream === 0 ? "default stream" : `stream ${hex(stream)}`;
      add(trackOf(`device ${event.device}, ${of}`), event.name, event.duration);
    } else {
      add(trackOf("calls"), "call", event.duration);
    }
    const change = memory.change(event);
    if (change !== undefined) {
      const track = trackOf(`bytes of pool ${hex(change.pool)}`, { isCounter: true });
      items.push({ track, begin: begin + event.duration, value: change.byteLength });
    }
  }
}

/** What a process holds of another one for some time. */
interface HeldSlice extends Omit<TrackItem, "track"> {
  readonly verb: "frames of" | "leases of";
  readonly peer: number;
  /** The number of the row: slices that overlap are in different ones. */
  readonly lane: number;
}

/** The messages with which a process begins and ends to hold a frame or an offer. */
const holding = {
  "receive frame": { what: "frame", begins: true },
  "send release-slot": { what: "frame", begins: false },
  "send held": { what: "offer", begins: true },
  "send released": { what: "offer", begins: false },
} as const;

/** Returns the frames that a process has read, each until its release, and the offers that it has mapped. */
function heldSlices({ events, texts }: Trace, flows: Flows): HeldSlice[] {
  const offers = new Map<string, TraceEvent>();
  const begun = new Map<string, TraceEvent>();
  const spans: { readonly event: TraceEvent; readonly end: number; readonly offer: TraceEvent | undefined }[] = [];
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
      spans.push({ event: begun.get(key)!, end: event.begin, offer });
      begun.delete(key);
    }
    if (begins === true && offer !== undefined) flows.connect(offer, event);
  }
  // What was not released was held to the end.
  const { begin: last = 0 } = events.at(-1) ?? {};
  for (const [key, event] of begun) spans.push({ event, end: Math.max(last, event.begin), offer: offers.get(key) });
  const lanes = new Map<string, number[]>();
  return spans.sort((a, b) => a.event.begin - b.event.begin).map(({ event, end, offer }) => {
    const { peer = 0, subject, byteLength } = event.values;
    const isFrame = event.name === "receive frame";
    const verb = isFrame ? "frames of" : "leases of";
    const ends = lanes.get(`${verb} ${peer}`) ?? [];
    lanes.set(`${verb} ${peer}`, ends);
    const free = ends.findIndex((last) => last <= event.begin);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = end;
    return {
      verb,
      peer,
      lane,
      begin: event.begin,
      duration: end - event.begin,
      name: isFrame ? `frame ${subject}` : texts.get(offer?.value("name") ?? 0) ?? `offer ${subject}`,
      category: isFrame ? "frame" : "lease",
      flows: flows.of(event) ?? [],
      details: isFrame
        ? { writeTo: (writer: DetailWriter) => writer.number("byteLength", byteLength ?? 0) }
        : undefined,
    };
  });
}

/** The memory that a process has allocated from each pool, in the order of its calls. */
class PoolMemory {
  readonly #allocations = new Map<number, { readonly pool: number; readonly byteLength: number }>();
  readonly #totals = new Map<number, number>();

  /** Returns how much is allocated from a pool after an event; undefined if the event changes nothing. */
  change(event: TraceEvent): { pool: number; byteLength: number } | undefined {
    const { name } = event;
    if (name !== "mallocFromPoolAsync" && name !== "freeAsync" || event.hasThrown) return undefined;
    const address = event.value("address") ?? 0;
    if (name === "mallocFromPoolAsync") {
      const [pool = 0, byteLength = 0] = [event.value("pool"), event.value("byteLength")];
      this.#allocations.set(address, { pool, byteLength });
      return this.#add(pool, byteLength);
    }
    const freed = this.#allocations.get(address);
    if (freed === undefined) return undefined;
    this.#allocations.delete(address);
    return this.#add(freed.pool, -freed.byteLength);
  }

  #add(pool: number, change: number): { pool: number; byteLength: number } {
    const byteLength = (this.#totals.get(pool) ?? 0) + change;
    this.#totals.set(pool, byteLength);
    return { pool, byteLength };
  }
}

/** The events of work that ran on a stream. */
const isWork: ReadonlySet<string> = new Set(timedWork);

const isHandle: ReadonlySet<string> = new Set([
  "address",
  "destination",
  "event",
  "exec",
  "graph",
  "kernel",
  "memory",
  "module",
  "pool",
  "source",
  "stream",
]);

/** Returns the row of each event: one that overlaps another without being within it has the next row. */
function lanesOf(events: readonly TraceEvent[]): Map<TraceEvent, number> {
  const lanes = new Map<TraceEvent, number>();
  const open: TraceEvent[][] = [];
  const end = ({ begin, duration }: TraceEvent): number => begin + duration;
  for (
    const event of events.toSorted((a, b) => a.begin - b.begin || end(b) - end(a))
  ) {
    for (const lane of open) while (lane.length > 0 && end(lane.at(-1)!) <= event.begin) lane.pop();
    let index = open.findIndex((lane) => lane.length === 0 || end(lane.at(-1)!) >= end(event));
    if (index < 0) index = open.push([]) - 1;
    open[index]!.push(event);
    lanes.set(event, index);
  }
  return lanes;
}

function nameOf({ kernels, texts }: Trace, event: TraceEvent): string {
  const { name } = event;
  if (name === "range" || isWork.has(name)) return texts.get(event.value("name") ?? 0) ?? name;
  const handle = event.value("kernel");
  const kernel = handle === undefined ? undefined : kernels.get(handle);
  return kernel === undefined ? name : `${name} ${kernel}`;
}

/** What is shown of an event. */
class EventDetails implements ItemDetails {
  readonly #trace: Trace;
  readonly #event: TraceEvent;

  constructor(trace: Trace, event: TraceEvent) {
    this.#trace = trace;
    this.#event = event;
  }

  writeTo(writer: DetailWriter): void {
    const { device, site, values, hasThrown } = this.#event;
    if (device !== undefined) writer.number("device", device);
    for (const name in values) {
      const value = values[name]!;
      const kernel = name === "kernel" ? this.#trace.kernels.get(value) : undefined;
      if (name === "name") continue;
      if (kernel !== undefined) writer.text("kernel", kernel);
      else if (name === "message") {
        writer.number("connection", Math.floor(value / messagesPerConnection));
        writer.number("message", value % messagesPerConnection);
      } else if (isHandle.has(name) && Number.isInteger(value) && value >= 0) writer.address(name, value);
      else writer.number(name, value);
    }
    if (site !== undefined) writer.text("site", site);
    if (hasThrown) writer.flag("hasThrown", true);
  }
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

/** Returns the end of a command line, without the options and folders before it. */
function shortened(program: string): string {
  const script = program.split(" ").find((word) => /\.[cm]?[jt]sx?$/.test(word)) ?? program.split(" ")[0] ?? "";
  return script.slice(script.lastIndexOf("/") + 1);
}
