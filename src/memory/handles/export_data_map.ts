/**
 * Maps keyed by the 64 bytes of export data, the hash table that they use, and the mappings of other processes' memory
 * that they contain.
 *
 * @module
 */
import { exportDataByteLength } from "../../driver.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { FreedStreams } from "../freed_streams.ts";

/** An entry of a {@linkcode HashTable}. */
export interface HashEntry<E> {
  /** A 32-bit integer. */
  hash: number;
  /** The next entry of the same bucket. Set only by the table. */
  next: E | undefined;
}

/**
 * A hash table with chained entries. To find an entry, follow the `next` links from the first entry of the hash's
 * bucket.
 */
export class HashTable<E extends HashEntry<E>> {
  #buckets: (E | undefined)[] = emptyBuckets(16);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Yields all entries, in no particular order. */
  *[Symbol.iterator](): Generator<E, void> {
    for (const first of this.#buckets) {
      for (let entry = first; entry !== undefined; entry = entry.next) yield entry;
    }
  }

  /** Returns the first entry of the bucket for a hash. The bucket may also have entries with other hashes. */
  first(hash: number): E | undefined {
    return this.#buckets[hash & (this.#buckets.length - 1)];
  }

  add(entry: E): void {
    if (this.#size === this.#buckets.length) this.#grow();
    this.#size++;
    link(this.#buckets, entry);
  }

  /** Deletes an entry, which must be in the table. */
  delete(entry: E): void {
    this.#size--;
    const index = entry.hash & (this.#buckets.length - 1);
    let previous = this.#buckets[index]!;
    if (previous === entry) {
      this.#buckets[index] = entry.next;
      return;
    }
    while (previous.next !== entry) previous = previous.next!;
    previous.next = entry.next;
  }

  #grow(): void {
    const buckets = emptyBuckets<E>(this.#buckets.length * 2);
    for (const first of this.#buckets) {
      let entry = first;
      while (entry !== undefined) {
        const { next } = entry;
        link(buckets, entry);
        entry = next;
      }
    }
    this.#buckets = buckets;
  }
}

/**
 * Mixes a hash so that the lowest bits, which select the bucket, depend on all other bits (MurmurHash3's finalizer).
 */
function mixHash(hash: number): number {
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

function emptyBuckets<E>(length: number): (E | undefined)[] {
  return new Array<E | undefined>(length).fill(undefined);
}

function link<E extends HashEntry<E>>(buckets: (E | undefined)[], entry: E): void {
  const index = entry.hash & (buckets.length - 1);
  entry.next = buckets[index];
  buckets[index] = entry;
}

/** An entry of the map, with the key as 32-bit words. */
export interface ExportDataEntry<V> extends HashEntry<ExportDataEntry<V>> {
  readonly words: number[];
  value: V | undefined;
}

/**
 * The key of the last lookup in any map, as 32-bit words, which are fast to compare.
 */
const keyWords = new Int32Array(exportDataByteLength / Int32Array.BYTES_PER_ELEMENT);
const keyBytes = new Uint8Array(keyWords.buffer);
let keyHash = 0;
/** The prime of the FNV hash (Fowler, Noll, Vo). */
const prime = 0x01000193;

/** Returns a 64-bit field of the key of the last lookup, by its index. Values above 2^53 may lose precision. */
export function keyFieldAt(index: number): number {
  return (keyWords[2 * index]! >>> 0) + (keyWords[2 * index + 1]! >>> 0) * 2 ** 32;
}

/** A map from export data to values. */
export class ExportDataMap<V> {
  readonly #table = new HashTable<ExportDataEntry<V>>();
  /** A linked list of deleted entries for reuse, so that imports create no garbage. */
  #idle: ExportDataEntry<V> | undefined;

  get(exportData: Uint8Array): V | undefined {
    loadKey(exportData);
    let entry = this.#table.first(keyHash);
    while (entry !== undefined && !(entry.hash === keyHash && equalsKey(entry.words))) entry = entry.next;
    return entry?.value;
  }

  /** Adds a value for the key of the last `get`, which must not have found one. Returns the entry, for `delete`. */
  addLatest(value: V): ExportDataEntry<V> {
    const entry = this.#idle ?? { hash: 0, words: new Array<number>(keyWords.length).fill(0), value, next: undefined };
    this.#idle = entry.next;
    entry.hash = keyHash;
    entry.value = value;
    for (let index = 0; index < keyWords.length; index++) entry.words[index] = keyWords[index]!;
    this.#table.add(entry);
    return entry;
  }

  delete(entry: ExportDataEntry<V>): void {
    this.#table.delete(entry);
    entry.value = undefined;
    entry.next = this.#idle;
    this.#idle = entry;
  }
}

/** Loads a key and hashes it, in four independent chains that a processor can execute in parallel. */
function loadKey(exportData: Uint8Array): void {
  keyBytes.set(exportData);
  let [a, b, c, d] = [0, 0, 0, 0];
  for (let index = 0; index < keyWords.length; index += 4) {
    a = Math.imul(a ^ keyWords[index]!, prime);
    b = Math.imul(b ^ keyWords[index + 1]!, prime);
    c = Math.imul(c ^ keyWords[index + 2]!, prime);
    d = Math.imul(d ^ keyWords[index + 3]!, prime);
  }
  keyHash = mixHash(a ^ Math.imul(b, 3) ^ Math.imul(c, 5) ^ Math.imul(d, 7));
}

function equalsKey(others: readonly number[]): boolean {
  for (let index = 0; index < keyWords.length; index++) {
    if (others[index] !== keyWords[index]) return false;
  }
  return true;
}

const addressScratch = new BigUint64Array(1);
const addressWords = new Int32Array(addressScratch.buffer);

/** A mapping of another process's memory. */
export class ImportedMapping implements HashEntry<ImportedMapping> {
  address: bigint;
  /** Size in bytes, as the driver maps it. */
  byteLength: number;
  hash: number;
  next: ImportedMapping | undefined;
  /** The map's entry for the export data of the memory. */
  entry: ExportDataEntry<ImportedMapping> | undefined;
  /** The map's entries for other export data that refers to the same memory. */
  otherEntries: ExportDataEntry<ImportedMapping>[] | undefined;
  /**
   * Number of buffers that use the mapping. The driver unmaps the memory at the first free, so only the last buffer's
   * free is passed to the driver.
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

/**
 * The mappings of one imported pool, by export data and by address, shared by all objects that have imported the pool.
 */
export class ImportedMappings {
  readonly #byData = new ExportDataMap<ImportedMapping>();
  readonly #byAddress = new HashTable<ImportedMapping>();
  /** A linked list of removed mappings for reuse, so that imports create no garbage. */
  #idle: ImportedMapping | undefined;
  readonly #onUnused: () => void;
  readonly freedOn: FreedStreams = new FreedStreams();
  /** Number of objects that have imported the pool and are not disposed. */
  importers = 0;
  /** Number of imports of the pool: the driver requires the same number of destroys. */
  imports = 0;
  /** Whether the end of the session has released the pool. */
  isReleased = false;
  /** The device that the memory is on, determined at the first import, because `setAccess` may hide it later. */
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

  /** Adds a mapping at an address that has no mapping yet. */
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
   * Adds the export data of the last `withData`, which must not have found a mapping, to `mapping`. A mapping may have
   * several export data.
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

  /** Destroys an import for which no object was created. The pool must have no other importers. */
  discard(destroy: () => void): void {
    this.#onUnused();
    ignoreLoss(destroy);
  }

  /** Removes an object that has imported the pool. Returns whether it was the last one. */
  removeImporter(): boolean {
    this.importers--;
    if (this.importers > 0) return false;
    this.#onUnused();
    return true;
  }
}

/** Hashes an address through a typed array, because engines are slow at converting bigints to numbers. */
function hashOf(address: bigint): number {
  addressScratch[0] = address;
  return mixHash(addressWords[0]! ^ Math.imul(addressWords[1]!, 31));
}
