import { formatUuid } from "../../support/uuid.ts";
import { version } from "../../support/version.ts";
import type { ChannelStatistics } from "../channel/channel_hub.ts";
import { type ExporterStatus, type HolderStatus, ListLimits, type OfferStatus } from "../operator/status.ts";
import { ownProcessId } from "../transport/peer_process.ts";
import type { ConnectedImporter } from "./connected_importer.ts";
import type { ExporterStatistics } from "./exporter_statistics.ts";
import type { OfferRecord } from "./offer.ts";
import type { SentOffer } from "./lease.ts";

/** The parts of an exporter's state that `exporterStatusOf` reports. */
export interface ExporterStatusParts {
  readonly statistics: ExporterStatistics;
  readonly importers: Iterable<ConnectedImporter>;
  /** All offers that have not ended. */
  readonly records: Iterable<OfferRecord>;
}

/** Returns the status that an exporter sends to operators. */
export function exporterStatusOf({ statistics, importers, records }: ExporterStatusParts): ExporterStatus {
  const limits = new ListLimits();
  const holders = holdersOf(importers);
  const offers: OfferStatus[] = [];
  for (const record of records) {
    if (limits.takeRow()) offers.push(statusOf(record, limits.takeHolders(holders.get(record) ?? []), limits));
  }
  const channels: ChannelStatistics[] = [];
  const listed = new Set(offers.map(({ name }) => name));
  for (const channel of statistics.channels) {
    if (listed.has(channel.name)) channels.push({ ...channel, consumers: limits.takeHolders(channel.consumers) });
  }
  return {
    kind: "exporter",
    version,
    pid: ownProcessId(),
    statistics: { ...statistics, channels },
    offers,
    leftOut: limits.leftOut,
  };
}

function statusOf(record: OfferRecord, holders: readonly SentOffer[], limits: ListLimits): OfferStatus {
  const { name, kind, byteLength, since, isWithdrawn, pool, metadata } = record;
  return {
    name,
    kind,
    byteLength,
    since,
    device: pool.message.kind === "host" ? null : formatUuid(pool.message.deviceUuid),
    pool: pool.message.pool,
    isWithdrawn,
    ...limits.takeMetadata(metadata),
    holders: holders.map(holderOf),
  };
}

function holderOf({ importer: { peer }, state, since, held, releasing }: SentOffer): HolderStatus {
  return { pid: peer.pid, uid: peer.uid, since, state, count: held + releasing };
}

/** Maps each offer to its leases. */
function holdersOf(importers: Iterable<ConnectedImporter>): Map<OfferRecord, SentOffer[]> {
  const holders = new Map<OfferRecord, SentOffer[]>();
  for (const { sentOffers } of importers) {
    for (const sentOffer of sentOffers.values()) {
      if (!sentOffer.isLease) continue;
      const known = holders.get(sentOffer.record);
      if (known === undefined) holders.set(sentOffer.record, [sentOffer]);
      else known.push(sentOffer);
    }
  }
  return holders;
}
