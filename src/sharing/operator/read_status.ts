import type { ChannelStatistics } from "../channel/channel_hub.ts";
import type { ExporterStatistics, LeaseStatistics } from "../exporter/exporter_statistics.ts";
import { maximumSlots } from "../protocol/messages.ts";
import type { JsonValue } from "../protocol/metadata.ts";
import type { RefusalStatistics } from "../../support/refusals.ts";
import {
  boolean,
  both,
  type Check,
  count,
  json,
  list,
  nullOr,
  object,
  oneOf,
  optional,
  partial,
  text,
} from "./checked_json.ts";
import {
  type ExporterStatus,
  type LeftOut,
  type ListenerStatus,
  maximumHolders,
  maximumRows,
  type OfferStatus,
  type StoreEntryStatus,
  type StoreStatus,
} from "./status.ts";

/** Accepts a name of at most 255 characters, which is also the maximum number of bytes of an offer's name. */
const name = text(255);
const path = text(4096);
const uuid = nullOr(text(64));
const processStatus = object({ pid: count, uid: count, since: count });
const leaseState = oneOf("announced", "held", "releasing", "quarantined");
const metadata = optional("metadata", json);
const leftOut: Check<LeftOut> = object({ rows: count, holders: count, metadata: count });
const common = { version: text(64), pid: count, leftOut };

const channel: Check<ChannelStatistics> = object({
  name,
  slots: atMost(maximumSlots),
  slotByteLength: count,
  freeSlots: count,
  quarantinedSlots: count,
  sent: count,
  bytesSent: count,
  dropped: count,
  consumers: list(
    object({
      peer: object({ pid: count, uid: count, gid: count }),
      sent: count,
      dropped: count,
      held: count,
      lag: count,
    }),
    maximumHolders,
  ),
});

const leases: Check<LeaseStatistics> = object({ count, byteLength: count });

const refusals = optional(
  "refusals",
  object({ imports: partial(count), exports: partial(count), events: partial(count) }) as Check<RefusalStatistics>,
);

const exporterNumbers = object({
  path,
  since: count,
  importers: object({
    connected: count,
    handshakes: count,
    lingering: count,
    accepted: count,
    refused: partial(count),
    ended: partial(count),
  }),
  operators: count,
  offers: object({ count, byteLength: count, withdrawn: count, made: count }),
  leases: object({ announced: leases, held: leases, releasing: leases, quarantined: leases }),
  quarantinedByteLength: count,
  traffic: object({ messagesSent: count, messagesReceived: count, bytesSent: count, bytesReceived: count }),
  channels: list(channel, maximumRows),
});

const exporterStatistics: Check<ExporterStatistics> = both(exporterNumbers, refusals);

const offer: Check<OfferStatus> = both(
  object({
    name,
    kind: oneOf("buffer", "pool", "channel"),
    byteLength: count,
    since: count,
    device: uuid,
    isWithdrawn: boolean,
    holders: list(both(processStatus, object({ state: leaseState, count })), maximumHolders),
  }),
  both(metadata, optional("pool", count)),
);

const exporterStatus: Check<ExporterStatus> = object({
  kind: oneOf("exporter"),
  ...common,
  statistics: exporterStatistics,
  offers: list(offer, maximumRows),
});

const entry: Check<StoreEntryStatus> = both(
  object({
    name,
    generation: count,
    state: oneOf("unpublished", "published", "replaced", "removed"),
    byteLength: count,
    device: uuid,
    since: count,
    readers: list(processStatus, maximumHolders),
  }),
  both(metadata, optional("writer", processStatus)),
);

const storeStatus: Check<StoreStatus> = object({
  kind: oneOf("store"),
  ...common,
  statistics: object({
    path,
    since: count,
    clients: count,
    operators: count,
    entries: count,
    byteLength: count,
    published: count,
  }),
  limits: object({ maxSize: nullOr(count), maxSizeOfUser: nullOr(count) }),
  entries: list(entry, maximumRows),
});

const anyStatus = object({ kind: oneOf("exporter", "store") });

/**
 * Validates a status that a listener has sent.
 *
 * @throws {SharingError} `bad-message` if the value is not a status
 */
export function readStatus(value: JsonValue | undefined): ListenerStatus {
  const { kind } = anyStatus(value, "status");
  return kind === "exporter" ? exporterStatus(value, "status") : storeStatus(value, "status");
}

function atMost(maximum: number): Check<number> {
  return (value, at) => Math.min(count(value, at), maximum);
}
