import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { type ExportDataEntry, ExportDataMap, type HashEntry, HashTable, mixHash } from "./export_data_map.ts";
import { FreedStreams } from "../freed_streams.ts";

const addressScratch = new BigUint64Array(1);
const addressWords = new Int32Array(addressScratch.buffer);

/** A mapping of another process's memory. */
export class ImportedMapping implements HashEntry<ImportedMapping> {
  address: bigint;
  /** Size in bytes, as the driver maps it. */
  byteLength: number;
  hash: number;
  next: ImportedMapping | undefined;
  /** The entry for its export data. */
  entry: ExportDataEntry<ImportedMapping> | undefined;
  /** Entries for other export data that refers to the same memory. */
  otherEntries: ExportDataEntry<ImportedMapping>[] | undefined;
  /**
   * Number of buffers over the mapping. The driver unmaps the memory at the first free, so it gets only the last
   * buffer's free.
   */
  bufferCount = 0;
  /**
   * For each stream on which earlier buffers of the mapping were freed: an event recorded after the latest of those
   * frees.
   */
  earlierFrees: Map<CudaStream, bigint> | undefined;

  constructor(address: bigint, byteLength: number, hash: number) {
    this.address = address;
    this.byteLength = byteLength;
    this.hash = hash;
  }
}

/** The mappings of one pool, by export data and by address, shared by all objects that have imported the pool. */
export class ImportedMappings {
  readonly #byData = new ExportDataMap<ImportedMapping>();
  readonly #byAddress = new HashTable<ImportedMapping>();
  /** A linked list of removed mappings. They are reused, so that imports create no garbage for them. */
  #idle: ImportedMapping | undefined;
  readonly #onUnused: () => void;
  readonly freedOn: FreedStreams = new FreedStreams();
  /** Number of objects that have imported the pool and are not disposed. */
  importers = 0;
  /** Number of imports: the driver expects as many destroys. */
  imports = 0;
  /** Whether the end of the session has released the pool. */
  isReleased = false;
  /** The device that the memory is on, determined at the first import: `setAccess` may hide it later. */
  memoryDevice: number | "host" | undefined;

  constructor(onUnused: () => void) {
    this.#onUnused = onUnused;
  }

  get size(): number {
    return this.#byAddress.size;
  }

  [Symbol.iterator](): Iterator<ImportedMapping> {
    return this.#byAddress[Symbol.iterator]();
  }

  withData(exportData: Uint8Array): ImportedMapping | undefined {
    return this.#byData.get(exportData);
  }

  at(address: bigint): ImportedMapping | undefined {
    let mapping = this.#byAddress.first(hashOf(address));
    while (mapping !== undefined && mapping.address !== address) mapping = mapping.next;
    return mapping;
  }

  /** Adds a mapping at an address that has none. */
  add(address: bigint, byteLength: number): ImportedMapping {
    const hash = hashOf(address);
    const mapping = this.#idle ?? new ImportedMapping(address, byteLength, hash);
    this.#idle = mapping.next;
    mapping.address = address;
    mapping.byteLength = byteLength;
    mapping.hash = hash;
    this.#byAddress.add(mapping);
    return mapping;
  }

  /**
   * Adds the export data of the last `withData`, which must not have found it, to a mapping. A mapping may have
   * several.
   */
  addLatestData(mapping: ImportedMapping): void {
    const entry = this.#byData.addLatest(mapping);
    if (mapping.entry === undefined) mapping.entry = entry;
    else (mapping.otherEntries ??= []).push(entry);
  }

  remove(mapping: ImportedMapping): void {
    this.#byData.delete(mapping.entry!);
    mapping.otherEntries?.forEach((entry) => this.#byData.delete(entry));
    this.#byAddress.delete(mapping);
    mapping.entry = mapping.otherEntries = mapping.earlierFrees = undefined;
    mapping.bufferCount = 0;
    mapping.next = this.#idle;
    this.#idle = mapping;
  }

  /** Adds an object that has imported the pool. */
  addImporter(): void {
    this.importers++;
    this.imports++;
  }

  /** Destroys an import for which no object was created, while the pool has no other importers. */
  discard(destroy: () => void): void {
    this.#onUnused();
    ignoreLoss(destroy);
  }

  /** Removes an object that has imported the pool. Returns whether it was the last. */
  removeImporter(): boolean {
    this.importers--;
    if (this.importers > 0) return false;
    this.#onUnused();
    return true;
  }
}

/** Hashes an address through a typed array, because engines convert bigints to numbers slowly. */
function hashOf(address: bigint): number {
  addressScratch[0] = address;
  return mixHash(addressWords[0]! ^ Math.imul(addressWords[1]!, 31));
}
