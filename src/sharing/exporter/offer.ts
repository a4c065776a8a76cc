/**
 * Offers: the object that the application uses, and the exporter's internal record.
 *
 * @module
 */
import { countOf, listOf, printAs } from "../../support/printing.ts";
import { checkNumber, type KnownOptions } from "../../support/validation.ts";
import { type WaitOptions, waitOptionsOf } from "../../support/waiting/waiting.ts";
import { Lease, type SentOffer } from "./lease.ts";
import { decodeMetadata, type JsonValue, textByteLength } from "../protocol/metadata.ts";
import { abortable } from "../transport/abortable.ts";
import type { ChannelHub } from "../channel/channel_hub.ts";
import type { ExportedAllocation, ExportedBuffer, ExportedPool } from "./exported_memory.ts";
import type { OfferMessage } from "../protocol/messages.ts";
import { hasFired, type ReadyEvent } from "./ready_events.ts";
import { RangeError, ReferenceError } from "../../support/program_errors.ts";

const releasedOptions: KnownOptions<WaitOptions & { importers?: number }> = {
  action: "wait for a release",
  names: { importers: true, signal: true },
};
const endedOptions = waitOptionsOf("wait for the end of an offer");

/** The operations of an exporter that its `Offer` objects call. */
export interface OfferOwner {
  withdraw(record: OfferRecord): void;
  /** Returns the `SentOffer` of each importer that may still use the offer. */
  sentOffersOf(record: OfferRecord): readonly SentOffer[];
}

/**
 * An offer of an exporter: a buffer, a part of one, a whole pool, or the ring of a channel. Created by `Exporter.offer`
 * and `Exporter.createChannel`.
 *
 * Freeing the buffer withdraws its offers. The memory itself is freed once no importer holds it.
 */
export class Offer {
  readonly #record: OfferRecord;
  readonly #owner: OfferOwner;

