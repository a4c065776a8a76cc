import type { ChannelHub } from "../channel/channel_hub.ts";
import type { ExportedAllocation, ExportedBuffer, ExportedPool } from "./exported_memory.ts";
import type { OfferMessage } from "../protocol/messages.ts";
import { hasCome, type ReadyMoment } from "./ready_events.ts";

/** What an offer is of. */
export interface OfferRecordParts {
  readonly identifier: number;
  readonly name: string;
  readonly kind: OfferMessage["kind"];
  readonly metadata: string;
  readonly pool: ExportedPool;
  /** Undefined for a whole pool. */
  readonly buffer: ExportedBuffer | undefined;
  /** Where in the allocation it begins; 0 for a whole pool. */
  readonly byteOffset: number;
  /** 0 for a whole pool. */
  readonly byteLength: number;
}

/** An offer as its exporter knows it. */
export class OfferRecord {
  readonly #parts: OfferRecordParts;
  /** Of a channel's ring, what its producer does. */
  channel: ChannelHub | undefined;
  /** Importers that were told of it and for whom that is not over. */
  sentCount = 0;
  /** Where among the offers of its buffer it stands. */
  place = 0;
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

  constructor(parts: OfferRecordParts) {
    this.#parts = parts;
  }

  get identifier(): number {
    return this.#parts.identifier;
  }

  get name(): string {
    return this.#parts.name;
  }

  get kind(): OfferMessage["kind"] {
    return this.#parts.kind;
  }

  get metadata(): string {
    return this.#parts.metadata;
  }

  get pool(): ExportedPool {
    return this.#parts.pool;
  }

  get buffer(): ExportedBuffer | undefined {
    return this.#parts.buffer;
  }

  get byteLength(): number {
    return this.#parts.byteLength;
  }

  /** What its buffer lies in; undefined for a whole pool. */
  get allocation(): ExportedAllocation | undefined {
    return this.buffer?.allocation;
  }

  /** What tells an importer of it now. */
  message(): OfferMessage {
    const { identifier, kind, buffer, pool, byteOffset, byteLength, name, metadata } = this.#parts;
    const isReady = this.ready === undefined || hasCome(this.ready);
    return {
      type: "offer",
      offer: identifier,
      kind,
      allocation: buffer?.allocation.message.allocation ?? 0,
      pool: pool.message.pool,
      byteOffset,
      byteLength,
      readyEvent: isReady ? 0 : this.ready!.own.message.event,
      name,
      metadata,
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
