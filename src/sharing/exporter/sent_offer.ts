import type { ConnectedImporter } from "./connected_importer.ts";
import type { OfferRecord } from "./offer_record.ts";

/**
 * The state of a lease:
 * - `"announced"`: the importer has received the offer and may map it at any time;
 * - `"held"`: the importer has mapped it;
 * - `"releasing"`: the importer has released it, and its work with it is not done;
 * - `"quarantined"`: the connection has ended, and the importer's process has not.
 */
export type LeaseState = "announced" | "held" | "releasing" | "quarantined";

/** An offer that was sent to one importer. Until it is over, the importer may use the memory. */
export class SentOffer {
  readonly record: OfferRecord;
  importer: ConnectedImporter;
  /** How many times the importer has mapped it and not released it. */
  held = 0;
  /** The number of releases whose events have not fired. */
  releasing = 0;
  /** When the importer mapped it, in milliseconds since 1970. Before that, when it was sent. */
  since: number = Date.now();
  /** Whether the importer has mapped it. */
  wasHeld = false;
  /** Whether the importer has released it at least once. */
  wasReleased = false;
  wasWithdrawn = false;
  /** Whether the importer has sent WITHDRAWN: it will not map the offer again. */
  isAnswered = false;
  /** Whether RECALL is to be sent or was sent. */
  recall: "no" | "wanted" | "sent" = "no";
  isOver = false;
  /** The sent offer that replaces this one. It belongs to another connection of the same process. */
  successor: SentOffer | undefined;
  #waiting: Set<() => void> | undefined;

  constructor(record: OfferRecord, importer: ConnectedImporter) {
    this.record = record;
    this.importer = importer;
  }

  get state(): LeaseState {
    if (!this.importer.isConnected) return "quarantined";
    return this.held > 0 ? "held" : this.releasing > 0 ? "releasing" : "announced";
  }

  /** Whether the importer uses the memory, or may use it although the exporter wants it back. */
  get isLease(): boolean {
    return this.held > 0 || this.releasing > 0 || this.record.isWithdrawn || !this.importer.isConnected;
  }

  /** Calls back when the importer has released the offer. Returns a function that cancels the callback. */
  whenReleased(callback: () => void): () => void {
    const waiting = this.#waiting ??= new Set();
    waiting.add(callback);
    return () => waiting.delete(callback);
  }

  /**
   * Takes over the counts and callbacks of another sent offer of the same offer and process. The connections of both
   * have ended.
   */
  absorb(other: SentOffer): void {
    other.successor = this;
    this.held += other.held;
    if (other.since < this.since) this.since = other.since;
    for (const callback of other.#waiting ?? []) this.whenReleased(callback);
    other.#waiting = undefined;
  }

  /**
   * Whether the importer has released it. Once the offer was withdrawn or the connection has ended: whether the
   * importer can never use it again.
   */
  get isReleased(): boolean {
    if (this.record.isWithdrawn || !this.importer.isConnected) return this.isOver;
    return this.held === 0 && this.releasing === 0;
  }

  /** Counts the importer's first complete release. */
  countRelease(): void {
    if (!this.wasHeld || this.wasReleased || this.held > 0 || this.releasing > 0) return;
    this.wasReleased = true;
    this.record.countRelease();
  }

  /** Calls the pending callbacks if the importer has released the offer. */
  notify(): void {
    if (this.#waiting === undefined || !this.isReleased) return;
    const waiting = [...this.#waiting];
    this.#waiting = undefined;
    for (const callback of waiting) callback();
  }
}
