/**
 * The leases by which importers keep the memory of a pool's file that they have mapped. As on a GPU, memory that an
 * exporter frees is released only when the last importer has unmapped it. Until then the exporter must not touch it.
 *
 * A lease is a lock of the file's range, held through the importer's own open file description (`F_OFD_SETLK`). The
 * kernel therefore ends the leases of a process that ends, in whatever PID or time namespace it lives, and nobody can
 * end those of another process. Leases lock whole units of the pool's space, because a pool releases whole units: there
 * are few, and neighbors merge into one lock.
 *
 * @module
 */
import { SystemError } from "../../../ffi/native/shim/shim.ts";
import { poolFileHeaderByteLength, unitByteLength } from "../memory/pool_file.ts";
import type { Range } from "../memory/range_allocator.ts";
import type { SharedFile } from "../memory/shared_file.ts";

/** Whether any importer has mapped a part of a range of a pool's file. */
export function isLeased(file: SharedFile, { begin, end }: Range): boolean {
  return file.isLocked(begin, end - begin);
}

/** The leases that one import of a pool holds. */
export class MappingLeases {
  readonly #file: SharedFile;
  /** The number of mappings in each unit that has any. */
  readonly #counts = new Map<number, number>();

  /** @param file opened by this import: no other file may share its locks */
  constructor(file: SharedFile) {
    this.#file = file;
  }

  /** Acquires a lease on a range. Returns false if the system or another process does not allow that. */
  acquire(range: Range): boolean {
    const [first, last] = unitsOf(range);
    for (let unit = first; unit <= last; unit++) {
      const count = this.#counts.get(unit) ?? 0;
      if (count === 0 && !this.#tryLock(unit)) {
        this.#release(first, unit - 1);
        return false;
      }
      this.#counts.set(unit, count + 1);
    }
    return true;
  }

  /** Releases a lease after its range was unmapped. */
  release(range: Range): void {
    this.#release(...unitsOf(range));
  }

  #release(first: number, last: number): void {
    for (let unit = first; unit <= last; unit++) {
      const count = this.#counts.get(unit)! - 1;
      if (count > 0) {
        this.#counts.set(unit, count);
      } else {
        this.#counts.delete(unit);
        this.#file.unlock(offsetOf(unit), unitByteLength);
      }
    }
  }

  #tryLock(unit: number): boolean {
    try {
      this.#file.lock(offsetOf(unit), unitByteLength);
      return true;
    } catch (error) {
      if (error instanceof SystemError) return false;
      throw error;
    }
  }
}

/** The first and the last unit of a range. */
function unitsOf({ begin, end }: Range): [first: number, last: number] {
  const unitAt = (offset: number): number => Math.floor((offset - poolFileHeaderByteLength) / unitByteLength);
  return [unitAt(begin), unitAt(end - 1)];
}

function offsetOf(unit: number): number {
  return poolFileHeaderByteLength + unit * unitByteLength;
}
