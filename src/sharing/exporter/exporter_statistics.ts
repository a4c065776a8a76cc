import { SharingError, type SharingErrorCode } from "../../support/errors.ts";
import { type RefusalStatistics, refusalStatistics } from "../../support/refusals.ts";
import type { ChannelStatistics } from "../channel/channel_hub.ts";
import type { TrafficStatistics } from "../protocol/message_stream.ts";
import type { ConnectedImporter } from "./connected_importer.ts";
import type { OfferRecord } from "./offer.ts";
import type { LeaseState } from "./lease.ts";

/** The number of leases in one state, and the size of the memory that these leases hold. */
export interface LeaseStatistics {
  /** The number of leases. */
  readonly count: number;
  /**
   * The bytes that the leases hold. Memory that several importers hold is counted once for each importer. An offer of a
   * whole pool counts as 0 bytes.
   */
  readonly byteLength: number;
}

/**
 * The result of `Exporter.statistics`: plain data that `JSON.stringify` can represent. Numbers documented as totals
 * count from when the exporter began to listen and never decrease; all other numbers are current values.
 */
export interface ExporterStatistics {
  /** The path at which the exporter listens. */
  readonly path: string;
  /** When the exporter began to listen, in milliseconds since 1970. */
  readonly since: number;
  /** Counts of importers' connections. */
  readonly importers: {
    /** The number of connected importers. */
    readonly connected: number;
    /** The number of connections whose handshake is not complete. */
    readonly handshakes: number;
    /**
     * The number of closed connections whose processes are still running and may have memory mapped. If one process has
     * more than 16 such connections, the excess connections are merged into one of the 16 and not counted separately.
     */
    readonly lingering: number;
    /** The total number of importers that have completed the handshake. */
    readonly accepted: number;
    /**
     * The total number of connections that were closed before the handshake was complete, by error code:
     * `limit-exceeded`, `not-permitted` and others, or `peer-gone` if the other process closed the connection.
     */
    readonly refused: Readonly<Partial<Record<SharingErrorCode, number>>>;
    /** The total number of importers that have disconnected, by error code, or under `done` if there was no error. */
    readonly ended: Readonly<Partial<Record<SharingErrorCode | "done", number>>>;
  };
  /** The number of connected operators, which only read the exporter's status and hold no memory. */
  readonly operators: number;
  /** The offers, including channels. */
  readonly offers: {
    /** The number of offers that importers can map. */
    readonly count: number;
    /** The total size in bytes of the offers that importers can map. An offer of a whole pool counts as 0 bytes. */
    readonly byteLength: number;
    /** The number of withdrawn offers that importers still hold. */
    readonly withdrawn: number;
    /** The total number of offers made. */
    readonly made: number;
  };
  /**
   * The importers' leases, by state. The counts change when messages from importers arrive, like the list
   * `Exporter.leases`.
   */
  readonly leases: Readonly<Record<LeaseState, LeaseStatistics>>;
  /**
   * The bytes of memory that cannot be freed or reused yet, because processes that may have it mapped are still running
   * although their connections are closed. Each offer is counted once.
   */
  readonly quarantinedByteLength: number;
  /** The total messages and bytes transferred by all connections, including handshakes. */
  readonly traffic: Readonly<TrafficStatistics>;
  /**
   * Counts how often this process has refused to import memory, to export memory, or to open an event of another
   * process. The counts are the same for all exporters of the process. Absent if the listener runs an older version
   * that does not count refusals.
   */
  readonly refusals?: RefusalStatistics;
  /** The channels that have not been withdrawn, in order of creation. */
  readonly channels: readonly ChannelStatistics[];
}

/** The totals of an exporter. The size of this object does not depend on the number of importers. */
export class ExporterTotals {
  readonly since: number = Date.now();
  readonly traffic: TrafficStatistics = { messagesSent: 0, messagesReceived: 0, bytesSent: 0, bytesReceived: 0 };
  readonly refused: Partial<Record<SharingErrorCode, number>> = {};
  readonly ended: Partial<Record<SharingErrorCode | "done", number>> = {};
  accepted = 0;
  offersMade = 0;

  /** Counts a connection that ended before the handshake was complete. */
  countRefused(error: unknown): void {
    const code = error instanceof SharingError ? error.code : "internal-error";
    this.refused[code] = (this.refused[code] ?? 0) + 1;
  }

  /** Counts an importer that has disconnected. */
  countEnded(error: SharingError | undefined): void {
    const code = error?.code ?? "done";
    this.ended[code] = (this.ended[code] ?? 0) + 1;
  }
}

/** The parts of an exporter's state from which `statisticsOf` computes the statistics. */
export interface ExporterState {
  readonly path: string;
  readonly totals: ExporterTotals;
  /** The number of connections whose handshake is not complete. */
  readonly handshakes: number;
  readonly importers: Iterable<ConnectedImporter>;
  /** The number of connected operators. */
  readonly operators: number;
  /** All offers that have not ended. */
  readonly records: Iterable<OfferRecord>;
}

/** Returns an exporter's statistics: counts of its current connections, offers and leases, and its totals. */
export function statisticsOf(state: ExporterState): ExporterStatistics {
  const { path, totals, handshakes, importers, operators, records } = state;
  const { since, accepted, refused, ended, offersMade, traffic } = totals;
  const leases = {
    announced: { count: 0, byteLength: 0 },
    held: { count: 0, byteLength: 0 },
    releasing: { count: 0, byteLength: 0 },
    quarantined: { count: 0, byteLength: 0 },
  };
  const quarantined = new Set<OfferRecord>();
  let connected = 0;
  let lingering = 0;
  for (const { isConnected, sentOffers } of importers) {
    if (isConnected) connected++;
    else lingering++;
    for (const { isLease, state, record } of sentOffers.values()) {
      if (!isLease) continue;
      leases[state].count++;
      leases[state].byteLength += record.byteLength;
      if (state === "quarantined") quarantined.add(record);
    }
  }
  const offers = { count: 0, byteLength: 0, withdrawn: 0, made: offersMade };
  const channels: ChannelStatistics[] = [];
  for (const { isWithdrawn, byteLength, channel } of records) {
    if (isWithdrawn) {
      offers.withdrawn++;
      continue;
    }
    offers.count++;
    offers.byteLength += byteLength;
    if (channel !== undefined) channels.push(channel.statistics());
  }
  let quarantinedByteLength = 0;
  for (const { byteLength } of quarantined) quarantinedByteLength += byteLength;
  return {
    path,
    since,
    importers: { connected, handshakes, lingering, accepted, refused: { ...refused }, ended: { ...ended } },
    operators,
    offers,
    leases,
    quarantinedByteLength,
    traffic: { ...traffic },
    refusals: refusalStatistics(),
    channels,
  };
}
