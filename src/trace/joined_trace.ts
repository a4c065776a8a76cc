/**
 * Joins the traces of several processes to one.
 *
 * @module
 */
import { type EndedTrace, endedTraces } from "./ended_traces.ts";
import { type HeldFlows, heldSlices, isHeldSlice, mostLanes, suffixOf } from "./held_slices.ts";
import type { DetailWriter, ItemDetails, Track, TrackItem } from "./perfetto.ts";
import type { Trace, TraceEvent } from "./read_trace.ts";
import { recordsWithWaits } from "./recorded_events.ts";
import { messagesPerConnection, timedWork, type TracedRank } from "./trace_format.ts";

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
export function joinTraces(files: readonly Trace[]): JoinedTrace {
  const items: TrackItem[] = [];
  const traces = endedTraces(files);
  const flows = new Flows(traces);
  for (const trace of traces) addProcess(items, trace, flows);
  return { items, mistakes: flows.mistakes };
}

/** Finds the flows of a joined trace: from a message that was sent to its arrival, and from a record to its waits. */
class Flows implements HeldFlows {
  readonly mistakes: string[] = [];
  /** The numbers of the generations of a store's entries, by the numbers of their memory. */
  readonly generations = new Map<number, number>();
  readonly #flows = new Map<TraceEvent | Trace, bigint[]>();
  #count = 0n;

  constructor(traces: readonly EndedTrace[]) {
    this.#findMessages(traces);
    this.#findCollectives(traces);
    this.#findEntries(traces);
    for (const events of recordsWithWaits(traces)) this.connect(events);
    for (const trace of traces) for (const event of trace.noticed) this.connect([trace, event]);
  }

  /** Returns the flows that pass through an event, or through the end of a trace. */
  of(event: TraceEvent | Trace): readonly bigint[] | undefined {
    return this.#flows.get(event);
  }

  /** Adds a flow that passes through events, or through the ends of traces. */
  connect(events: readonly (TraceEvent | Trace)[]): void {
    const flow = ++this.#count;
    for (const event of events) {
      const known = this.#flows.get(event);
      if (known === undefined) this.#flows.set(event, [flow]);
      else known.push(flow);
    }
  }

  #findMessages(traces: readonly Trace[]): void {
    const sent = new Map<string, MessageEnd>();
    const divided = processesWithSeveralSenders(traces);
    for (const trace of traces) {
      if (divided.has(trace.process.pid)) continue;
      for (const event of trace.events) {
        const peer = event.value("peer") ?? 0;
        if (!event.name.startsWith("send ") || divided.has(peer)) continue;
        sent.set(keyOf(trace.process.pid, peer, event), { trace, event });
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
        this.connect([from.event, event]);
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
    const isPart = (event: TraceEvent) => event.value("group") && event.value("collective") !== undefined;
    const parts = Map.groupBy(
      traces.flatMap(({ events }) => events.filter(isPart)),
      (event) => `${event.value("group")} ${event.value("collective")} ${event.name}`,
    );
    for (const events of parts.values()) if (events.length > 1) this.connect(events);
  }

  /** Connects the publication of an entry of a store with each mapping of it. */
  #findEntries(traces: readonly Trace[]): void {
    const published = new Map<number, TraceEvent>();
    const mapped: TraceEvent[] = [];
    for (const { events } of traces) {
      for (const event of events) {
        if (event.name === "map entry") mapped.push(event);
        else if (event.name === "publish entry") {
          const entry = event.value("entry") ?? 0;
          published.set(entry, event);
          this.generations.set(entry, event.value("generation") ?? 0);
        }
      }
    }
    for (const event of mapped) {
      const publication = published.get(event.value("entry") ?? 0);
      if (publication !== undefined) this.connect([publication, event]);
    }
  }
}

/**
 * Returns the processes of which several threads have sent messages. Each thread counts its own connections, so nobody
 * knows which of them another process means.
 */
function processesWithSeveralSenders(traces: readonly Trace[]): ReadonlySet<number> {
  const senders = traces.filter(({ events }) => events.some(({ name }) => name.startsWith("send ")));
  const pids = senders.map(({ process }) => process.pid);
  return new Set(pids.filter((pid, index) => pids.indexOf(pid) !== index));
}

function keyOf(sender: number, receiver: number, event: TraceEvent): string {
  return `${sender} ${receiver} ${event.value("message")}`;
}

