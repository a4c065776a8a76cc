/**
 * Pools of other processes, and the leases by which importers retain the parts of a pool's file that they have mapped.
 * As on a GPU, memory that the exporter frees is released only when the last importer has unmapped it. Until then, the
 * exporter must not reuse or release the memory.
 *
 * A lease is a lock of a range of the file, held through the importer's own open file description (`F_OFD_SETLK`). The
 * operating system therefore ends the leases of a process that ends, in any PID or time namespace, and no process can
 * end the leases of another. Leases lock whole units of the pool's space, because a pool releases whole units; so there
 * are few locks, and adjacent ones merge.
 *
 * @module
 */
import { SystemError } from "../../../ffi/native/shim/shim.ts";
import {
  type ExportedPointer,
  type PoolFileHeader,
  poolFileHeaderByteLength,
  type SharedFile,
  unitByteLength,
} from "../memory/shared_file.ts";
import type { Range } from "../memory/allocations.ts";
import { memAccessFlags } from "../../driver.ts";
import type { LinearMemory } from "../memory/linear_memory.ts";
import { granuleByteLength, pageByteLength, wholePages } from "../memory/memory_layout.ts";

/** Returns whether any importer has mapped a part of a range of a pool's file. */
export function isLeased(file: SharedFile, { begin, end }: Range): boolean {
  return file.isLocked(begin, end - begin);
}

/**
 * The file locks of one import of a pool. They keep the exporter from reusing the memory that is mapped through this
 * import.
 */
export class MappingLeases {
  readonly #file: SharedFile;
  /** The number of mappings of each unit of the pool's file. Contains only units that have mappings. */
  readonly #counts = new Map<number, number>();

  /**
   * @param file a file that was opened for this import alone, because file locks belong to the open file description
   */
  constructor(file: SharedFile) {
    this.#file = file;
  }

  /**
   * Acquires a lease, which is a lock, on a range of the file. Returns false if the system or another process prevents
   * the lock.
   */
  acquire(range: Range): boolean {
    const [first, last] = unitsOf(range);
    for (let unit = first; unit <= last;) {
      // With a single call, lock all units up to the next unit that is already locked.
      let end = unit;
      while (end <= last && !this.#counts.has(end)) end++;
      if (end > unit && !this.#tryLock(unit, end - unit)) {
        this.#release(first, unit - 1);
        return false;
      }
      for (end = Math.max(end, unit + 1); unit < end; unit++) this.#counts.set(unit, (this.#counts.get(unit) ?? 0) + 1);
    }
    return true;
  }

  /** Releases a lease. Must be called after the range was unmapped. */
  release(range: Range): void {
    this.#release(...unitsOf(range));
  }

  #release(first: number, last: number): void {
    let unlocked = first;
    for (let unit = first; unit <= last; unit++) {
      const count = this.#counts.get(unit)! - 1;
      if (count > 0) {
        this.#counts.set(unit, count);
        this.#unlock(unlocked, unit);
        unlocked = unit + 1;
      } else {
        this.#counts.delete(unit);
      }
    }
    this.#unlock(unlocked, last + 1);
  }

  /** Unlocks the units from `begin` up to, but not including, `end`. */
  #unlock(begin: number, end: number): void {
    if (begin < end) this.#file.unlock(offsetOf(begin), (end - begin) * unitByteLength);
  }

  #tryLock(unit: number, count: number): boolean {
    try {
      this.#file.lock(offsetOf(unit), count * unitByteLength);
      return true;
    } catch (error) {
      if (error instanceof SystemError) return false;
      throw error;
    }
  }
}

/** Returns the indices of the first and the last unit of the pool's file that a range overlaps. */
function unitsOf({ begin, end }: Range): [first: number, last: number] {
  const unitAt = (offset: number): number => Math.floor((offset - poolFileHeaderByteLength) / unitByteLength);
  return [unitAt(begin), unitAt(end - 1)];
}

function offsetOf(unit: number): number {
  return poolFileHeaderByteLength + unit * unitByteLength;
}

/** An allocation of another process, mapped into this process. */
export interface PointerMapping {
  /** A string that identifies the allocation within the pool. */
  readonly key: string;
  readonly begin: number;
  readonly byteLength: number;
  /** The range of whole pages that contains the allocation. */
  readonly pages: { readonly begin: number; readonly byteLength: number };
  /** The range of the file that this mapping leases, so that the exporter does not release the memory. */
  readonly leased: Range;
}

/** A pool that was imported from another process, or from this process itself. */
export class ImportedPool {
  readonly id: string;
  /** The process that created the pool. */
  readonly processId: number;
  /** The ordinal of the device whose memory the pool provides. Undefined for host memory. */
  readonly device: number | undefined;
  /** Pools of managed memory cannot be imported. */
  readonly isManaged = false;
  /** A string that identifies the pool's file, the same for every descriptor of the file. */
  readonly identity: string;
  /** The number of imports of the pool that have not been destroyed. Destroying the last one destroys the pool. */
  importCount = 1;
  /** Whether the pool was destroyed and all its mappings were removed. */
  isClosed = false;
  /** For each device, the access that its kernels have, one of `memAccessFlags`. */
  readonly access: Map<number, number>;
  /** The mappings by key. Importing the same export data again returns the existing mapping. */
  readonly mappings: Map<string, PointerMapping> = new Map();
  /** All mappings in `mappings`, and the freed mappings that pending work may still use. */
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
    // The lease must be acquired before the mapping is created: otherwise, the exporter could reuse the memory in the
    // meantime.
    const isLeased = this.#leases.acquire(leased);
    if (isLeased && this.#file.tryMap(this.#linearMemory, { begin, byteLength, fileOffset })) {
      return { begin, byteLength };
    }
    if (isLeased) this.#leases.release(leased);
    // Fills the hole that a failed mapping may have left in linear memory.
    this.#linearMemory.discardAndRelease(begin, byteLength, { isShared: true });
    return undefined;
  }

  /** Unmaps an allocation and releases the lease. The caller must have removed the mapping from `mappings` before. */
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

  /** Destroys the pool. An allocation that is still mapped stays mapped until it is freed in stream order. */
  destroy(): void {
    this.#isDestroyed = true;
    this.#closeWhenUnused();
  }

  /** Destroys the pool and removes all its mappings when the driver closes. */
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
