/**
 * Finds unordered accesses to memory, and accesses before the allocation or after the free of memory.
 *
 * Operations are checked in the order in which the program enqueued them, not in the order in which a device runs them:
 * an operation is queued until the accesses of all earlier ones are known. So the same calls give the same reports.
 *
 * @module
 */
import type { AccessParts, ThreadIndex } from "../../kernel_checker.ts";
import { MemoryHistory, PossibleAccesses, shiftedParts, sourceOfAll, type TrackedAccess } from "../memory_history.ts";
import { isBefore, type Operation } from "./timelines.ts";
import type { Reports } from "../reporting/reports.ts";

/** An access to a range of addresses. */
export interface RangeAccess {
  readonly address: number;
  readonly byteLength: number;
  readonly access: "read" | "write" | "atomic";
  readonly source?: string | undefined;
  /** The thread that accesses the first byte of the range. */
  readonly first?: ThreadIndex | undefined;
  readonly parts?: AccessParts | undefined;
}

/** An access at an unknown address in the allocation that contains `address`. The access may also not happen. */
export interface PossibleAccess {
  readonly address: number;
  readonly access: "read" | "write" | "atomic";
  readonly source: string;
}

/** The shadow state of memory that is mapped at several addresses. Covers accesses through all of the mappings. */
export interface SharedContents {
  readonly history: MemoryHistory;
  readonly possible: PossibleAccesses;
}

/** The address range that an operation allocates or maps. */
interface AllocatedRange {
  readonly address: number;
  readonly byteLength: number;
  /**
   * Returns the shadow state that the memory shares with its other mappings. Called after all earlier operations have
   * been checked.
   */
  readonly contents?: (() => SharedContents | undefined) | undefined;
}

/** An operation, and how it affects memory. */
export interface ObservedOperation {
  /** The operation. Undefined if the queue entry consists of only the callback `then`. */
  readonly operation?: Operation;
  /** Called after all earlier operations have been checked. */
  readonly then?: () => void;
  readonly allocates?: AllocatedRange | undefined;
  /** The address of the allocation that the operation frees. */
  readonly frees?: number | undefined;
  /** The ranges that the operation accesses. Undefined until a driver has observed them. */
  accesses?: readonly RangeAccess[] | undefined;
  /** Additional accesses at unknown addresses. Present only if possible accesses are to be reported. */
  possible?: readonly PossibleAccess[];
}

/** An allocation or mapping, with its shadow state. */
export interface Region {
  readonly address: number;
  readonly byteLength: number;
  /** The accesses through the addresses of this region, not those through other mappings of the same memory. */
  history: MemoryHistory;
  /** The possible accesses through the addresses of this region. Undefined if there are none. */
  possible: PossibleAccesses | undefined;
  /** The accesses through all mappings of the same memory. Undefined if this region is the only mapping. */
  contents: SharedContents | undefined;
  readonly allocated: Operation;
  freed: Operation | undefined;
}

/** The history of all freed regions. It is empty. */
const noHistory = new MemoryHistory(0);

/** Checks the operations of this process, in the order in which they were enqueued. */
export class StreamOrder {
  readonly #reports: Reports;
  readonly #onAccess: (operation: Operation, access: RangeAccess) => void;
  /** The operations to check, in the order in which they were enqueued. */
  readonly #queue: ObservedOperation[] = [];
  /** The regions, which do not overlap, sorted by address. */
  readonly #regions: Region[] = [];

  /**
   * @param reports receives the errors found
   * @param onAccess called for each access, in the order in which operations were enqueued
   */
  constructor(reports: Reports, onAccess: (operation: Operation, access: RangeAccess) => void) {
    this.#reports = reports;
    this.#onAccess = onAccess;
  }

  /** Queues an operation. It is checked after all earlier operations, when its accesses are known. */
  add(observed: ObservedOperation): void {
    if (this.#queue.length === 0 && observed.accesses !== undefined) return this.#visit(observed);
    this.#queue.push(observed);
    this.proceed();
  }

  /** Checks queued operations until the accesses of the next one are unknown. */
  proceed(): void {
    let count = 0;
    for (; count < this.#queue.length && this.#queue[count]!.accesses !== undefined; count++) {
      this.#visit(this.#queue[count]!);
    }
    this.#queue.splice(0, count);
  }

  #visit({ operation, then, allocates, frees, accesses = [], possible = [] }: ObservedOperation): void {
    then?.();
    if (operation === undefined) return;
    if (allocates !== undefined) this.#allocate(operation, allocates);
    for (const access of accesses) {
      this.#access(operation, access);
      this.#onAccess(operation, access);
    }
    for (const access of possible) this.#mayAccess(operation, access);
    if (frees !== undefined) this.#free(operation, frees);
  }

  #allocate(operation: Operation, { address, byteLength, contents }: AllocatedRange): void {
    const end = address + byteLength;
    const first = this.#indexFrom(address);
    let last = first;
    while (last < this.#regions.length && this.#regions[last]!.address < end) last++;
    const region: Region = {
      address,
      byteLength,
      history: new MemoryHistory(byteLength),
      possible: undefined,
      contents: contents?.(),
      allocated: operation,
      freed: undefined,
    };
    // Fast path: an allocation reuses the range of a single freed region.
    if (last === first + 1) this.#regions[first] = region;
    else this.#regions.splice(first, last - first, region);
  }

