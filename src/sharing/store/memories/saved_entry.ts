/**
 * Entries that lie in files when a store begins to serve.
 *
 * @module
 */
import type { CudaDevice } from "../../../objects/cuda_device.ts";
import { RangeError, TypeError } from "../../../support/program_errors.ts";
import { digestDigits, isDigest } from "../../../support/sha256.ts";
import { checkBoolean, checkByteLength, checkOptions, type KnownOptions, whatIs } from "../../../support/validation.ts";
import { checkOfferName, encodeMetadata, type JsonValue } from "../../protocol/metadata.ts";
import { checkRankOfSet } from "./publication_sets.ts";
import { maximumEntryMetadata } from "./store_table.ts";

/** An entry that lies in a file when a store begins to serve. */
export interface SavedEntry {
  /** The name under which the entry is published, 1 to 255 bytes in UTF-8. */
  readonly name: string;
  /** The absolute path of the file. */
  readonly path: string;
  /** The size of the entry's memory in bytes, at least 1. */
  readonly byteLength: number;
  /** The device that the entry moves to when it is mapped: one of the store's devices. Defaults to the first one. */
  readonly device?: CudaDevice;
  /** The metadata of the entry: any JSON value of at most 4 MiB. */
  readonly metadata?: JsonValue;
  /** The digest of the contents, as 64 hexadecimal digits. */
  readonly digest?: string;
  /** Whether the store never evicts the entry. False by default. */
  readonly keep?: boolean;
  /** The rank that has written the entry, and the number of ranks, all of which must be given. `[0, 1]` by default. */
  readonly rank?: readonly [rank: number, count: number];
}

const savedOptions: KnownOptions<SavedEntry> = {
  action: "serve a saved entry",
  names: {
    name: true,
    path: true,
    byteLength: true,
    device: true,
    metadata: true,
    digest: true,
    keep: true,
    rank: true,
  },
};

/** Throws unless a store with these devices can serve the entries. */
export function checkSaved(saved: readonly SavedEntry[], devices: readonly CudaDevice[]): void {
  if (!Array.isArray(saved)) throw new TypeError(`Cannot use ${whatIs(saved)} as saved: give an array of entries`);
  for (const entry of saved) {
    checkOptions(entry, savedOptions);
    const { name, path, byteLength, device, metadata, digest, keep = false, rank = [0, 1] } = entry;
    checkOfferName(name);
    const what = `Cannot serve the saved entry ${JSON.stringify(name)}`;
    if (typeof path !== "string" || !path.startsWith("/") || path.includes("\0")) {
      throw new TypeError(`${what}: its path is ${whatIs(path)}; give an absolute path`);
    }
    checkByteLength(byteLength, `the size of the saved entry ${JSON.stringify(name)}`, 1);
    if (device !== undefined && !devices.includes(device)) {
      throw new TypeError(`${what} on ${whatIs(device, "CudaDevice")}: give one of the store's devices`);
    }
    encodeMetadata(metadata, maximumEntryMetadata);
    if (digest !== undefined && !(typeof digest === "string" && isDigest(digest, digestDigits))) {
      throw new TypeError(`${what}: its digest is ${whatIs(digest)}; give 64 hexadecimal digits`);
    }
    checkBoolean(keep, "keep");
    checkRankOfSet(rank);
  }
  for (const [name, parts] of Map.groupBy(saved, ({ name }) => name)) {
    const ranks = new Set(parts.map(({ rank: [rank, count] = [0, 1] }) => `${rank}/${count}`));
    const [, count] = parts[0]!.rank ?? [0, 1];
    const isWhole = ranks.size === count && parts.length === count &&
      parts.every(({ rank = [0, 1] }) => rank[1] === count);
    if (isWhole) continue;
    throw new RangeError(
      `Cannot serve the saved entry ${JSON.stringify(name)}: give each of its ranks once, and not ${
        [...ranks].join(", ")
      }`,
    );
  }
}
