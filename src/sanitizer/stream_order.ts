/**
 * Finds accesses to memory that nothing orders, and those before its allocation or after its free.
 *
 * Operations are looked at in the order in which the program asked for them, whatever the order in which a device does
 * them: an operation waits until it is known what those before it have accessed. So the same calls give the same reports.
 *
 * @module
 */
import { MemoryHistory, type Touch } from "./memory_history.ts";
import type { Operation } from "./operation.ts";
import type { Reports } from "./reports.ts";
import { isBefore } from "./timelines.ts";

/** An access to a range of addresses. */
export interface RangeAccess {
  readonly address: number;
  readonly byteLength: number;
  readonly access: "read" | "write" | "atomic";
  readonly source?: string | undefined;
}

/** An operation, and what it does. */
export interface Deed {
  readonly operation?: Operation;
  /** Called when all operations before it have been looked at. */
  readonly then?: () => void;
  readonly allocates?: { readonly address: number; readonly byteLength: number } | undefined;
  /** The address of the allocation that it frees. */
  readonly frees?: number | undefined;
  /** What it accesses. Undefined until that is known. */
  accesses?: readonly RangeAccess[] | undefined;
}

/** An allocation. */
interface Region {
  readonly address: number;
  readonly byteLength: number;
  history: MemoryHistory;
  readonly allocated: Operation;
  freed: Operation | undefined;
}

/** Looks at operations in order. */
export class StreamOrder {
  readonly #reports: Reports;
  /** Those that wait, in order. */
  readonly #waiting: Deed[] = [];
  /** By address, in order. None overlap. */
  readonly #regions: Region[] = [];

  constructor(reports: Reports) {
    this.#reports = reports;
  }

  /** Adds an operation. */
  add(deed: Deed): void {
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

  #visit({ operation, then, allocates, frees, accesses = [] }: Deed): void {
    then?.();
    if (operation === undefined) return;
    if (allocates !== undefined) this.#allocate(operation, allocates);
    for (const access of accesses) this.#access(operation, access);
    if (frees !== undefined) this.#free(operation, frees);
  }

  #allocate(operation: Operation, { address, byteLength }: { address: number; byteLength: number }): void {
    const end = address + byteLength;
    const first = this.#indexFrom(address);
    let last = first;
    while (last < this.#regions.length && this.#regions[last]!.address < end) last++;
    const history = new MemoryHistory(byteLength);
    this.#regions.splice(first, last - first, { address, byteLength, history, allocated: operation, freed: undefined });
  }

  #access(operation: Operation, { address, byteLength, access, source }: RangeAccess): void {
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
      };
      if (region.freed !== undefined) {
        this.#reports.addFreed({ region, touch, freed: region.freed });
        continue;
      }
      const conflicts = region.history.add(touch);
      for (const conflict of conflicts) this.#reports.addConflict({ region, conflict });
      // What comes after all accesses so far comes after the allocation, too: one report is enough.
      if (conflicts.length === 0 && !isBefore(region.allocated, operation)) {
        this.#reports.addUnallocated({ region, touch });
      }
    }
  }

  #free(operation: Operation, address: number): void {
    const region = this.#regions[this.#indexFrom(address)];
    // A slab whose parts were handed out is not there any more: they were freed before it.
    if (region?.address !== address || region.freed !== undefined) return;
    if (!isBefore(region.allocated, operation)) this.#reports.addFreedBeforeAllocation({ region, freed: operation });
    for (const touch of region.history.unfinished(operation)) {
      this.#reports.addFreed({ region, touch, freed: operation });
    }
    region.freed = operation;
    region.history = new MemoryHistory(0);
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
