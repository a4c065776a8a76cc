/**
 * The statistics of exporters and stores in Prometheus' text format.
 *
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 *
 * @module
 */
import type { ConsumerStatistics } from "../channel/channel_hub.ts";
import type { ExporterStatistics } from "../exporter/exporter_statistics.ts";
import type { RefusalStatistics } from "../../support/refusals.ts";
import type { StoreStatistics, StoreStatus } from "./status.ts";

/** The prefix of the metrics' names. */
const prefix = "poolpass";

/** The labels of a sample, keyed by label name. */
type Labels = Readonly<Record<string, string | number>>;

/** A metric with its samples. */
interface Metric {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly samples: readonly (readonly [labels: Labels, value: number])[];
}

/**
 * Formats the statistics of an exporter, the status of a store, or this process's refusals in the text format that
 * Prometheus reads. Serve the result as `text/plain; version=0.0.4; charset=utf-8`. Totals are counters, whose names
 * end with `_total`; they restart at 0 when the program restarts, as Prometheus expects.
 *
 * @param numbers the result of `Exporter.statistics`; for a store, the result of `Operator.status`; or, in a process
 * without an exporter, the result of `refusalStatistics`, which an exporter's statistics include
 *
 * @example
 * ```ts ignore
 * Deno.serve({ hostname: "127.0.0.1", port: 9400 }, () => new Response(prometheusText(exporter.statistics())));
 * ```
 */
export function prometheusText(numbers: ExporterStatistics | StoreStatus | RefusalStatistics): string {
  const metrics = "kind" in numbers
    ? metricsOfStore(numbers)
    : "path" in numbers
    ? metricsOfExporter(numbers)
    : metricsOfRefusals(numbers, {});
  return metrics.filter(({ samples }) => samples.length > 0).map(format).join("");
}

