/**
 * The status of a listener for operators: plain data, which is sent as a document, and the limits on its lists.
 *
 * @module
 */
import type { ExporterStatistics } from "../exporter/exporter_statistics.ts";
import type { LeaseState } from "../exporter/lease.ts";
import { decodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import { maximumDepth } from "./checked_json.ts";

/** A process that uses something of a listener. */
export interface ProcessStatus {
  /** Its process ID, as the listener sees it; 0 if it lives in another PID namespace. */
  readonly pid: number;
  /** The user that it runs as. */
  readonly uid: number;
  /** Since when it uses it, in milliseconds since 1970. */
  readonly since: number;
}

/** An importer that holds an offer. */
export interface HolderStatus extends ProcessStatus {
  /** The state of its lease. */
  readonly state: LeaseState;
  /** How many times it has mapped the offer and not released it, work that is not done included. */
  readonly count: number;
}

/** An offer of an exporter. */
export interface OfferStatus {
  /** Its name. */
  readonly name: string;
  /** What is offered; a channel's ring, if it is a channel. */
  readonly kind: "buffer" | "pool" | "channel";
  /** The number of bytes offered; 0 for a whole pool. */
  readonly byteLength: number;
  /** When it was offered, in milliseconds since 1970. */
  readonly since: number;
  /** The UUID of the device that the memory belongs to; null for host memory. */
  readonly device: string | null;
  /** Whether it was withdrawn, and is still held. */
  readonly isWithdrawn: boolean;
  /** The metadata that the application gave it, if there is any and it is listed. */
  readonly metadata?: JsonValue;
  /** The importers that hold it, as `Offer.leases` has them. */
  readonly holders: readonly HolderStatus[];
}

/** How much a status does not list, because it would be too long. */
export interface LeftOut {
  /** Offers or entries. */
  readonly rows: number;
  /** Holders, readers and consumers of what is listed. */
  readonly holders: number;
  /** Rows that are listed without their metadata. */
  readonly metadata: number;
}

/** The members of every status. */
export interface CommonStatus {
  /** The version of poolpass that the listener runs. */
  readonly version: string;
  /** The listener's process ID, as it sees itself. */
  readonly pid: number;
  /** How much is not listed. */
  readonly leftOut: LeftOut;
}

/** The status of an exporter. */
export interface ExporterStatus extends CommonStatus {
  /** What listens. */
  readonly kind: "exporter";
  /** Its numbers, with those of its channels. */
  readonly statistics: ExporterStatistics;
  /** Its offers, in the order in which they were made, with those that were withdrawn and are held. */
  readonly offers: readonly OfferStatus[];
}

/** The numbers of a store. Those that are documented as totals count from `since` and never decrease. */
export interface StoreStatistics {
  /** The path at which it listens. */
  readonly path: string;
  /** When it began to listen, in milliseconds since 1970. */
  readonly since: number;
  /** Connected clients. */
  readonly clients: number;
  /** Connected operators. */
  readonly operators: number;
  /** Its entries, every generation counted. */
  readonly entries: number;
  /** The bytes of their memory. */
  readonly byteLength: number;
  /** Total of generations that were published. */
  readonly published: number;
}

/** The limits of a store in bytes; null if there is none. */
export interface StoreLimits {
  /** The maximum number of bytes of each device. */
  readonly maxSize: number | null;
  /** The maximum number of bytes of one user. */
  readonly maxSizeOfUser: number | null;
}

/**
 * The state of a generation in a store:
 * - `"unpublished"`: its writer has not published it;
 * - `"published"`: processes that map the name get it;
 * - `"replaced"`: a newer one was published, and it is still read;
 * - `"removed"`: its name was removed, and it is still read.
 */
export type StoreEntryState = "unpublished" | "published" | "replaced" | "removed";

/** A generation of a name in a store. */
export interface StoreEntryStatus {
  /** Its name. */
  readonly name: string;
  /** The number of the generation, from 1. */
  readonly generation: number;
  /** Whether it is the one that is mapped under the name. */
  readonly state: StoreEntryState;
  /** The size of its memory in bytes. */
  readonly byteLength: number;
  /** The UUID of the device that the memory belongs to; null for host memory. */
  readonly device: string | null;
  /** When it was published, or before that created, in milliseconds since 1970. */
  readonly since: number;
  /** The metadata that its writer gave it, if there is any and it is listed. */
  readonly metadata?: JsonValue;
  /** The processes that have it mapped. */
  readonly readers: readonly ProcessStatus[];
  /** The process that writes it, if there is one. */
  readonly writer?: ProcessStatus;
}

/** The status of a store. */
export interface StoreStatus extends CommonStatus {
  /** What listens. */
  readonly kind: "store";
  /** Its numbers. */
  readonly statistics: StoreStatistics;
  /** Its limits. */
  readonly limits: StoreLimits;
  /** The generations of all names. */
  readonly entries: readonly StoreEntryStatus[];
}

/** What an operator is answered. */
export type ListenerStatus = ExporterStatus | StoreStatus;

/** The maximum number of offers or entries that a status lists. */
export const maximumRows = 10_000;
/** The maximum number of holders, readers and consumers that it lists. */
export const maximumHolders = 20_000;
/** The maximum number of characters of all metadata that it lists, as JSON. */
export const maximumMetadataLength: number = 2 ** 20;

/** Decides what a status lists, so that whatever there is, it is made and sent in a short time. */
export class ListLimits {
  #rows = maximumRows;
  #holders = maximumHolders;
  #metadata = maximumMetadataLength;
  readonly #leftOut = { rows: 0, holders: 0, metadata: 0 };

  /** How much was not listed. */
  get leftOut(): LeftOut {
    return { ...this.#leftOut };
  }

  /** Whether another row may be listed. */
  takeRow(): boolean {
    if (this.#rows-- > 0) return true;
    this.#leftOut.rows++;
    return false;
  }

  /** The first holders of a row, as many as may be listed. */
  takeHolders<Holder>(holders: readonly Holder[]): readonly Holder[] {
    const taken = holders.length <= this.#holders ? holders : holders.slice(0, this.#holders);
    this.#holders -= taken.length;
    this.#leftOut.holders += holders.length - taken.length;
    return taken;
  }

  /** The metadata of a row, as a property, if there is any and it may be listed. */
  takeMetadata(json: string): { readonly metadata?: JsonValue } {
    if (json === "") return {};
    if (json.length > this.#metadata || depthOf(json) > maximumDepth) {
      this.#leftOut.metadata++;
      return {};
    }
    this.#metadata -= json.length;
    return { metadata: decodeMetadata(json)! };
  }
}

/** How many levels of arrays and objects JSON has. */
function depthOf(json: string): number {
  let [depth, deepest] = [0, 0];
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, ++depth);
    else if (token === "]" || token === "}") depth--;
  }
  return deepest;
}
