import type { ChannelHub } from "../channel/channel_hub.ts";
import type { ExportedAllocation, ExportedBuffer, ExportedPool } from "./exported_memory.ts";
import type { OfferMessage } from "../protocol/messages.ts";
import { textByteLength } from "../protocol/text_length.ts";
import { hasFired, type ReadyEvent } from "./ready_events.ts";

/** The constant properties of an offer. */
export interface OfferRecordParts {
  readonly identifier: number;
  readonly name: string;
  readonly kind: OfferMessage["kind"];
  readonly metadata: string;
  readonly pool: ExportedPool;
  /** The offered buffer; undefined for a whole pool. */
  readonly buffer: ExportedBuffer | undefined;
  /** The offset in the allocation in bytes; 0 for a whole pool. */
  readonly byteOffset: number;
  /** The size in bytes; 0 for a whole pool. */
  readonly byteLength: number;
}

/** The exporter's record of an offer. */
export class OfferRecord {
  readonly #parts: OfferRecordParts;
  /** When it was made, in milliseconds since 1970. */
  readonly since: number = Date.now();
  /** The producer's end of the channel, if the offer is a channel's ring. */
  channel: ChannelHub | undefined;
  /** The number of importers that it was sent to and for which it is not over. */
  sentCount = 0;
  /** Its index among the offers of its buffer. */
  index = 0;
  /** The event that must fire before the memory may be read; undefined once it is known to have fired. */
  ready: ReadyEvent | undefined;
  /** Whether it can be sent to importers: `ready` is an event that they can open, or has fired. */
  isPublic = false;
  isWithdrawn = false;
  hasEnded = false;
  /** The number of importers that have mapped and released it. */
  releases = 0;
  #waiting: Set<() => void> | undefined;
  #awaitingReleases: Set<() => void> | undefined;

  /** The number of bytes of its name and metadata. */
  readonly textByteLength: number;

  constructor(parts: OfferRecordParts) {
    this.#parts = parts;
    this.textByteLength = textByteLength(parts);
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

  /** The allocation that its buffer lies in; undefined for a whole pool. */
  get allocation(): ExportedAllocation | undefined {
    return this.buffer?.allocation;
  }

  /** The message that announces it to an importer, as of now. */
  message(): OfferMessage {
    const { identifier, kind, buffer, pool, byteOffset, byteLength, name, metadata } = this.#parts;
    const isReady = this.ready === undefined || hasFired(this.ready);
    return {
      type: "offer",
      offer: identifier,
      kind,
      allocation: buffer?.allocation.message.allocation ?? 0,
      pool: pool.message.pool,
      byteOffset,
      byteLength,
      readyEvent: isReady ? 0 : this.ready!.localEvent.message.event,
      name,
      metadata,
    };
  }

  /** Calls back each time another importer has released the offer. Returns a function that cancels the callback. */
  onRelease(callback: () => void): () => void {
    const awaiting = this.#awaitingReleases ??= new Set();
    awaiting.add(callback);
    return () => awaiting.delete(callback);
  }

  /** Counts one more importer that has mapped and released the offer. */
  countRelease(): void {
    this.releases++;
    for (const callback of [...this.#awaitingReleases ?? []]) callback();
  }

  /** Calls back when nobody can use the offer any more. Returns a function that cancels the callback. */
  whenEnded(callback: () => void): () => void {
    if (this.hasEnded) callback();
    const waiting = this.#waiting ??= new Set();
    if (!this.hasEnded) waiting.add(callback);
    return () => waiting.delete(callback);
  }

  /** Marks the offer as ended: nobody can use it any more. */
  end(): void {
    this.hasEnded = true;
    for (const callback of this.#waiting ?? []) callback();
    this.#waiting = undefined;
  }
}
