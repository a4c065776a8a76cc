/**
 * The mappings of other processes' memory. Each import and each free needs the mapping at an address, so the table of
 * addresses consists of integers, and mappings are reused: imports create no garbage.
 *
 * @module
 */
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { FreedStreams } from "../freed_streams.ts";

/**
 * The index of each field in a record of the hash table: the low and the high half of the address, and the index of the
 * next record in the bucket.
 */
const [lowAt, highAt, nextAt] = [0, 1, 2];
const recordLength = 4;
/** Marks the end of a chain of records. */
const none = -1;

const addressScratch = new BigUint64Array(1);
const addressWords = new Int32Array(addressScratch.buffer);

/** A mapping of another process's memory. */
export class ImportedMapping {
  /** The index in its {@linkcode ImportedMappings}. */
  readonly index: number;
  /** Size in bytes, as the driver maps it. */
  byteLength = 0;
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
  /** The export data in hexadecimal. Undefined if the mapping was not passed to `addData`. */
  data: string | undefined;
  constructor(index: number) {
    this.index = index;
  }
}

/**
 * The mappings of one imported pool by address, in a hash table with chained records, shared by all objects that have
 * imported the pool.
 */
export class ImportedMappings {
  /** One mapping for each record, by index. */
  readonly #mappings: ImportedMapping[] = [];
  #records = new Int32Array(0);
  /** For each bucket, the index of its first record. */
  #buckets = new Int32Array(0);
  /** The first of the unused records, which form a chain. */
  #idle = none;
  #size = 0;
  /**
   * The mappings of a pool in host memory, and those of offers, keyed by their export data in hexadecimal. Many
   * offers may be parts of one slab, and share its mapping. For memory that is already mapped, the driver returns the address if the memory is
   * on a device, but `cudaErrorAlreadyMapped` if it is on the host.
   */
  readonly #byData = new Map<string, ImportedMapping>();
  readonly #onUnused: () => void;
  readonly freedOn: FreedStreams = new FreedStreams();
  /** The number of objects that have imported the pool and have not been disposed. */
  importers = 0;
  /** The number of times that the driver has imported the pool. The pool must be destroyed as many times. */
  imports = 0;
  /** Whether the pool was released at the end of the session. */
  isReleased = false;
  /**
   * The device that the memory is on. Determined at the first import, when no other device has access. `setAccess` may
   * change this later.
   */
  memoryDevice: number | "host" | undefined;

  constructor(onUnused: () => void) {
    this.#onUnused = onUnused;
  }

  /** Number of mappings. */
  get size(): number {
    return this.#size;
  }

  /** Yields all mappings, in no particular order. */
  *[Symbol.iterator](): Generator<ImportedMapping, void> {
    for (let index of this.#buckets) {
      for (; index !== none; index = this.#records[index * recordLength + nextAt]!) yield this.#mappings[index]!;
    }
  }

  /** Returns the mapping at an index, which must be in use. */
  at(index: number): ImportedMapping {
    return this.#mappings[index]!;
  }

  addressOf({ index }: ImportedMapping): bigint {
    addressWords[0] = this.#records[index * recordLength + lowAt]!;
    addressWords[1] = this.#records[index * recordLength + highAt]!;
    return addressScratch[0]!;
  }

  /** Returns the mapping that was passed to `addData` with the same export data. */
  withData(data: string): ImportedMapping | undefined {
    return this.#byData.get(data);
  }

  addData(mapping: ImportedMapping, data: string): void {
    mapping.data = data;
    this.#byData.set(data, mapping);
  }

  /** Returns the mapping at an address. Adds one, of 0 bytes, if there is none. */
  withAddress(address: bigint): ImportedMapping {
    // A typed array converts a bigint faster than `Number`.
    addressScratch[0] = address;
    const [low, high] = [addressWords[0]!, addressWords[1]!];
    const hash = hashOf(low, high);
    for (let index = this.#first(hash); index !== none; index = this.#records[index * recordLength + nextAt]!) {
      const base = index * recordLength;
      if (this.#records[base + lowAt] === low && this.#records[base + highAt] === high) return this.#mappings[index]!;
    }
    if (this.#idle === none) this.#grow();
    const index = this.#idle;
    const base = index * recordLength;
    this.#idle = this.#records[base + nextAt]!;
    this.#records[base + lowAt] = low;
    this.#records[base + highAt] = high;
    this.#link(index, hash);
    this.#size++;
    return this.#mappings[index]!;
  }

  remove(mapping: ImportedMapping): void {
    const { index } = mapping;
    const base = index * recordLength;
    const records = this.#records;
    const next = records[base + nextAt]!;
    const bucket = this.#bucketOf(hashOf(records[base + lowAt]!, records[base + highAt]!));
    let previous = this.#buckets[bucket]!;
    if (previous === index) {
      this.#buckets[bucket] = next;
    } else {
      while (records[previous * recordLength + nextAt] !== index) previous = records[previous * recordLength + nextAt]!;
      records[previous * recordLength + nextAt] = next;
    }
    records[base + nextAt] = this.#idle;
    this.#idle = index;
    this.#size--;
    mapping.byteLength = mapping.bufferCount = 0;
    mapping.earlierFrees = undefined;
    if (mapping.data !== undefined) this.#byData.delete(mapping.data);
    mapping.data = undefined;
  }

  /** Adds an object that has imported the pool. */
  addImporter(): void {
    this.importers++;
    this.imports++;
  }

  /** Destroys an import whose `ImportedMemoryPool` could not be created. The pool must have no other importers. */
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

  #bucketOf(hash: number): number {
    return hash & (this.#buckets.length - 1);
  }

  #first(hash: number): number {
    return this.#size === 0 ? none : this.#buckets[this.#bucketOf(hash)]!;
  }

  #link(index: number, hash: number): void {
    const bucket = this.#bucketOf(hash);
    this.#records[index * recordLength + nextAt] = this.#buckets[bucket]!;
    this.#buckets[bucket] = index;
  }

  /** Doubles the number of records, all of which must be in use. */
  #grow(): void {
    const used = this.#mappings.length;
    const length = Math.max(16, used * 2);
    const earlier = this.#records;
    this.#records = new Int32Array(length * recordLength);
    this.#records.set(earlier);
    this.#buckets = new Int32Array(length).fill(none);
    for (let base = 0; base < earlier.length; base += recordLength) {
      this.#link(base / recordLength, hashOf(earlier[base + lowAt]!, earlier[base + highAt]!));
    }
    for (let index = used; index < length; index++) this.#mappings.push(new ImportedMapping(index));
    for (let index = length - 1; index >= used; index--) {
      this.#records[index * recordLength + nextAt] = this.#idle;
      this.#idle = index;
    }
  }
}

/** Hashes an address so that the lowest bits, which select the bucket, depend on all others (MurmurHash3's finalizer). */
function hashOf(low: number, high: number): number {
  let hash = low ^ Math.imul(high, 31);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}