  static {
    printAs(this, "Offer", (offer) => {
      const state = offer.isWithdrawn ? ", withdrawn" : "";
      const { byteLength, kind } = offer.#record;
      const what = kind === "pool" ? "whole pool" : `${kind}, ${countOf(byteLength, "byte")}`;
      return `Offer { ${offer.name}, ${what}, ${countOf(offer.leases.length, "lease")}${state} }`;
    }, ["name", ["kind", (offer) => offer.#record.kind], "byteLength", "metadata", "leases", "isWithdrawn"]);
  }

  /**
   * Created by `Exporter.offer`.
   *
   * @ignore
   */
  constructor(record: OfferRecord, owner: OfferOwner) {
    this.#record = record;
    this.#owner = owner;
  }

  /** The name by which importers find the offer. */
  get name(): string {
    return this.#record.name;
  }

  /** The number of bytes offered; 0 for a whole pool. */
  get byteLength(): number {
    return this.#record.byteLength;
  }

  /** The metadata that the application passed to `offer`. */
  get metadata(): JsonValue | undefined {
    return decodeMetadata(this.#record.metadata);
  }

  /** Whether the offer was withdrawn. A withdrawn offer can no longer be mapped. */
  get isWithdrawn(): boolean {
    return this.#record.isWithdrawn;
  }

  /**
   * The leases of the importers that hold the offer. The list changes when messages from importers arrive, like
   * `Exporter.leases`.
   */
  get leases(): readonly Lease[] {
    return this.#owner.sentOffersOf(this.#record).filter((each) => each.isLease).map((each) => new Lease(each));
  }

  /**
   * Withdraws the offer: it can no longer be mapped, and its name can be reused. Importers that have it mapped keep it
   * until they release it. If the offer is a channel, the channel ends.
   */
  withdraw(): void {
    this.#owner.withdraw(this.#record);
  }

  /**
   * Resolves when the given number of importers have mapped the offer and are done with it: they have released it and
   * finished their work with it, or their processes have exited. Importers may map the offer again until it is
   * withdrawn.
   *
   * @param options the number of importers, 1 by default, and a signal that aborts the wait
   * @throws {TypeError} If the number of importers is not a number
   * @throws {RangeError} If the number of importers is negative or not an integer
   * @throws {ReferenceError} If the offer was withdrawn and no importer holds it any longer, although fewer importers
   * than requested have released it
   */
  released(options: WaitOptions & { importers?: number } = {}): Promise<void> {
    const record = this.#record;
    return abortable(
      (resolve, reject) => {
        const { importers = 1 } = options;
        checkNumber(importers, "the number of importers");
        if (!Number.isSafeInteger(importers) || importers < 0) {
          throw new RangeError(`Cannot wait for ${importers} importers: it must be a whole number of at least 0`);
        }
        if (record.releases >= importers) return resolve();
        const stop = (): void => {
          stopReleases();
          stopEnd();
        };
        const stopReleases = record.onRelease(() => {
          if (record.releases < importers) return;
          stop();
          resolve();
        });
        const stopEnd = record.whenEnded(() => {
          stopReleases();
          reject(new ReferenceError(`"${record.name}" was withdrawn before ${importers} importers had released it`));
        });
        return stop;
      },
      options,
      { awaited: `a release of "${record.name}"`, why: () => this.#holders(), known: releasedOptions },
    );
  }

  /**
   * Resolves once the offer has been withdrawn and no importer holds it any longer.
   *
   * @param options a signal that aborts the wait
   */
  ended(options: WaitOptions = {}): Promise<void> {
    return abortable((callback) => this.#record.whenEnded(callback), options, {
      awaited: `the end of offer "${this.name}"`,
      why: () => this.isWithdrawn ? this.#holders() : "it was not withdrawn",
      known: endedOptions,
    });
  }

  /** Returns the part of an error message that lists the processes that hold the offer; undefined if there are none. */
  #holders(): string | undefined {
    const pids = this.leases.map(({ peer }) => String(peer.pid));
    return pids.length === 0
      ? undefined
      : `${pids.length === 1 ? "process" : "processes"} ${listOf(pids)} ${pids.length === 1 ? "holds" : "hold"} it`;
  }
}

/** The constant properties of an offer. */
export interface OfferRecordParts {
  readonly identifier: number;
  readonly name: string;
  readonly kind: OfferMessage["kind"];
  readonly metadata: string;
  readonly pool: ExportedPool;
  /** The offered buffer; undefined for a whole pool. */
  readonly buffer: ExportedBuffer | undefined;
  /** The offset of the offered memory in the allocation, in bytes; 0 for a whole pool. */
  readonly byteOffset: number;
  /** The number of bytes offered; 0 for a whole pool. */
  readonly byteLength: number;
}

/** The state that the exporter keeps for an offer. */
export class OfferRecord {
  readonly #parts: OfferRecordParts;
  /** When the offer was made, in milliseconds since 1970. */
  readonly since: number = Date.now();
  /** The channel's producer, if the offer is the ring of a channel. */
  channel: ChannelHub | undefined;
  /** The number of importers that were sent the offer and may still use it. */
  sentCount = 0;
  /** The index of the offer in `ExportedBuffer.offers`. */
  index = 0;
  /** The event that must fire before the memory may be read; undefined once it is known to have fired. */
  ready: ReadyEvent | undefined;
  /**
   * Whether the offer can be sent to importers: the ready event has been determined, and either has fired or is an
   * event of the device that holds the memory.
   */
  isPublic = false;
  isWithdrawn = false;
  hasEnded = false;
  /** The number of importers that have mapped and released the offer. */
  releases = 0;
  #waiting: Set<() => void> | undefined;
  #awaitingReleases: Set<() => void> | undefined;

  /** The number of bytes of the offer's name and metadata. */
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

  get byteOffset(): number {
    return this.#parts.byteOffset;
  }

  get byteLength(): number {
    return this.#parts.byteLength;
  }

  /** The allocation that contains the offered buffer; undefined for a whole pool. */
  get allocation(): ExportedAllocation | undefined {
    return this.buffer?.allocation;
  }

  /** Returns the message that announces the offer to an importer in its current state. */
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

  /**
   * Calls `callback` each time another importer has released the offer. Returns a function that cancels the callback.
   */
  onRelease(callback: () => void): () => void {
    const awaiting = this.#awaitingReleases ??= new Set();
    awaiting.add(callback);
    return () => awaiting.delete(callback);
  }

  /**
   * Increments the number of importers that have mapped and released the offer, and calls the `onRelease` callbacks.
   */
  countRelease(): void {
    this.releases++;
    for (const callback of [...this.#awaitingReleases ?? []]) callback();
  }

  /**
   * Calls `callback` when the offer has ended, or immediately if it has ended already. Returns a function that cancels
   * the callback.
   */
  whenEnded(callback: () => void): () => void {
    if (this.hasEnded) callback();
    const waiting = this.#waiting ??= new Set();
    if (!this.hasEnded) waiting.add(callback);
    return () => waiting.delete(callback);
  }

  /** Marks the offer as ended: no importer can use it any longer. */
  end(): void {
    this.hasEnded = true;
    for (const callback of this.#waiting ?? []) callback();
    this.#waiting = undefined;
  }
}
