/**
 * Finds accesses to memory that nothing orders, and those before its allocation or after its free.
 *
 * Operations are looked at in the order in which the program asked for them, whatever the order in which a device does
 * them: an operation waits until it is known what those before it have accessed. So the same calls give the same reports.
 *
 * @module
 */
import type { AccessParts, ThreadIndex } from "../../kernel_checker.ts";
import { MemoryHistory, PossibleTouches, type Touch } from "../memory_history.ts";
import { isBefore, type Operation } from "./timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import { shiftedParts, sourceOfAll } from "../access_parts.ts";

/** An access to a range of addresses. */
export interface RangeAccess {
  readonly address: number;
  readonly byteLength: number;
  readonly access: "read" | "write" | "atomic";
  readonly source?: string | undefined;
  /** Who accesses the first of the bytes. */
  readonly first?: ThreadIndex | undefined;
  readonly parts?: AccessParts | undefined;
}

/** An access that may be anywhere in the allocation that has an address. */
export interface PossibleAccess {
  readonly address: number;
  readonly access: "read" | "write" | "atomic";
  readonly source: string;
}

/** What was done with memory that has several addresses, by any of them. */
export interface SharedContents {
  readonly history: MemoryHistory;
  readonly possible: PossibleTouches;
}

/** Memory that an operation allocates, or maps. */
interface AllocatedRange {
  readonly address: number;
  readonly byteLength: number;
  /** What was done with it by other addresses. Called when all operations before have been looked at. */
  readonly contents?: (() => SharedContents | undefined) | undefined;
}

/** An operation, and what it does. */
export interface Deed {
  readonly operation?: Operation;
  /** Called when all operations before it have been looked at. */
  readonly then?: () => void;
  readonly allocates?: AllocatedRange | undefined;
  /** The address of the allocation that it frees. */
  readonly frees?: number | undefined;
  /** What it accesses. Undefined until that is known. */
  accesses?: readonly RangeAccess[] | undefined;
  /** What else it may access, if that is to be reported. */
  possible?: readonly PossibleAccess[];
}

/** An allocation. */
export interface Region {
  readonly address: number;
  readonly byteLength: number;
  /** What was done by its own addresses. */
  history: MemoryHistory;
  possible: PossibleTouches | undefined;
  /** Undefined if the memory has no other addresses. */
  contents: SharedContents | undefined;
  readonly allocated: Operation;
  freed: Operation | undefined;
}

/** That of freed memory. */
const noHistory = new MemoryHistory(0);

/** Looks at operations in order. */
export class StreamOrder {
  readonly #reports: Reports;
  readonly #onAccess: (operation: Operation, access: RangeAccess) => void;
  /** Those that wait, in order. */
  readonly #waiting: Deed[] = [];
  /** By address, in order. None overlap. */
  readonly #regions: Region[] = [];

  /**
   * @param reports where mistakes go
   * @param onAccess called with each access, in order
   */
  constructor(reports: Reports, onAccess: (operation: Operation, access: RangeAccess) => void) {
    this.#reports = reports;
    this.#onAccess = onAccess;
  }

  /** Adds an operation. */
  add(deed: Deed): void {
    if (this.#waiting.length === 0 && deed.accesses !== undefined) return this.#visit(deed);
    this.#waiting.push(deed);
    this.proceed();
  }

  /** Looks at the operations up to the first whose accesses are not known. */
  proceed(): void {
    let count = 0;
    for (; count < this.#waiting.length && this.#waiting[count]!.accesses !== undefined; count++) {
      this.#visit(this.#waiting[count]!);
    }
    this.#waiting.splice(0, count);
  }

  #visit({ operation, then, allocates, frees, accesses = [], possible = [] }: Deed): void {
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
    // Memory is mostly allocated where some was freed.
    if (last === first + 1) this.#regions[first] = region;
    else this.#regions.splice(first, last - first, region);
  }

