import type { CudaStream } from "../objects/cuda_stream.ts";
import { ignoreLoss } from "../support/error_wording.ts";
import { type ExportDataEntry, ExportDataMap } from "./export_data.ts";
import { FreedStreams } from "./freed_streams.ts";
import { type HashEntry, HashTable, mixHash } from "../support/hash_table.ts";

const addressScratch = new BigUint64Array(1);
const addressWords = new Int32Array(addressScratch.buffer);

/** Memory of another process, mapped here. */
export class ImportedMapping implements HashEntry<ImportedMapping> {
  readonly address: bigint;
  /** What the driver says of it. */
  readonly byteLength: number;
  readonly hash: number;
  next: ImportedMapping | undefined;
  /** Its export data. */
  entry: ExportDataEntry<ImportedMapping> | undefined;
  /** Two data may name the same memory. */
  otherData: ExportDataEntry<ImportedMapping>[] | undefined;
  /** Buffers that show it: the driver unmaps at the first free, so that has to be the last buffer's. */
  count = 0;
  /** For each stream on which other buffers were freed, an event behind its work. */
  earlierFrees: Map<CudaStream, bigint> | undefined;

  constructor(address: bigint, byteLength: number) {
    this.address = address;
    this.byteLength = byteLength;
    this.hash = hashOf(address);
  }
}

/** The mappings of one pool, by export data and by address, for all objects that have imported it. */
export class ImportedMappings {
  readonly #byData = new ExportDataMap<ImportedMapping>();
  readonly #byAddress = new HashTable<ImportedMapping>();
  readonly #onAbandoned: () => void;
  readonly freedOn: FreedStreams = new FreedStreams();
  /** Objects that have imported the pool and not given it up. */
  importers = 0;
  /** Times that it was imported: the driver wants as many destroys. */
  imports = 0;
  /** The device whose memory the pool's is, as it was told at the first import: later, access may have been set. */
  resident: number | "host" | undefined;

  constructor(onAbandoned: () => void) {
    this.#onAbandoned = onAbandoned;
  }

  get size(): number {
    return this.#byAddress.size;
  }

  withData(exportData: Uint8Array): ImportedMapping | undefined {
    return this.#byData.get(exportData);
  }

  at(address: bigint): ImportedMapping | undefined {
    let mapping = this.#byAddress.first(hashOf(address));
    while (mapping !== undefined && mapping.address !== address) mapping = mapping.next;
    return mapping;
  }

  add(mapping: ImportedMapping): void {
    this.#byAddress.add(mapping);
  }

  /** Lets the export data that `withData` has just not found name the memory, which others may name too. */
  nameByLatest(mapping: ImportedMapping): void {
    const entry = this.#byData.addLatest(mapping);
    if (mapping.entry === undefined) mapping.entry = entry;
    else (mapping.otherData ??= []).push(entry);
  }

  remove(mapping: ImportedMapping): void {
    this.#byData.delete(mapping.entry!);
    mapping.otherData?.forEach((entry) => this.#byData.delete(entry));
    this.#byAddress.delete(mapping);
  }

  /** One more object has imported the pool. */
  join(): void {
    this.importers++;
    this.imports++;
  }

  /** Nobody keeps what was imported. */
  abandon(destroy: () => void): void {
    this.#onAbandoned();
    ignoreLoss(destroy);
  }

  /** One importer gives the pool up. Whether it was the last. */
  leave(): boolean {
    this.importers--;
    if (this.importers > 0) return false;
    this.#onAbandoned();
    return true;
  }
}

/** Through memory, since engines are slow to make numbers of bigints. */
function hashOf(address: bigint): number {
  addressScratch[0] = address;
  return mixHash(addressWords[0]! ^ Math.imul(addressWords[1]!, 31));
}
