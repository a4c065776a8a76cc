import { printAs } from "../../support/printing.ts";
import { SharingError } from "../../support/errors.ts";
import { checkMilliseconds } from "../../support/validation.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import type { LeaseState, SentOffer } from "./sent_offer.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { abortable } from "../../support/waiting/abortable.ts";

/** Options of `Lease.recall`. */
export interface RecallOptions extends WaitOptions {
  /** Milliseconds after which the importer is cut off; it is waited for without end unless given. */
  deadline?: number;
}

/**
 * An importer's hold on what was offered. The memory stays for as long, whatever the exporter's application does. One of
 * `Exporter.leases` and `Offer.leases`.
 *
 * @example Ask whoever holds anything to let go, and cut off who does not within a second
 * ```ts ignore
 * await Promise.allSettled(exporter.leases.map((lease) => lease.recall({ deadline: 1000 })));
 * ```
 */
export class Lease {
  #sentOffer: SentOffer;

  static {
    printAs(this, "Lease", (lease) => `Lease { ${lease.name}, process ${lease.peer.pid}, ${lease.state} }`);
  }

  /**
   * Made by `Exporter.leases`.
   *
   * @ignore
   */
  constructor(sentOffer: SentOffer) {
    this.#sentOffer = sentOffer;
  }

  /** The offer's name. */
  get name(): string {
    return this.#current.record.name;
  }

  /** Who holds it. */
  get peer(): Peer {
    return this.#current.importer.peer;
  }

  /** Since when it is held; while it is only known, since when that is so. */
  get since(): Date {
    return new Date(this.#current.since);
  }

  /** How far it is; `"ended"` where nobody holds it any more. */
  get state(): LeaseState | "ended" {
    return this.#current.isOver ? "ended" : this.#current.state;
  }

  /** Bytes that are held. */
  get byteLength(): number {
    return this.#current.record.byteLength;
  }

  get #current(): SentOffer {
    const { successor } = this.#sentOffer;
    if (successor !== undefined) this.#sentOffer = successor;
    return this.#sentOffer;
  }

  /**
   * Asks the importer to let go, and resolves when it has. An importer that has not by the deadline is cut off: its
   * connection is closed, and it gets nothing more. What it still has mapped stays, `"quarantined"`, until its process
   * has ended, because nothing can take a mapping away from a process.
   *
   * @param options the deadline; a signal ends the wait, and what was asked stays asked
   * @throws {TypeError} for a deadline that is no number
   * @throws {RangeError} for one that is negative
   * @throws {SharingError} `cut-off` where the importer has not let go by the deadline
   */
  recall(options: RecallOptions = {}): Promise<void> {
    const sentOffer = this.#current;
    const { importer, record } = sentOffer;
    return abortable((resolve, reject) => {
      const deadline = checkMilliseconds(options.deadline ?? Infinity, "a recall's deadline");
      if (sentOffer.isReleased) return resolve();
      let timer: ReturnType<typeof setTimeout> | undefined;
      const cancel = sentOffer.whenReleased(() => {
        clearTimeout(timer);
        resolve();
      });
      if (options.deadline !== undefined) {
        timer = setTimeout(() => {
          cancel();
          const what = `process ${importer.peer.pid} did not let go of "${record.name}" in ${deadline} ms`;
          importer.cutOff("cut-off", `It was cut off: ${what}`);
          const text = `Cannot get the memory back: ${what}; it stays until that process has ended`;
          reject(new SharingError("cut-off", text));
        }, deadline);
      }
      if (sentOffer.recall === "no") sentOffer.recall = "wanted";
      importer.sendChange(record);
      return () => {
        cancel();
        clearTimeout(timer);
      };
    }, options);
  }
}
