import type { CudaStream } from "./cuda_stream.ts";
import { giveBack } from "./explain.ts";
import { type ExportDataKey, ExportDataMap } from "./export_data.ts";
import { FreedStreams } from "./freed_streams.ts";

/** Memory of another process, mapped here. */
export interface ImportedMapping {
  /** Its export data: two data may name the same memory. */
  readonly keys: ExportDataKey[];
  readonly address: bigint;
  /** What the driver says of it. */
  readonly byteLength: number;
  /** Buffers that show it: the driver unmaps at the first free, so that has to be the last buffer's. */
  count: number;
  /** For each stream on which other buffers were freed, an event behind its work. */
  earlierFrees: Map<CudaStream, bigint> | undefined;
}

/** The mappings of one pool, by export data and by address, for all objects that have imported it. */
export class ImportedMappings {
  readonly #byData = new ExportDataMap<ImportedMapping>();
  readonly #byAddress = new Map<bigint, ImportedMapping>();
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

  withData(key: ExportDataKey): ImportedMapping | undefined {
    return this.#byData.get(key);
  }

  at(address: bigint): ImportedMapping | undefined {
    return this.#byAddress.get(address);
  }

  /** Other export data name the same memory. */
  alias(mapping: ImportedMapping, key: ExportDataKey): void {
    mapping.keys.push(key);
    this.#byData.add(key, mapping);
  }

  add(mapping: ImportedMapping): void {
    for (const key of mapping.keys) this.#byData.add(key, mapping);
    this.#byAddress.set(mapping.address, mapping);
  }

  remove(mapping: ImportedMapping): void {
    for (const key of mapping.keys) this.#byData.delete(key);
    this.#byAddress.delete(mapping.address);
  }

  /** One more object has imported the pool. */
  join(): void {
    this.importers++;
    this.imports++;
  }

  /** Nobody keeps what was imported. */
  abandon(destroy: () => void): void {
    this.#onAbandoned();
    giveBack(destroy);
  }

  /** One importer gives the pool up. Whether it was the last. */
  leave(): boolean {
    this.importers--;
    if (this.importers > 0) return false;
    this.#onAbandoned();
    return true;
  }
}