  #access(operation: Operation, { address, byteLength, access: kind, source, first, parts }: RangeAccess): void {
    const end = address + byteLength;
    for (let index = this.#indexFrom(address); index < this.#regions.length; index++) {
      const region = this.#regions[index]!;
      if (region.address >= end) return;
      const access: TrackedAccess = {
        operation,
        kind,
        begin: Math.max(0, address - region.address),
        end: Math.min(region.byteLength, end - region.address),
        source,
        first: address >= region.address ? first : undefined,
        parts: parts && shiftedParts(parts, address - region.address),
      };
      if (region.freed !== undefined) {
        this.#reports.addFreed({ region, access, freed: region.freed });
        continue;
      }
      const ownConflicts = region.history.add(access);
      const conflicts = region.contents?.history.add(access) ?? ownConflicts;
      for (const conflict of conflicts) this.#reports.addConflict({ region, conflict });
      // Do not report this in addition to a conflict. If the program fixes the conflict by ordering the access after
      // the conflicting access, the access is also ordered after the allocation.
      if (conflicts.length === 0 && !isBefore(region.allocated, operation)) {
        this.#reports.addUnallocated({ region, access });
      }
      for (const conflict of (region.contents ?? region).possible?.conflictsWith(access) ?? []) {
        this.#reports.addConflict({ region, conflict });
      }
    }
  }

  #mayAccess(operation: Operation, { address, access: kind, source }: PossibleAccess): void {
    const region = this.regionAt(address);
    if (region === undefined) return;
    const access: TrackedAccess = { operation, kind, begin: 0, end: region.byteLength, source, isPossible: true };
    if (region.freed !== undefined) return this.#reports.addFreed({ region, access, freed: region.freed });
    region.possible ??= new PossibleAccesses();
    const ownConflicts = region.possible.add(access, region.history);
    const conflicts = region.contents?.possible.add(access, region.contents.history) ?? ownConflicts;
    for (const conflict of conflicts) this.#reports.addConflict({ region, conflict });
  }

  #free(operation: Operation, address: number): void {
    const region = this.#regions[this.#indexFrom(address)];
    // A freed slab has no region of its own, because the regions of its parts have replaced it.
    if (region?.address !== address || region.freed !== undefined) return;
    if (!isBefore(region.allocated, operation)) this.#reports.addFreedBeforeAllocation({ region, freed: operation });
    for (const access of region.history.unorderedWith(operation)) {
      this.#reports.addFreed({ region, access, freed: operation });
    }
    for (const access of region.possible?.unorderedWith(operation) ?? []) {
      this.#reports.addFreed({ region, access, freed: operation });
    }
    region.freed = operation;
    region.history = noHistory;
    region.possible = undefined;
    region.contents = undefined;
  }

  /**
   * Returns the shadow state of the allocation that begins at an address, to be shared with other mappings of the same
   * memory. Undefined if no live allocation begins there.
   */
  contentsAt(address: number): SharedContents | undefined {
    const region = this.regionAt(address);
    if (region?.address !== address || region.freed !== undefined) return undefined;
    return region.contents ??= {
      history: region.history.copy(),
      possible: region.possible?.copy() ?? new PossibleAccesses(),
    };
  }

  /**
   * Returns the latest accesses to each byte of a range, with which later accesses may conflict. `begin` and `end` of
   * the results are addresses instead of offsets.
   */
  accessesIn(begin: number, end: number): TrackedAccess[] {
    const found: TrackedAccess[] = [];
    for (let index = this.#indexFrom(begin); index < this.#regions.length; index++) {
      const { address, freed, history } = this.#regions[index]!;
      if (address >= end) break;
      if (freed !== undefined) continue;
      for (const access of history.accessesIn(begin - address, end - address)) {
        found.push({
          ...access,
          begin: access.begin + address,
          end: access.end + address,
          source: sourceOfAll(access),
          parts: undefined,
        });
      }
    }
    return found;
  }

  /** Returns the region that contains an address, even if the region was freed. */
  regionAt(address: number): Region | undefined {
    const region = this.#regions[this.#indexFrom(address)];
    return region !== undefined && region.address <= address ? region : undefined;
  }

  /**
   * Returns whether all accesses to a range are ordered before `operation`, or only all writes if `by` is "writes".
   * Ignores kernels whose accesses are still unknown.
   */
  isIdle(operation: Operation, { begin, end }: { begin: number; end: number }, by: "accesses" | "writes"): boolean {
    const isPending = (other: Operation | undefined, access: RangeAccess["access"]) =>
      other !== undefined && (by === "accesses" || access !== "read") &&
      (other.timeline.isForeign || !isBefore(other, operation));
    const waits = this.#queue.some(({ operation, accesses = [] }) =>
      accesses.some(({ address, byteLength, access }) =>
        address < end && begin < address + byteLength && isPending(operation, access)
      )
    );
    if (waits) return false;
    for (let index = this.#indexFrom(begin); index < this.#regions.length; index++) {
      const { address, history } = this.#regions[index]!;
      if (address >= end) break;
      const accesses = history.latestIn(begin - address, end - address);
      if (accesses.some((access) => isPending(access.operation, access.kind))) return false;
    }
    return true;
  }

  /** Returns the index of the first region that ends after an address. */
  #indexFrom(address: number): number {
    let low = 0, high = this.#regions.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const { address: begin, byteLength } = this.#regions[middle]!;
      if (begin + byteLength <= address) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
