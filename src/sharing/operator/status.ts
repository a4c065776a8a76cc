/**
 * The status that a listener sends to operators as a document of plain data, and the limits on the lists in it.
 *
 * @module
 */
import type { ExporterStatistics } from "../exporter/exporter_statistics.ts";
import type { LeaseState } from "../exporter/lease.ts";
import { decodeMetadata, type JsonValue } from "../protocol/metadata.ts";
import { maximumDepth } from "./checked_json.ts";

/** A process that uses memory of a listener. */
export interface ProcessStatus {
  /** The process ID, as the listener sees it; 0 if the process runs in another PID namespace. */
  readonly pid: number;
  /** The ID of the user that the process runs as. */
  readonly uid: number;
  /** When the process began to use the memory, in milliseconds since 1970. */
  readonly since: number;
}

/** An importer that holds an offer. */
export interface HolderStatus extends ProcessStatus {
  /** The state of the importer's lease. */
  readonly state: LeaseState;
  /**
   * The number of the importer's mappings of the offer that are not released, or whose memory is still used by work
   * that was enqueued before the release.
   */
  readonly count: number;
}

/** An offer of an exporter, as operators see it. */
export interface OfferStatus {
  /** The name of the offer. */
  readonly name: string;
  /** The kind of the offered memory; for a channel, the memory is its ring. */
  readonly kind: "buffer" | "pool" | "channel";
  /** The number of bytes offered; 0 for a whole pool. */
  readonly byteLength: number;
  /** When the offer was made, in milliseconds since 1970. */
  readonly since: number;
  /** The UUID of the device that the memory belongs to; null for host memory. */
  readonly device: string | null;
  /** The number of the pool among those that the exporter has shared. Absent if the listener runs an older version. */
  readonly pool?: number;
  /** Whether the offer was withdrawn but is still held. */
  readonly isWithdrawn: boolean;
  /** The metadata of the offer; absent if there is none or it was left out. */
  readonly metadata?: JsonValue;
  /** The importers that hold the offer, as in `Offer.leases`. */
  readonly holders: readonly HolderStatus[];
}

/** The numbers of items that were left out of a status to limit its size. */
export interface LeftOut {
  /** The number of omitted offers or entries. */
  readonly rows: number;
  /** The number of omitted holders, readers and consumers of listed offers and entries. */
  readonly holders: number;
  /** The number of offers or entries that are listed without their metadata. */
  readonly metadata: number;
}

/** The properties that the status of every listener has. */
export interface CommonStatus {
  /** The version of poolpass that the listener runs. */
  readonly version: string;
  /** The listener's process ID in its own PID namespace. */
  readonly pid: number;
  /** The numbers of items that are not listed. */
  readonly leftOut: LeftOut;
}

/** The status of an exporter. */
export interface ExporterStatus extends CommonStatus {
  /** The kind of listener. */
  readonly kind: "exporter";
  /** The exporter's statistics, including those of its channels. */
  readonly statistics: ExporterStatistics;
  /** The exporter's offers in order of creation, including withdrawn offers that are still held. */
  readonly offers: readonly OfferStatus[];
}

/** The statistics of a store. Numbers documented as totals count from `since` and never decrease. */
export interface StoreStatistics {
  /** The path at which the store listens. */
  readonly path: string;
  /** When the store began to listen, in milliseconds since 1970. */
  readonly since: number;
  /** The number of connected clients. */
  readonly clients: number;
  /** The number of connected operators. */
  readonly operators: number;
  /** The number of entries. Each generation of a name is a separate entry. */
  readonly entries: number;
  /** The bytes of the entries' memory. */
  readonly byteLength: number;
  /** The total number of generations published. */
  readonly published: number;
}

/** The limits of a store in bytes; null for no limit. */
export interface StoreLimits {
  /** The maximum number of bytes on each device. */
  readonly maxSize: number | null;
  /** The maximum number of bytes that may be charged to one user. */
  readonly maxSizeOfUser: number | null;
}

/**
 * The state of a generation in a store:
 * - `"unpublished"`: the writer has not published it;
 * - `"published"`: mapping the name returns it;
 * - `"replaced"`: a newer generation was published, but this one is still being read;
 * - `"removed"`: the name was removed, but the generation is still being read.
 */
export type StoreEntryState = "unpublished" | "published" | "replaced" | "removed";

/** A generation of a name in a store. */
export interface StoreEntryStatus {
  /** The name under which the memory is or will be published. */
  readonly name: string;
  /** The number of the generation, from 1. */
  readonly generation: number;
  /** The state, such as whether mapping the name returns this generation. */
  readonly state: StoreEntryState;
  /** The size of the memory in bytes. */
  readonly byteLength: number;
  /** The UUID of the device that the memory belongs to; null for host memory. */
  readonly device: string | null;
  /** When the generation was published, or created if it is unpublished, in milliseconds since 1970. */
  readonly since: number;
  /** The writer's metadata; absent if there is none or it was left out. */
  readonly metadata?: JsonValue;
  /** The processes that have the generation mapped. */
  readonly readers: readonly ProcessStatus[];
  /** The process that writes the generation, if there is one. */
  readonly writer?: ProcessStatus;
}

/** The status of a store. */
export interface StoreStatus extends CommonStatus {
  /** The kind of listener. */
  readonly kind: "store";
  /** The store's statistics. */
  readonly statistics: StoreStatistics;
  /** The store's limits. */
  readonly limits: StoreLimits;
  /** The entries of the store: the generations of all names. */
  readonly entries: readonly StoreEntryStatus[];
}

/** The status of a listener, as returned by `Operator.status`. */
export type ListenerStatus = ExporterStatus | StoreStatus;

/** The maximum number of offers or entries that a status lists. */
export const maximumRows = 10_000;
/** The maximum number of holders, readers and consumers, together, that a status lists. */
export const maximumHolders = 20_000;
/** The maximum number of characters of all metadata, as JSON, that a status lists. */
export const maximumMetadataLength: number = 2 ** 20;

/**
 * Limits the contents of a status, so that generating and sending a status takes little time regardless of the
 * listener's state.
 */
export class ListLimits {
  #rows = maximumRows;
  #holders = maximumHolders;
  #metadata = maximumMetadataLength;
  readonly #leftOut = { rows: 0, holders: 0, metadata: 0 };

  /** The numbers of items that were omitted because of the limits. */
  get leftOut(): LeftOut {
    return { ...this.#leftOut };
  }

  /** Returns whether another offer or entry may be listed, and counts the offer or entry as listed or omitted. */
  takeRow(): boolean {
    if (this.#rows-- > 0) return true;
    this.#leftOut.rows++;
    return false;
  }

  /**
   * Returns the first holders of an offer or entry, as many as may still be listed. Counts the holders as listed or
   * omitted.
   */
  takeHolders<Holder>(holders: readonly Holder[]): readonly Holder[] {
    const taken = holders.length <= this.#holders ? holders : holders.slice(0, this.#holders);
    this.#holders -= taken.length;
    this.#leftOut.holders += holders.length - taken.length;
    return taken;
  }

  /**
   * Returns an object with the metadata of an offer or entry as its only member. The object is empty if there is no
   * metadata or the limit on listed metadata is reached.
   */
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

/** Returns the maximum depth of nested arrays and objects in a JSON string. */
function depthOf(json: string): number {
  let [depth, deepest] = [0, 0];
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, ++depth);
    else if (token === "]" || token === "}") depth--;
  }
  return deepest;
}