  #access(operation: Operation, { address, byteLength, access, source, first, parts }: RangeAccess): void {
    const end = address + byteLength;
    for (let index = this.#indexFrom(address); index < this.#regions.length; index++) {
      const region = this.#regions[index]!;
      if (region.address >= end) return;
      const touch: Touch = {
        operation,
        access,
        begin: Math.max(0, address - region.address),
        end: Math.min(region.byteLength, end - region.address),
        source,
        first: address >= region.address ? first : undefined,
        parts: parts && shiftedParts(parts, address - region.address),
      };
      if (region.freed !== undefined) {
        this.#reports.addFreed({ region, touch, freed: region.freed });
        continue;
      }
      const ownConflicts = region.history.add(touch);
      const conflicts = region.contents?.history.add(touch) ?? ownConflicts;
      for (const conflict of conflicts) this.#reports.addConflict({ region, conflict });
      // What comes after all accesses so far comes after the allocation, too: one report is enough.
      if (conflicts.length === 0 && !isBefore(region.allocated, operation)) {
        this.#reports.addUnallocated({ region, touch });
      }
      for (const conflict of (region.contents ?? region).possible?.conflictsWith(touch) ?? []) {
        this.#reports.addConflict({ region, conflict });
      }
    }
  }

  #mayAccess(operation: Operation, { address, access, source }: PossibleAccess): void {
    const region = this.regionAt(address);
    if (region === undefined) return;
    const touch: Touch = { operation, access, begin: 0, end: region.byteLength, source, isPossible: true };
    if (region.freed !== undefined) return this.#reports.addFreed({ region, touch, freed: region.freed });
    region.possible ??= new PossibleTouches();
    const ownConflicts = region.possible.add(touch, region.history);
    const conflicts = region.contents?.possible.add(touch, region.contents.history) ?? ownConflicts;
    for (const conflict of conflicts) this.#reports.addConflict({ region, conflict });
  }

  #free(operation: Operation, address: number): void {
    const region = this.#regions[this.#indexFrom(address)];
    // A slab whose parts were handed out is not there any more: they were freed before it.
    if (region?.address !== address || region.freed !== undefined) return;
    if (!isBefore(region.allocated, operation)) this.#reports.addFreedBeforeAllocation({ region, freed: operation });
    for (const touch of region.history.unfinished(operation)) {
      this.#reports.addFreed({ region, touch, freed: operation });
    }
    for (const touch of region.possible?.unfinished(operation) ?? []) {
      this.#reports.addFreed({ region, touch, freed: operation });
    }
    region.freed = operation;
    region.history = noHistory;
    region.possible = undefined;
    region.contents = undefined;
  }

  /** What was and will be done with an allocation, for other addresses of its memory. Undefined if there is none. */
  contentsAt(address: number): SharedContents | undefined {
    const region = this.regionAt(address);
    if (region?.address !== address || region.freed !== undefined) return undefined;
    return region.contents ??= {
      history: region.history.copy(),
      possible: region.possible?.copy() ?? new PossibleTouches(),
    };
  }

  /** The accesses to a range of addresses, each with its addresses, as far as later ones may conflict with them. */
  touches(begin: number, end: number): Touch[] {
    const found: Touch[] = [];
    for (let index = this.#indexFrom(begin); index < this.#regions.length; index++) {
      const { address, freed, history } = this.#regions[index]!;
      if (address >= end) break;
      if (freed !== undefined) continue;
      for (const touch of history.touches(begin - address, end - address)) {
        found.push({
          ...touch,
          begin: touch.begin + address,
          end: touch.end + address,
          source: sourceOfAll(touch),
          parts: undefined,
        });
      }
    }
    return found;
  }

  /** The allocation that an address lies in, whether or not it was freed. */
  regionAt(address: number): Region | undefined {
    const region = this.#regions[this.#indexFrom(address)];
    return region !== undefined && region.address <= address ? region : undefined;
  }

  /**
   * Whether nothing that is not known to come before an operation accesses a range, or writes it. What kernels that wait
   * will access is not known.
   */
  isIdle(operation: Operation, { begin, end }: { begin: number; end: number }, by: "accesses" | "writes"): boolean {
    const isPending = (other: Operation | undefined, access: RangeAccess["access"]) =>
      other !== undefined && (by === "accesses" || access !== "read") &&
      (other.timeline.isForeign || !isBefore(other, operation));
    const waits = this.#waiting.some(({ operation, accesses = [] }) =>
      accesses.some(({ address, byteLength, access }) =>
        address < end && begin < address + byteLength && isPending(operation, access)
      )
    );
    if (waits) return false;
    for (let index = this.#indexFrom(begin); index < this.#regions.length; index++) {
      const { address, history } = this.#regions[index]!;
      if (address >= end) break;
      const touches = history.within(begin - address, end - address);
      if (touches.some((touch) => isPending(touch.operation, touch.access))) return false;
    }
    return true;
  }

  /** The index of the first region that ends behind an address. */
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
