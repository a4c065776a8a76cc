/**
 * Leases: the offers sent to an importer, and the progress of their release.
 *
 * @module
 */
import { printAs } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { checkMilliseconds, type KnownOptions } from "../../support/validation.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { abortable } from "../transport/abortable.ts";
import type { ConnectedImporter } from "./connected_importer.ts";
import type { OfferRecord } from "./offer.ts";

/** Options of `Lease.recall`. */
export interface RecallOptions extends WaitOptions {
  /** Milliseconds after which an importer that has not released the memory is cut off; unlimited by default. */
  deadline?: number;
}

const recallOptions: KnownOptions<RecallOptions> = {
  action: "recall a lease",
  names: { deadline: true, signal: true },
};

/**
 * An importer's use of an offer. While the lease lasts, the memory stays allocated, no matter what the exporter's
 * application does. Created by `Exporter.leases` and `Offer.leases`.
 *
 * @example Ask every importer to release what it holds, and cut off those that have not done so within a second
 * ```ts ignore
 * await Promise.allSettled(exporter.leases.map((lease) => lease.recall({ deadline: 1000 })));
 * ```
 */
export class Lease {
  #sentOffer: SentOffer;

  static {
    printAs(
      this,
      "Lease",
      (lease) => `Lease { ${lease.name}, process ${lease.peer.pid}, ${lease.state} }`,
      ["name", "peer", "since", "state", "byteLength"],
    );
  }

  /**
   * Created by `Exporter.leases`.
   *
   * @ignore
   */
  constructor(sentOffer: SentOffer) {
    this.#sentOffer = sentOffer;
  }

  /** The name of the offer. */
  get name(): string {
    return this.#current.record.name;
  }

  /** The process that holds the lease. */
  get peer(): Peer {
    return this.#current.importer.peer;
  }

  /** When the importer mapped the offer, or when the offer was sent if the importer has not mapped it. */
  get since(): Date {
    return new Date(this.#current.since);
  }

  /** The state of the lease; `"ended"` once the importer can no longer use the memory. */
  get state(): LeaseState | "ended" {
    return this.#current.isOver ? "ended" : this.#current.state;
  }

  /** The number of bytes that the lease holds. */
  get byteLength(): number {
    return this.#current.record.byteLength;
  }

  get #current(): SentOffer {
    const { successor } = this.#sentOffer;
    if (successor !== undefined) this.#sentOffer = successor;
    return this.#sentOffer;
  }

  /**
   * Asks the importer to release the memory, and resolves when the memory has been released. An importer that has not
   * released it by the deadline is cut off: its connection is closed. Until the importer's process has exited, the
   * memory stays allocated and the state of the lease is `"quarantined"`, because a mapping cannot be removed from
   * another process.
   *
   * @param options the deadline, and a signal that aborts the wait without revoking the request
   * @throws {TypeError} If the deadline is not a number
   * @throws {RangeError} If the deadline is negative
   * @throws {SharingError} `cut-off` if the importer has not released the memory by the deadline
   */
  recall(options: RecallOptions = {}): Promise<void> {
    const sentOffer = this.#current;
    const { importer, record } = sentOffer;
    return abortable(
      (resolve, reject) => {
        const { deadline: given = Infinity } = options;
        const deadline = checkMilliseconds(given, "a recall's deadline");
        if (sentOffer.isReleased) return resolve();
        let timer: ReturnType<typeof setTimeout> | undefined;
        const cancel = sentOffer.whenReleased(() => {
          clearTimeout(timer);
          resolve();
        });
        if (options.deadline !== undefined) {
          timer = setTimeout(() => {
            cancel();
            const what = `process ${importer.peer.pid} did not release "${record.name}" within ${deadline} ms`;
            importer.cutOff("cut-off", `It was cut off: ${what}`);
            const text = `Cannot get the memory back: ${what}; it stays allocated until that process has ended`;
            reject(new SharingError("cut-off", text));
          }, deadline);
        }
        if (isLogging) logEvent("recall", { peer: importer.peer.pid, name: record.name, deadline: options.deadline });
        if (sentOffer.recall === "no") sentOffer.recall = "wanted";
        importer.sendChange(record);
        return () => {
          cancel();
          clearTimeout(timer);
        };
      },
      options,
      { awaited: `process ${importer.peer.pid} to release "${record.name}"`, known: recallOptions },
    );
  }
}

/**
 * The state of a lease:
 * - `"announced"`: the importer was sent the offer and may map it at any time;
 * - `"held"`: the importer has mapped it;
 * - `"releasing"`: the importer has released it, but its work with the memory is not done;
 * - `"quarantined"`: the connection is closed, but the importer's process is still running.
 */
export type LeaseState = "announced" | "held" | "releasing" | "quarantined";

/**
 * The state of an offer that was sent to one importer. Until `isOver` is set, the importer may use the offered memory.
 */
export class SentOffer {
  readonly record: OfferRecord;
  importer: ConnectedImporter;
  /** The number of the importer's mappings that have not been released. */
  held = 0;
  /** The number of the importer's releases whose events have not fired. */
  releasing = 0;
  /**
   * When the importer mapped the offer, or when the offer was sent if it was never mapped, in milliseconds since 1970.
   */
  since: number = Date.now();
  /** Whether the importer has ever mapped the offer. */
  wasHeld = false;
  /** Whether the number of unreleased mappings has ever returned to 0, with all release events fired. */
  wasReleased = false;
  wasWithdrawn = false;
  /** Whether the importer has sent WITHDRAWN, after which it cannot map the offer again. */
  isAnswered = false;
  /** Whether RECALL is to be sent (`"wanted"`) or was sent. */
  recall: "no" | "wanted" | "sent" = "no";
  isOver = false;
  /** The `SentOffer` of another connection of the same process, into which this one was merged. */
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

  /**
   * Whether the importer uses the memory, or may use it although the offer was withdrawn or the connection is closed.
   */
  get isLease(): boolean {
    return this.held > 0 || this.releasing > 0 || this.record.isWithdrawn || !this.importer.isConnected;
  }

  /** Calls `callback` when the importer has released the offer. Returns a function that cancels the callback. */
  whenReleased(callback: () => void): () => void {
    const waiting = this.#waiting ??= new Set();
    waiting.add(callback);
    return () => waiting.delete(callback);
  }

  /**
   * Adds the counts and callbacks of another `SentOffer`, which belongs to the same offer and to another connection of
   * the same process. Both connections are closed.
   */
  absorb(other: SentOffer): void {
    other.successor = this;
    this.held += other.held;
    if (other.since < this.since) this.since = other.since;
    for (const callback of other.#waiting ?? []) this.whenReleased(callback);
    other.#waiting = undefined;
  }

  /**
   * Whether the importer has released the offer. For a withdrawn offer or a closed connection, whether the importer can
   * no longer use the offer.
   */
  get isReleased(): boolean {
    if (this.record.isWithdrawn || !this.importer.isConnected) return this.isOver;
    return this.held === 0 && this.releasing === 0;
  }

  /** On the importer's first complete release of the offer, increments the number of releases in the offer's record. */
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