/** Adds the tracks of a process. */
function addProcess(items: TrackItem[], trace: EndedTrace, flows: Flows): void {
  const { process, events } = trace;
  const of = process.thread === 0 ? "" : `, thread ${process.thread}`;
  // The communicators that are created from the first one have fewer ranks.
  const [first = []] = trace.ranks.values();
  const rank = first.length === 1 ? `, rank ${rankText(first[0]!)}` : "";
  const name = `${shortened(process.program)}${of}${rank} (${process.runtime}, ${process.driver})`;
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
  for (const { row, ...slice } of heldSlices(trace, flows)) items.push({ ...slice, track: trackOf(row) });
  for (const event of events) {
    if (isHeldSlice.has(event.name)) continue;
    const { begin } = event;
    const add = (track: Track, category: string, duration: number | undefined): void => {
      const [name, details] = [nameOf(trace, event), new EventDetails(trace, event)];
      items.push({ track, begin, duration, name, category, flows: flows.of(event), details });
    };
    const lane = lanes.get(event);
    const peer = event.value("peer");
    if (lane !== undefined) {
      const kind = event.name === "range" ? "range" : "wait";
      add(trackOf(`${kind}s${suffixOf(lane)}`), kind, lane === mostLanes ? undefined : event.duration);
    } else if (event.name === "commRevoke" || event.name === "connection lost") {
      add(trackOf("errors"), "error", undefined);
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
  // The memory of a process is free when it has ended.
  if (trace.isClosed || trace.noticed.length > 0) {
    for (const pool of memory.pools) {
      items.push({ track: trackOf(`bytes of pool ${hex(pool)}`), begin: trace.end, value: 0 });
    }
  }
  if (trace.isClosed || events.length === 0) return;
  const flow = flows.of(trace);
  const why = trace.noticed.length > 0
    ? "the process has ended"
    : "the process still runs, or has ended without closing CUDA";
  items.push({
    begin: trace.last,
    name: `last event: ${why}`,
    track: trackOf("end of the trace"),
    category: trace.noticed.length > 0 ? "error" : "end",
    ...flow && { flows: flow },
  });
}

/** The memory that a process has allocated from each pool, in the order of its calls. */
class PoolMemory {
  readonly #allocations = new Map<number, { readonly pool: number; readonly byteLength: number }>();
  readonly #totals = new Map<number, number>();

  /** The pools from which memory was allocated. */
  get pools(): Iterable<number> {
    return this.#totals.keys();
  }

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

/**
 * Returns the row of each event: one that overlaps another without being within it has the next row. Those for which
 * there is none any more have `mostLanes`.
 */
function lanesOf(events: readonly TraceEvent[]): Map<TraceEvent, number> {
  const lanes = new Map<TraceEvent, number>();
  const open: TraceEvent[][] = [];
  const end = ({ begin, duration }: TraceEvent): number => begin + duration;
  for (
    const event of events.toSorted((a, b) => a.begin - b.begin || end(b) - end(a))
  ) {
    for (const lane of open) while (lane.length > 0 && end(lane.at(-1)!) <= event.begin) lane.pop();
    let index = open.findIndex((lane) => lane.length === 0 || end(lane.at(-1)!) >= end(event));
    if (index < 0) index = open.length === mostLanes ? mostLanes : open.push([]) - 1;
    open[index]?.push(event);
    lanes.set(event, index);
  }
  return lanes;
}

function nameOf({ kernels, texts }: Trace, event: TraceEvent): string {
  const { name } = event;
  const how = event.hasThrown ? " (failed)" : event.hasEnded ? "" : " (not ended)";
  // What is waited for is the name of the entry.
  if (name === "wait for entry") return `wait for ${texts.get(event.value("entry") ?? 0) ?? "entry"}${how}`;
  if (name === "range" || isWork.has(name)) return (texts.get(event.value("name") ?? 0) ?? name) + how;
  const why = texts.get(event.value("why") ?? 0);
  // What follows the colon is advice.
  if (why !== undefined) return `${name}: ${why.split(":")[0]}`;
  const what = texts.get(event.value("what") ?? 0);
  if (what !== undefined && what !== "") return `${name} ${what}`;
  const handle = event.value("kernel");
  const kernel = handle === undefined ? undefined : kernels.get(handle);
  return (kernel === undefined ? name : `${name} ${kernel}`) + how;
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
    const { texts, ranks } = this.#trace;
    if (device !== undefined) writer.number("device", device);
    for (const name in values) {
      const value = values[name]!;
      const kernel = name === "kernel" ? this.#trace.kernels.get(value) : undefined;
      if (name === "name" || name === "entry") continue;
      if (kernel !== undefined) writer.text("kernel", kernel);
      else if (name === "why" || name === "what") writer.text(name, texts.get(value) ?? "");
      else if (name === "group") {
        const [place, ...more] = ranks.get(value) ?? [];
        if (place !== undefined && more.length === 0) writer.text("rank", rankText(place));
        writer.number("group", value);
      } else if (name === "message") {
        writer.number("connection", Math.floor(value / messagesPerConnection));
        writer.number("message", value % messagesPerConnection);
      } else if (isHandle.has(name) && Number.isInteger(value) && value >= 0) writer.address(name, value);
      else writer.number(name, value);
    }
    if (site !== undefined) writer.text("site", site);
    if (hasThrown) writer.flag("hasThrown", true);
  }
}

function rankText({ rank, size }: TracedRank): string {
  return `${rank} of ${size}`;
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

/** Returns the end of a command line, without the options and folders before it. */
function shortened(program: string): string {
  const script = program.split(" ").find((word) => /\.[cm]?[jt]sx?$/.test(word)) ?? program.split(" ")[0] ?? "";
  return script.slice(script.lastIndexOf("/") + 1);
}
