/**
 * Statuses of an exporter and a store, for tests of what is printed.
 *
 * @module
 */
import type { Rates, Sample } from "../../cli/top/sampler.ts";
import type { ChannelStatistics, ExporterStatus, ListenerStatus, OfferStatus, StoreStatus } from "../../mod.ts";

/** The time of the statuses, in milliseconds since 1970. */
export const now: number = Date.UTC(2026, 10, 24, 12);

const none = { count: 0, byteLength: 0 };
const holder = { pid: 101, uid: 1000, since: now - 90_000, count: 1 };

/** A channel with one consumer. */
export function channelOf(name: string, counts: Partial<ChannelStatistics> = {}): ChannelStatistics {
  return {
    name,
    slots: 4,
    slotByteLength: 2 ** 20,
    freeSlots: 1,
    quarantinedSlots: 0,
    sent: 1000,
    bytesSent: 1000 * 2 ** 20,
    dropped: 7,
    consumers: [{ peer: { pid: 102, uid: 1000, gid: 1000 }, sent: 990, dropped: 7, held: 2, lag: 3 }],
    ...counts,
  };
}

function offerOf(name: string, offer: Partial<OfferStatus> = {}): OfferStatus {
  return {
    name,
    kind: "buffer",
    byteLength: 1024,
    since: now - 3_600_000,
    device: "GPU-00000000-0000-0000-0000-000000000001",
    pool: 1,
    isWithdrawn: false,
    holders: [],
    ...offer,
  };
}

/** An exporter with a buffer that two hold, a channel, and a withdrawn pool. */
export function exporterStatus(channel: ChannelStatistics = channelOf("frames")): ExporterStatus {
  return {
    kind: "exporter",
    version: "0.1.0",
    pid: 100,
    leftOut: { rows: 0, holders: 0, metadata: 0 },
    statistics: {
      path: "/run/frames.sock",
      since: now - 7_200_000,
      importers: {
        connected: 2,
        handshakes: 1,
        lingering: 1,
        accepted: 12,
        refused: { "not-permitted": 3 },
        ended: { done: 8, "peer-gone": 2 },
      },
      operators: 1,
      offers: { count: 2, byteLength: 4 * 2 ** 20 + 1024, withdrawn: 1, made: 9 },
      leases: {
        announced: none,
        held: { count: 2, byteLength: 4 * 2 ** 20 + 1024 },
        releasing: none,
        quarantined: { count: 1, byteLength: 1024 },
      },
      quarantinedByteLength: 1024,
      traffic: { messagesSent: 1, messagesReceived: 2, bytesSent: 3, bytesReceived: 4 },
      refusals: { imports: { "too-large": 5 }, exports: { "too-large": 0 }, events: { forged: 6, "other-user": 7 } },
      channels: [channel],
    },
    offers: [
      offerOf("weights", {
        metadata: { dtype: "float32" },
        holders: [{ ...holder, state: "held", count: 2 }, { ...holder, pid: 0, state: "quarantined" }],
      }),
      offerOf(channel.name, {
        kind: "channel",
        byteLength: 4 * 2 ** 20,
        holders: [{ ...holder, pid: 102, state: "held" }],
      }),
      offerOf("\x1b[31mold\n", { kind: "pool", byteLength: 0, isWithdrawn: true }),
    ],
  };
}

/** A store with two generations of a name. */
export const storeStatus: StoreStatus = {
  kind: "store",
  version: "0.1.0",
  pid: 200,
  leftOut: { rows: 2, holders: 1000, metadata: 0 },
  statistics: {
    path: "/run/store.sock",
    since: now - 86_400_000 * 3,
    clients: 3,
    operators: 1,
    entries: 4,
    byteLength: 3 * 2 ** 30,
    published: 17,
  },
  limits: { maxSize: 64 * 2 ** 30, maxSizeOfUser: null },
  entries: [
    {
      name: "llama/漢字",
      generation: 2,
      state: "published",
      byteLength: 2 ** 31,
      device: "GPU-00000000-0000-0000-0000-000000000001",
      since: now - 60_000,
      readers: [],
      writer: { pid: 201, uid: 1000, since: now - 61_000 },
    },
    {
      name: "llama/漢字",
      generation: 1,
      state: "replaced",
      byteLength: 2 ** 30,
      device: "GPU-00000000-0000-0000-0000-000000000001",
      since: now - 3_600_000,
      metadata: { dtype: "float16" },
      readers: [{ pid: 202, uid: 1001, since: now - 3_000_000 }, { pid: 203, uid: 1001, since: now - 5000 }],
    },
  ],
};

/** Returns a sample of a listener whose channels and consumers all have the same rates. */
export function sampleWith(rates: Rates, status: ListenerStatus): Sample {
  const channels = status.kind === "exporter" ? status.statistics.channels : [];
  return {
    status,
    time: now,
    channels: new Map(channels.map(({ name }) => [name, rates])),
    consumers: new Map(channels.flatMap(({ consumers }) => consumers.map((consumer) => [consumer, rates]))),
    listenerPid: 0,
  };
}
