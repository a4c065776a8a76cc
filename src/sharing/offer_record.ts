import type { Announcement } from "./announcement.ts";
import type { ChannelHub } from "./channel_hub.ts";
import type { ExportedAllocation, ExportedBuffer, ExportedPool } from "./exported_memory.ts";
import type { OfferMessage } from "./messages.ts";
import { hasCome, type ReadyMoment } from "./ready_events.ts";

/** An offer as its exporter knows it. */
export class OfferRecord {
  readonly identifier: number;
  readonly name: string;
  readonly kind: OfferMessage["kind"];
  readonly metadata: string;
  readonly pool: ExportedPool;
  /** Undefined for a whole pool. */
  readonly buffer: ExportedBuffer | undefined;
  /** Where in the allocation it begins. */
  readonly byteOffset: number;
  readonly byteLength: number;
  /** Of a channel's ring, what its producer does. */
  channel: ChannelHub | undefined;
  /** What each importer was told of it, until that is over. */
  readonly announcements: Set<Announcement> = new Set();
  /** What must come before it may be read; undefined once that is known to have come. */
  ready: ReadyMoment | undefined;
  /** Whether importers can be told of it: `ready` is an event that they can open, or has come. */
  isPublic = false;
  isWithdrawn = false;
  hasEnded = false;
  /** Importers that have mapped it and let go of it. */
  releases = 0;
  #waiting: Set<() => void> | undefined;
  #awaitingReleases: Set<() => void> | undefined;

  constructor(parts: {
    identifier: number;
    name: string;
    kind: OfferMessage["kind"];
    metadata: string;
    pool: ExportedPool;
    buffer?: ExportedBuffer;
    byteOffset?: number;
    byteLength?: number;
  }) {
    this.identifier = parts.identifier;
    this.name = parts.name;
    this.kind = parts.kind;
    this.metadata = parts.metadata;
    this.pool = parts.pool;
    this.buffer = parts.buffer;
    this.byteOffset = parts.byteOffset ?? 0;
    this.byteLength = parts.byteLength ?? 0;
  }

  /** What its buffer lies in; undefined for a whole pool. */
  get allocation(): ExportedAllocation | undefined {
    return this.buffer?.allocation;
  }

  /** What tells an importer of it now. */
  message(): OfferMessage {
    const isReady = this.ready === undefined || hasCome(this.ready);
    return {
      type: "offer",
      offer: this.identifier,
      kind: this.kind,
      allocation: this.allocation?.message.allocation ?? 0,
      pool: this.pool.message.pool,
      byteOffset: this.byteOffset,
      byteLength: this.byteLength,
      readyEvent: isReady ? 0 : this.ready!.own.message.event,
      name: this.name,
      metadata: this.metadata,
    };
  }

  /** Calls back at each release by another importer. Returns what ends that. */
  onRelease(callback: () => void): () => void {
    const awaiting = this.#awaitingReleases ??= new Set();
    awaiting.add(callback);
    return () => awaiting.delete(callback);
  }

  /** One more importer has mapped it and let go of it. */
  noteRelease(): void {
    this.releases++;
    for (const callback of [...this.#awaitingReleases ?? []]) callback();
  }

  /** Calls back when nobody can use it any more. Returns what ends that. */
  whenEnded(callback: () => void): () => void {
    if (this.hasEnded) callback();
    const waiting = this.#waiting ??= new Set();
    if (!this.hasEnded) waiting.add(callback);
    return () => waiting.delete(callback);
  }

  /** Nobody can use it any more. */
  end(): void {
    this.hasEnded = true;
    for (const callback of this.#waiting ?? []) callback();
    this.#waiting = undefined;
  }
}