function format({ name, type, help, samples }: Metric): string {
  const lines = samples.map(([labels, value]) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(String(text))}"`);
    return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}\n`;
  });
  return `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${name} ${type}\n` +
    lines.join("");
}

/** Escapes the characters that label values cannot contain: backslashes, quotes and line breaks. */
function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function gauge(name: string, help: string, ...samples: Metric["samples"]): Metric {
  return { name: `${prefix}_${name}`, type: "gauge", help, samples };
}

function counter(name: string, help: string, ...samples: Metric["samples"]): Metric {
  return { name: `${prefix}_${name}_total`, type: "counter", help, samples };
}

/** Returns the metric for the time at which a listener began to listen, in seconds since 1970. */
function since({ path, since }: ExporterStatistics | StoreStatistics): Metric {
  return gauge("start_time_seconds", "When the process began to listen, in seconds since 1970.", [
    { path },
    since / 1000,
  ]);
}

function metricsOfExporter(numbers: ExporterStatistics): Metric[] {
  const { path, importers, operators, offers, leases, quarantinedByteLength, traffic, refusals } = numbers;
  const by = (label: string, counts: Readonly<Partial<Record<string, number>>>) => samplesBy({ path }, label, counts);
  return [
    since(numbers),
    gauge("importers_connected", "Connected importers.", [{ path }, importers.connected]),
    gauge("importers_lingering", "Ended connections whose processes may have memory mapped.", [
      { path },
      importers.lingering,
    ]),
    gauge("handshakes_pending", "Connections whose handshake is not complete.", [{ path }, importers.handshakes]),
    gauge("operators_connected", "Connected operators.", [{ path }, operators]),
    counter("importers_accepted", "Importers that have completed the handshake.", [{ path }, importers.accepted]),
    counter(
      "connections_refused",
      "Connections that ended before the handshake was complete.",
      ...by("code", importers.refused),
    ),
    counter(
      "importers_ended",
      "Importers that have disconnected.",
      ...by("code", importers.ended),
    ),
    gauge("offers", "Offers that importers can map.", [{ path }, offers.count]),
    gauge("offers_bytes", "Bytes of the offers that importers can map.", [{ path }, offers.byteLength]),
    gauge("offers_withdrawn", "Withdrawn offers that importers still hold.", [{ path }, offers.withdrawn]),
    counter("offers_made", "Offers made.", [{ path }, offers.made]),
    gauge(
      "leases",
      "What importers hold, by the state of the lease.",
      ...by("state", Object.fromEntries(Object.entries(leases).map(([state, { count }]) => [state, count]))),
    ),
    gauge(
      "leases_bytes",
      "Bytes that importers hold, by the state of the lease; what several hold counts for each.",
      ...by("state", Object.fromEntries(Object.entries(leases).map(([state, { byteLength }]) => [state, byteLength]))),
    ),
    gauge("quarantined_bytes", "Bytes that cannot be freed before processes end.", [{ path }, quarantinedByteLength]),
    counter(
      "messages",
      "Messages of all connections.",
      [{ path, direction: "sent" }, traffic.messagesSent],
      [{ path, direction: "received" }, traffic.messagesReceived],
    ),
    counter(
      "message_bytes",
      "Bytes of the messages of all connections.",
      [{ path, direction: "sent" }, traffic.bytesSent],
      [{ path, direction: "received" }, traffic.bytesReceived],
    ),
    ...refusals === undefined ? [] : metricsOfRefusals(refusals, { path }),
    ...metricsOfChannels(numbers),
  ];
}

function metricsOfRefusals({ imports, exports, events }: RefusalStatistics, labels: Labels): Metric[] {
  return [
    counter(
      "imports_refused",
      "Imports of other processes' memory that the whole process has refused.",
      ...samplesBy(labels, "code", imports),
    ),
    counter(
      "exports_refused",
      "Exports that the whole process has refused, because no process could import the memory.",
      ...samplesBy(labels, "code", exports),
    ),
    counter(
      "events_not_opened",
      "Events of other processes that the whole process has not opened.",
      ...samplesBy(labels, "reason", events),
    ),
  ];
}

/** Returns one sample per count. The label `label` of each sample is the count's key. */
function samplesBy(
  labels: Labels,
  label: string,
  counts: Readonly<Partial<Record<string, number>>>,
): Metric["samples"] {
  return Object.entries(counts).map(([value, count]) => [{ ...labels, [label]: value }, count!] as const);
}

function metricsOfChannels({ path, channels }: ExporterStatistics): Metric[] {
  type Channel = ExporterStatistics["channels"][number];
  const of = (read: (channel: Channel) => number) =>
    channels.map((channel) => [{ path, channel: channel.name }, read(channel)] as const);
  const ofConsumers = (
    read: (consumer: ConsumerStatistics) => number,
    join: (one: number, other: number) => number = (one, other) => one + other,
  ) =>
    channels.flatMap(({ name, consumers }) => ofProcesses({ path, channel: name }, consumers.map(pairOf(read)), join));
  return [
    gauge("channel_slots", "Slots of the channel's ring.", ...of(({ slots }) => slots)),
    gauge("channel_slot_bytes", "The size of a slot in bytes.", ...of(({ slotByteLength }) => slotByteLength)),
    gauge("channel_free_slots", "Slots that nobody uses.", ...of(({ freeSlots }) => freeSlots)),
    gauge(
      "channel_quarantined_slots",
      "Slots that are lost until processes end.",
      ...of(({ quarantinedSlots }) => quarantinedSlots),
    ),
    gauge("channel_consumers", "Consumers that frames are sent to.", ...of(({ consumers }) => consumers.length)),
    counter("channel_frames_sent", "Frames that the application has sent.", ...of(({ sent }) => sent)),
    counter("channel_bytes_sent", "Bytes of these frames.", ...of(({ bytesSent }) => bytesSent)),
    counter(
      "channel_frames_dropped",
      "Frames that at least one consumer was not sent.",
      ...of(({ dropped }) => dropped),
    ),
    counter("consumer_frames_sent", "Frames that the consumer was sent.", ...ofConsumers(({ sent }) => sent)),
    counter(
      "consumer_frames_dropped",
      "Frames that were dropped before the consumer was sent them.",
      ...ofConsumers(({ dropped }) => dropped),
    ),
    gauge(
      "consumer_frames_held",
      "Frames that the consumer was sent and has not released.",
      ...ofConsumers(({ held }) => held),
    ),
    gauge(
      "consumer_lag_frames",
      "Frames by which the consumer is behind the producer.",
      ...ofConsumers(({ lag }) => lag, Math.max),
    ),
  ];
}

/** Returns a function that returns a consumer's process ID and one statistic, which `read` selects. */
function pairOf(read: (consumer: ConsumerStatistics) => number): (consumer: ConsumerStatistics) => [number, number] {
  return (consumer) => [consumer.peer.pid, read(consumer)];
}

/**
 * Returns a sample for each process. If a process has several consumers of the same channel, `join` combines their
 * values.
 */
function ofProcesses(
  labels: Labels,
  pairs: readonly (readonly [pid: number, value: number])[],
  join: (one: number, other: number) => number,
): Metric["samples"] {
  const values = new Map<number, number>();
  for (const [pid, value] of pairs) {
    const known = values.get(pid);
    values.set(pid, known === undefined ? value : join(known, value));
  }
  return [...values].map(([pid, value]) => [{ ...labels, pid }, value] as const);
}

function metricsOfStore({ statistics, limits, entries }: StoreStatus): Metric[] {
  const { path, clients, operators, entries: count, byteLength, published } = statistics;
  const limit = (value: number | null): Metric["samples"] => value === null ? [] : [[{ path }, value]];
  // Group the entries, because several may have the same name, generation and state: several writers may allocate
  // memory for a name, and a name that was removed restarts at generation 1.
  const ofSeries = Map.groupBy(entries, ({ state, generation, name }) => `${state} ${generation} ${name}`);
  const of = (read: (entry: StoreStatus["entries"][number]) => number): Metric["samples"] =>
    [...ofSeries.values()].map((same) => {
      const { name, generation, state } = same[0]!;
      return [{ path, name, generation, state }, same.reduce((sum, entry) => sum + read(entry), 0)] as const;
    });
  return [
    since(statistics),
    gauge("store_clients_connected", "Connected clients.", [{ path }, clients]),
    gauge("operators_connected", "Connected operators.", [{ path }, operators]),
    gauge("store_entries", "Entries, every generation counted.", [{ path }, count]),
    gauge("store_bytes", "Bytes of the entries' memory.", [{ path }, byteLength]),
    counter("store_published", "Generations that were published.", [{ path }, published]),
    gauge("store_limit_bytes", "The maximum number of bytes of each device.", ...limit(limits.maxSize)),
    gauge("store_limit_of_user_bytes", "The maximum number of bytes of one user.", ...limit(limits.maxSizeOfUser)),
    gauge(
      "store_entry_bytes",
      "Bytes of the entries of a name, generation and state.",
      ...of(({ byteLength }) => byteLength),
    ),
    gauge("store_entry_readers", "Processes that have one of them mapped.", ...of(({ readers }) => readers.length)),
  ];
}
