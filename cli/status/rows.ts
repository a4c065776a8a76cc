/**
 * The rows of a status: what there is, and below it who holds it.
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

/** A process that holds the memory of a row. */
export interface HolderRow {
  readonly pid: number;
  readonly uid: number;
  /** In milliseconds since 1970; undefined if it is not known. */
  readonly since: number | undefined;
  /** `"held"`, `"reads"`, `"quarantined"` ... */
  readonly state: string;
  /** The state of a consumer of a channel. */
  readonly consumer?: ConsumerStatistics;
}

/** An offer, a channel or an entry of a store. */
export interface Row {
  readonly name: string;
  /** `"buffer"`, `"pool"`, `"channel"` or `"entry"`. */
  readonly kind: string;
  /** `"withdrawn"`, `"replaced"` ...; empty if it can be mapped. */
  readonly state: string;
  readonly byteLength: number;
  readonly generation: number | undefined;
  /** In milliseconds since 1970. */
  readonly since: number;
  readonly channel: ChannelStatistics | undefined;
  readonly holders: readonly HolderRow[];
}

/** The rows of a status, in its order. */
export function rowsOf(status: ListenerStatus): readonly Row[] {
  return status.kind === "exporter" ? rowsOfExporter(status) : rowsOfStore(status);
}

/** The largest lag of a channel's consumers in frames. */
export function lagOf({ consumers }: ChannelStatistics): number {
  return consumers.reduce((largest, { lag }) => Math.max(largest, lag), 0);
}

function rowsOfExporter({ offers, statistics }: ExporterStatus): Row[] {
  const channels = new Map(statistics.channels.map((channel) => [channel.name, channel]));
  return offers.map(({ name, kind, isWithdrawn, byteLength, since, holders }) => {
    // Its name may be that of another channel already.
    const channel = kind === "channel" && !isWithdrawn ? channels.get(name) : undefined;
    return {
      name,
      kind,
      state: isWithdrawn ? "withdrawn" : "",
      byteLength,
      generation: undefined,
      since,
      channel,
      holders: holdersOf(holders, channel?.consumers ?? []),
    };
  });
}

/** The holders of an offer. A consumer of a channel holds its ring. */
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
