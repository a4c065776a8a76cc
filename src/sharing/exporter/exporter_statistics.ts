import { SharingError, type SharingErrorCode } from "../../support/errors.ts";
import { type RefusalStatistics, refusalStatistics } from "../../support/refusals.ts";
import type { ChannelStatistics } from "../channel/channel_hub.ts";
import type { TrafficStatistics } from "../protocol/message_stream.ts";
import type { ConnectedImporter } from "./connected_importer.ts";
import type { OfferRecord } from "./offer.ts";
import type { LeaseState } from "./lease.ts";

/** A number of leases, and the size of what they hold. */
export interface LeaseStatistics {
  /** The number of leases. */
  readonly count: number;
  /** The bytes that they hold. Memory that several importers hold counts once for each of them; a whole pool counts 0. */
  readonly byteLength: number;
}

/**
 * What `Exporter.statistics` returns: plain data, which `JSON.stringify` represents. Numbers that are documented as
 * totals count from when the exporter began to listen and never decrease; the others are of the moment.
 */
export interface ExporterStatistics {
  /** The path at which the exporter listens. */
  readonly path: string;
  /** When it began to listen, in milliseconds since 1970. */
  readonly since: number;
  /** The connections. */
  readonly importers: {
    /** Connected importers. */
    readonly connected: number;
    /** Connections whose handshake is not complete. */
    readonly handshakes: number;
    /** Ended connections whose processes live on and may have memory mapped. Many of one process count as 16. */
    readonly lingering: number;
    /** Total of importers that have completed the handshake. */
    readonly accepted: number;
    /**
     * Totals of connections that ended before the handshake was complete, by the code of the error: `limit-exceeded`,
     * `not-permitted` and others, or `peer-gone` if it was the other process that ended them.
     */
    readonly refused: Readonly<Partial<Record<SharingErrorCode, number>>>;
    /** Totals of importers that have disconnected, by the code of the error, or `done` if there was none. */
    readonly ended: Readonly<Partial<Record<SharingErrorCode | "done", number>>>;
  };
  /** Connected operators, who look at the exporter and hold nothing. */
  readonly operators: number;
  /** The offers, channels included. */
  readonly offers: {
    /** Offers that importers can map. */
    readonly count: number;
    /** Their bytes; a whole pool counts 0. */
    readonly byteLength: number;
    /** Withdrawn offers that importers still hold. */
    readonly withdrawn: number;
    /** Total of offers made. */
    readonly made: number;
  };
  /** What importers hold, by the state of the lease. It follows their messages, as `Exporter.leases` does. */
  readonly leases: Readonly<Record<LeaseState, LeaseStatistics>>;
  /**
   * Bytes of memory that cannot be freed or reused before processes end whose connections have ended. Each offer counts
   * once.
   */
  readonly quarantinedByteLength: number;
  /** Totals of what all connections have transferred, handshakes included. */
  readonly traffic: Readonly<TrafficStatistics>;
  /**
   * What the whole process has refused of other processes' memory and events: the same for all of its exporters. Absent
   * from the status of a listener whose version does not count it.
   */
  readonly refusals?: RefusalStatistics;
  /** The channels, in the order in which they were created. */
  readonly channels: readonly ChannelStatistics[];
}

/** The totals of an exporter. Their number is limited, whatever importers do. */
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

/** What `statisticsOf` needs to know of an exporter. */
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

/** Counts what an exporter has at the moment, and adds its totals. */
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
