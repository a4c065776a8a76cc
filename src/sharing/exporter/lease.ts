import { printAs } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { isLogging, logEvent } from "../../support/event_log.ts";
import { checkMilliseconds, type KnownOptions } from "../../support/validation.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import type { LeaseState, SentOffer } from "./sent_offer.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { abortable } from "../transport/abortable.ts";

/** Options of `Lease.recall`. */
export interface RecallOptions extends WaitOptions {
  /** Milliseconds after which the importer is cut off. By default, the wait has no limit. */
  deadline?: number;
}

const recallOptions: KnownOptions<RecallOptions> = {
  action: "recall a lease",
  names: { deadline: true, signal: true },
};

/**
 * An importer's hold on an offer. It keeps the memory allocated, whatever the exporter's application does. Made by
 * `Exporter.leases` and `Offer.leases`.
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
   * Made by `Exporter.leases`.
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

  /** The process that holds it. */
  get peer(): Peer {
    return this.#current.importer.peer;
  }

  /** When the importer mapped it. If the importer has only received the offer, when it was sent. */
  get since(): Date {
    return new Date(this.#current.since);
  }

  /** The state of the lease; `"ended"` once nobody holds it any more. */
  get state(): LeaseState | "ended" {
    return this.#current.isOver ? "ended" : this.#current.state;
  }

  /** The number of bytes that are held. */
  get byteLength(): number {
    return this.#current.record.byteLength;
  }

  get #current(): SentOffer {
    const { successor } = this.#sentOffer;
    if (successor !== undefined) this.#sentOffer = successor;
    return this.#sentOffer;
  }

  /**
   * Asks the importer to release the memory, and resolves when it has. An importer that has not released it by the
   * deadline is cut off: its connection is closed, and it receives nothing more. What it still has mapped stays,
   * `"quarantined"`, until its process has ended, because a mapping cannot be taken away from a process.
   *
   * @param options the deadline; a signal ends the wait, but does not revoke the request
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
