import type { ConnectedImporter } from "./connected_importer.ts";
import type { OfferRecord } from "./offer_record.ts";

/** What a lease is at:
 * - `"announced"`: the importer knows of the offer and may map it at any time;
 * - `"held"`: the importer has it mapped;
 * - `"releasing"`: the importer has released it, and its work with it is not done;
 * - `"quarantined"`: the connection is at its end, and the importer's process is not.
 */
export type LeaseState = "announced" | "held" | "releasing" | "quarantined";

/** An offer as one importer was told of it. Until this is over, the memory may be in use there. */
export class SentOffer {
  readonly record: OfferRecord;
  importer: ConnectedImporter;
  /** Times that the importer has mapped it and not released it. */
  held = 0;
  /** Releases whose events have not fired. */
  releasing = 0;
  /** When the importer mapped it, in milliseconds since 1970; when it was told, before. */
  since: number = Date.now();
  /** Whether the importer has mapped it, and, since then, let go of it at least once. */
  wasHeld = false;
  wasReleased = false;
  wasWithdrawn = false;
  /** Whether the importer has said that it maps it no more. */
  isAnswered = false;
  /** Whether the importer's application is to be asked to let go. */
  recall: "no" | "wanted" | "sent" = "no";
  isOver = false;
  /** What stands for this one, of another connection of the same process, until that has ended. */
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

  /** Whether the importer uses the memory, or might without being asked again. */
  get isLease(): boolean {
    return this.held > 0 || this.releasing > 0 || this.record.isWithdrawn || !this.importer.isConnected;
  }

  /** Calls back when the importer has let go. Returns what cancels that. */
  whenReleased(callback: () => void): () => void {
    const waiting = this.#waiting ??= new Set();
    waiting.add(callback);
    return () => waiting.delete(callback);
  }

  /** Stands for another one of the same offer and the same process, whose connections are both at their end. */
  absorb(other: SentOffer): void {
    other.successor = this;
    this.held += other.held;
    if (other.since < this.since) this.since = other.since;
    for (const callback of other.#waiting ?? []) this.whenReleased(callback);
    other.#waiting = undefined;
  }

  /** Whether the importer has let go of it: for good, where it was withdrawn or its connection is at its end. */
  get isReleased(): boolean {
    if (this.record.isWithdrawn || !this.importer.isConnected) return this.isOver;
    return this.held === 0 && this.releasing === 0;
  }

  /** Counts a release, once nothing of it is left. */
  count(): void {
    if (!this.wasHeld || this.wasReleased || this.held > 0 || this.releasing > 0) return;
    this.wasReleased = true;
    this.record.noteRelease();
  }

  /** Calls those who wait for the importer to let go, if it has. */
  notify(): void {
    if (this.#waiting === undefined || !this.isReleased) return;
    const waiting = [...this.#waiting];
    this.#waiting = undefined;
    for (const callback of waiting) callback();
  }
}
