import { countOf, printAs } from "../../support/printing.ts";
import { checkNumber } from "../../support/validation.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import type { SentOffer } from "./sent_offer.ts";
import { Lease } from "./lease.ts";
import { decodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import type { OfferRecord } from "./offer_record.ts";
import { abortable } from "../../support/waiting/abortable.ts";

/** What an exporter does for its offers. */
export interface OfferOwner {
  withdraw(record: OfferRecord): void;
  /** What each importer was told of it, where that is not over. */
  sentOffersOf(record: OfferRecord): readonly SentOffer[];
}

/**
 * What an exporter offers: a buffer, a part of one, a whole pool, or the ring of a channel. Made by `Exporter.offer` and
 * `Exporter.createChannel`.
 *
 * Freeing the buffer withdraws its offers. The memory goes once nobody holds it.
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
    });
  }

  /**
   * Made by `Exporter.offer`.
   *
   * @ignore
   */
  constructor(record: OfferRecord, owner: OfferOwner) {
    this.#record = record;
    this.#owner = owner;
  }

  /** The name by which importers find it. */
  get name(): string {
    return this.#record.name;
  }

  /** Bytes that are offered; 0 for a whole pool. */
  get byteLength(): number {
    return this.#record.byteLength;
  }

  /** What the application says of it. */
  get metadata(): JsonValue | undefined {
    return decodeMetadata(this.#record.metadata);
  }

  /** Whether it was withdrawn: nobody can map it any more. */
  get isWithdrawn(): boolean {
    return this.#record.isWithdrawn;
  }

  /** Who holds it, since when. */
  get leases(): readonly Lease[] {
    return this.#owner.sentOffersOf(this.#record).filter((each) => each.isLease).map((each) => new Lease(each));
  }

  /**
   * Takes it back: nobody can map it any more, and its name is free. Who has it mapped keeps it, until released. A channel
   * ends.
   */
  withdraw(): void {
    this.#owner.withdraw(this.#record);
  }

  /**
   * Resolves when an importer has mapped it and released it, and its work with it is done; or has ended. As many
   * importers as `importers` says, 1 unless given. They may map it again until it is withdrawn.
   *
   * @param options how many importers; a signal ends the wait
   * @throws {TypeError} for a count that is no number
   * @throws {RangeError} for one that is not whole, or negative
   * @throws {ReferenceError} when it is withdrawn, and nobody holds it, before there were as many
   */
  released(options: WaitOptions & { importers?: number } = {}): Promise<void> {
    const record = this.#record;
    return abortable((resolve, reject) => {
      const { importers = 1 } = options;
      checkNumber(importers, "a count of importers");
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
    }, options);
  }

  /**
   * Resolves when it was withdrawn and nobody holds it any more.
   *
   * @param options a signal ends the wait
   */
  ended(options: WaitOptions = {}): Promise<void> {
    return abortable((callback) => this.#record.whenEnded(callback), options);
  }
}
