import { memAccessFlags } from "../../driver.ts";
import { MappingLeases } from "./mapping_leases.ts";
import type { ExportedPointer, PoolFileHeader } from "../memory/pool_file.ts";
import { poolFileHeaderByteLength } from "../memory/pool_file.ts";
import type { SharedFile } from "../memory/shared_file.ts";
import { granuleByteLength, type LinearMemory, pageByteLength, wholePages } from "../memory/linear_memory.ts";

/** An allocation of another process, mapped here. */
export interface PointerMapping {
  /** Which allocation it is. */
  readonly key: string;
  readonly begin: number;
  readonly byteLength: number;
  /** The whole pages around it. */
  readonly pages: { readonly begin: number; readonly byteLength: number };
  /** What keeps the exporter from giving the memory back. */
  readonly lease: number;
}

/** A pool of another process, or of this one by way of its descriptor. */
export class ImportedPool {
  readonly id: string;
  /** Undefined for memory of the host. */
  readonly device: number | undefined;
  /** Which file its memory is. */
  readonly identity: string;
  /** How often it was imported and not destroyed: the last destroys it. */
  importCount = 1;
  /** Whether it was destroyed and the last of its mappings is gone. */
  isClosed = false;
  /** `memAccessFlags` by device. */
  readonly access: Map<number, number>;
  /** By their keys: export data is mapped once. */
  readonly mappings: Map<string, PointerMapping> = new Map();
  /** Those, and the ones whose free has not been reached by its stream. */
  readonly #mapped = new Set<PointerMapping>();
  readonly #linearMemory: LinearMemory;
  readonly #file: SharedFile;
  /** Undefined until there is a mapping. */
  #leases: MappingLeases | undefined;
  #isDestroyed = false;

  constructor(
    linearMemory: LinearMemory,
    { device, header, file }: { device: number | undefined; header: PoolFileHeader; file: SharedFile },
  ) {
    this.#linearMemory = linearMemory;
    this.#file = file;
    this.id = header.id;
    this.identity = file.identity();
    this.device = device;
    this.access = new Map(device === undefined ? [] : [[device, memAccessFlags.readWrite]]);
  }

  /** Maps an allocation, or finds it mapped. */
  map({ fileOffset, byteLength }: ExportedPointer): PointerMapping | "out of memory" | "not in the file" {
    const key = `${fileOffset}+${byteLength}`;
    const known = this.mappings.get(key);
    if (known !== undefined) return known;
    const isInFile = fileOffset >= poolFileHeaderByteLength && fileOffset % granuleByteLength === 0 && byteLength > 0 &&
      fileOffset + byteLength <= this.#file.currentByteLength();
    if (!isInFile) return "not in the file";
    const before = fileOffset % pageByteLength;
    // Before it is mapped: without a lease the exporter could give the memory to somebody else.
    this.#leases ??= MappingLeases.open(this.#linearMemory, this.#file);
    const lease = this.#leases?.take({ begin: fileOffset, end: fileOffset + byteLength });
    const offset = fileOffset - before;
    const pages = lease === undefined ? undefined : this.#mapPages(offset, wholePages(before + byteLength));
    if (lease === undefined || pages === undefined) {
      if (lease !== undefined) this.#leases?.giveBack(lease);
      this.#closeUnusedLeases();
      return "out of memory";
    }
    const mapping = { key, begin: pages.begin + before, byteLength, pages, lease };
    this.mappings.set(key, mapping);
    this.#mapped.add(mapping);
    for (const [device, flags] of this.access) {
      if (flags !== memAccessFlags.none) this.#linearMemory.allow(device, mapping.begin, byteLength);
    }
    return mapping;
  }

  #mapPages(fileOffset: number, byteLength: number): PointerMapping["pages"] | undefined {
    const begin = this.#linearMemory.reserve(byteLength);
    if (begin === undefined) return undefined;
    if (this.#file.tryMap(this.#linearMemory, { begin, byteLength, fileOffset })) return { begin, byteLength };
    // A mapping that failed may have left a hole in linear memory.
    this.#linearMemory.giveBack(begin, byteLength, { isShared: true });
    return undefined;
  }

  /** Gives linear memory's pages back. The mapping is no longer among `mappings`. */
  unmap(mapping: PointerMapping): void {
    const { begin, byteLength, pages, lease } = mapping;
    if (!this.#mapped.delete(mapping)) return;
    for (const device of this.access.keys()) this.#linearMemory.deny(device, begin, byteLength);
    this.#linearMemory.giveBack(pages.begin, pages.byteLength, { isShared: true });
    this.#leases?.giveBack(lease);
    this.#closeWhenUnused();
  }

  setAccess(device: number, flags: number): void {
    this.access.set(device, flags);
    for (const { begin, byteLength } of this.#mapped) {
      if (flags === memAccessFlags.none) this.#linearMemory.deny(device, begin, byteLength);
      else this.#linearMemory.allow(device, begin, byteLength);
    }
  }

  /** The pool goes; a mapping whose free has not been reached by its stream stays until then. */
  destroy(): void {
    this.#isDestroyed = true;
    this.#closeWhenUnused();
  }

  /** Gives everything back at once: the driver goes. */
  close(): void {
    this.#isDestroyed = true;
    for (const mapping of this.#mapped) this.unmap(mapping);
    this.mappings.clear();
    this.#closeWhenUnused();
  }

  #closeUnusedLeases(): void {
    if (this.#mapped.size > 0) return;
    this.#leases?.close();
    this.#leases = undefined;
  }

  #closeWhenUnused(): void {
    if (!this.#isDestroyed || this.isClosed || this.#mapped.size > 0) return;
    this.isClosed = true;
    this.#closeUnusedLeases();
    this.#file.close();
  }
}
