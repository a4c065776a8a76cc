/**
 * Converts a status to rows: the offers, channels or entries, each with the processes that hold it.
 *
 * @module
 */
import type {
  ChannelStatistics,
  ConsumerStatistics,
  ExporterStatus,
  HolderStatus,
  ListenerStatus,
  ProcessStatus,
  StoreEntryStatus,
  StoreStatus,
} from "../../mod.ts";

/** A process that holds the memory that a row describes. */
export interface HolderRow {
  readonly pid: number;
  readonly uid: number;
  /** When the process began to hold the memory, in milliseconds since 1970. Undefined if the time is unknown. */
  readonly since: number | undefined;
  /** How the process uses the memory: `"held"`, `"reads"`, `"quarantined"` and so on. */
  readonly state: string;
  /** The statistics of the process as a consumer of a channel. */
  readonly consumer?: ConsumerStatistics;
}

/** A row of the output: an offer, a channel or an entry of a store. */
export interface Row {
  readonly name: string;
  /** The kind of row: `"buffer"`, `"pool"`, `"channel"` or `"entry"`. */
  readonly kind: string;
  /** The state of the memory: `"withdrawn"`, `"replaced"` and so on. Empty if the memory can be mapped. */
  readonly state: string;
  readonly byteLength: number;
  /** What the memory was allocated from: an exporter's pool, or the device of a store. */
  readonly source: string;
  readonly generation: number | undefined;
  /** When the offer or entry was created, in milliseconds since 1970. */
  readonly since: number;
  readonly channel: ChannelStatistics | undefined;
  readonly holders: readonly HolderRow[];
}

/** Returns the rows of a status, in the order of the status. */
export function rowsOf(status: ListenerStatus): readonly Row[] {
  return status.kind === "exporter" ? rowsOfExporter(status) : rowsOfStore(status);
}

/** Returns the largest lag of a channel's consumers, in frames. */
export function lagOf({ consumers }: ChannelStatistics): number {
  return consumers.reduce((largest, { lag }) => Math.max(largest, lag), 0);
}

function rowsOfExporter({ offers, statistics }: ExporterStatus): Row[] {
  const channels = new Map(statistics.channels.map((channel) => [channel.name, channel]));
  return offers.map(({ name, kind, isWithdrawn, byteLength, pool, since, holders }) => {
    // A withdrawn channel gets no statistics, because its name may already belong to a new channel.
    const channel = kind === "channel" && !isWithdrawn ? channels.get(name) : undefined;
    return {
      name,
      kind,
      state: isWithdrawn ? "withdrawn" : "",
      byteLength,
      source: pool === undefined ? "a pool without a number" : `pool ${pool}`,
      generation: undefined,
      since,
      channel,
      holders: holdersOf(holders, channel?.consumers ?? []),
    };
  });
}

/**
 * Returns the holders of an offer. If the offer is a channel, adds to each holder the statistics of the same process as
 * a consumer.
 */
function holdersOf(holders: readonly HolderStatus[], consumers: readonly ConsumerStatistics[]): HolderRow[] {
  const left = [...consumers];
  const rows = holders.map(({ pid, uid, since, state, count }): HolderRow => {
    const index = state === "held" ? left.findIndex(({ peer }) => peer.pid === pid && peer.uid === uid) : -1;
    const consumer = index < 0 ? undefined : left.splice(index, 1)[0];
    const times = count > 1 ? ` ${count} times` : "";
    return { pid, uid, since, state: `${state}${times}`, ...consumer === undefined ? {} : { consumer } };
  });
  const others = left.map((consumer): HolderRow => {
    const { pid, uid } = consumer.peer;
    return { pid, uid, since: undefined, state: "held", consumer };
  });
  return [...rows, ...others];
}

function rowsOfStore({ entries }: StoreStatus): Row[] {
  return entries.map((entry) => ({
    name: entry.name,
    kind: "entry",
    state: entry.state === "published" ? "" : entry.state,
    byteLength: entry.byteLength,
    source: entry.device === null ? "host memory" : `device ${entry.device}`,
    generation: entry.generation,
    since: entry.since,
    channel: undefined,
    holders: usersOf(entry),
  }));
}

function usersOf({ writer, readers }: StoreEntryStatus): HolderRow[] {
  const rowOf = ({ pid, uid, since }: ProcessStatus, state: string): HolderRow => ({ pid, uid, since, state });
  return [
    ...writer === undefined ? [] : [rowOf(writer, "writes")],
    ...readers.map((reader) => rowOf(reader, "reads")),
  ];
}
