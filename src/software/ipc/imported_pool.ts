import { memAccessFlags } from "../../driver.ts";
import { MappingLeases } from "./mapping_leases.ts";
import { type ExportedPointer, type PoolFileHeader, poolFileHeaderByteLength } from "../memory/pool_file.ts";
import type { SharedFile } from "../memory/shared_file.ts";
import type { Range } from "../memory/range_allocator.ts";
import { granuleByteLength, type LinearMemory, pageByteLength, wholePages } from "../memory/linear_memory.ts";

/** An allocation of another process, mapped here. */
export interface PointerMapping {
  /** Identifies the allocation within its pool. */
  readonly key: string;
  readonly begin: number;
  readonly byteLength: number;
  /** The whole pages that contain the allocation. */
  readonly pages: { readonly begin: number; readonly byteLength: number };
  /** The range of the file whose lease keeps the exporter from releasing the memory. */
  readonly leased: Range;
}

/** A pool that was imported by its descriptor, from another process or from this one. */
export class ImportedPool {
  readonly id: string;
  /** The process that created the pool. */
  readonly processId: number;
  /** Undefined for host memory. */
  readonly device: number | undefined;
  /** Identifies the pool's file. */
  readonly identity: string;
  /** The number of imports that have not been destroyed. Destroying the last one destroys the pool. */
  importCount = 1;
  /** Whether the pool was destroyed and the last of its mappings was removed. */
  isClosed = false;
  /** `memAccessFlags` by device. */
  readonly access: Map<number, number>;
  /** The mappings by their keys. The same export data is mapped only once. */
  readonly mappings: Map<string, PointerMapping> = new Map();
  /** All of `mappings`, and the freed mappings whose free their stream has not reached. */
  readonly #mapped = new Set<PointerMapping>();
  readonly #linearMemory: LinearMemory;
  readonly #file: SharedFile;
  readonly #leases: MappingLeases;
  #isDestroyed = false;

  constructor(
    linearMemory: LinearMemory,
    { device, header, file }: { device: number | undefined; header: PoolFileHeader; file: SharedFile },
  ) {
    this.#linearMemory = linearMemory;
    this.#file = file;
    this.#leases = new MappingLeases(file);
    this.id = header.id;
    this.processId = header.processId;
    this.identity = file.identity();
    this.device = device;
    this.access = new Map(device === undefined ? [] : [[device, memAccessFlags.readWrite]]);
  }

  /** Maps an allocation, or returns its existing mapping. */
  map(
    { fileOffset, byteLength }: ExportedPointer,
  ): PointerMapping | "out of memory" | "not in the file" | "no exporter" {
    const key = `${fileOffset}+${byteLength}`;
    const known = this.mappings.get(key);
    if (known !== undefined) return known;
    const isInFile = fileOffset >= poolFileHeaderByteLength && fileOffset % granuleByteLength === 0 && byteLength > 0 &&
      fileOffset + byteLength <= this.#file.currentByteLength();
    if (!isInFile) return "not in the file";
    if (this.#file.isAbandoned) return "no exporter";
    const before = fileOffset % pageByteLength;
    const leased = { begin: fileOffset, end: fileOffset + byteLength };
    const pages = this.#mapPages(fileOffset - before, { byteLength: wholePages(before + byteLength), leased });
    if (pages === undefined) return "out of memory";
    const mapping = { key, begin: pages.begin + before, byteLength, pages, leased };
    this.mappings.set(key, mapping);
    this.#mapped.add(mapping);
    for (const [device, flags] of this.access) {
      if (flags !== memAccessFlags.none) this.#linearMemory.allow(device, mapping.begin, byteLength);
    }
    return mapping;
  }

  #mapPages(
    fileOffset: number,
    { byteLength, leased }: { byteLength: number; leased: Range },
  ): PointerMapping["pages"] | undefined {
    const begin = this.#linearMemory.reserve(byteLength);
    if (begin === undefined) return undefined;
    // The lease comes before the mapping: without it, the exporter could reuse the memory meanwhile.
    const isLeased = this.#leases.acquire(leased);
    if (isLeased && this.#file.tryMap(this.#linearMemory, { begin, byteLength, fileOffset })) {
      return { begin, byteLength };
    }
    if (isLeased) this.#leases.release(leased);
    // A failed mapping may have left a hole in linear memory, which discarding closes.
    this.#linearMemory.discardAndRelease(begin, byteLength, { isShared: true });
    return undefined;
  }

  /** Unmaps an allocation and releases its lease. The caller has already removed the mapping from `mappings`. */
  unmap(mapping: PointerMapping): void {
    const { begin, byteLength, pages, leased } = mapping;
    if (!this.#mapped.delete(mapping)) return;
    for (const device of this.access.keys()) this.#linearMemory.deny(device, begin, byteLength);
    this.#linearMemory.discardAndRelease(pages.begin, pages.byteLength, { isShared: true });
    this.#leases.release(leased);
    this.#closeWhenUnused();
  }

  setAccess(device: number, flags: number): void {
    this.access.set(device, flags);
    for (const { begin, byteLength } of this.#mapped) {
      if (flags === memAccessFlags.none) this.#linearMemory.deny(device, begin, byteLength);
      else this.#linearMemory.allow(device, begin, byteLength);
    }
  }

  /** Destroys the pool. A mapping stays until its stream reaches its free. */
  destroy(): void {
    this.#isDestroyed = true;
    this.#closeWhenUnused();
  }

  /** Releases everything when the driver closes. */
  close(): void {
    this.#isDestroyed = true;
    for (const mapping of this.#mapped) this.unmap(mapping);
    this.mappings.clear();
    this.#closeWhenUnused();
  }

  #closeWhenUnused(): void {
    if (!this.#isDestroyed || this.isClosed || this.#mapped.size > 0) return;
    this.isClosed = true;
    this.#file.close();
  }
}
