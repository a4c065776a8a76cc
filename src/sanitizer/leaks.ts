/**
 * Finds memory that was never freed, grouped by where it was allocated.
 *
 * @module
 */
import { stackOf } from "./reporting/call_sites.ts";
import type { Operation } from "./order/timelines.ts";

/** Memory of a kind that was not freed. */
export interface UnfreedPieces {
  /** Its name in messages, in the singular: "host buffer". */
  readonly kind: string;
  /** The pieces, each by its address, or by its buffer if it is page-locked. */
  pieces(): Iterable<{ readonly at: bigint | ArrayBufferLike; readonly byteLength: number }>;
}

/** An allocation that was not freed yet. */
export interface LiveAllocation {
  readonly operation: Operation;
  readonly byteLength: number;
}

/** The unfreed allocations of one line of a program. */
export interface LeakGroup {
  readonly kind: string;
  readonly count: number;
  readonly byteLength: number;
  /** The last of the allocations. */
  readonly operation: Operation;
}

type AllocationAt = (at: bigint | ArrayBufferLike) => LiveAllocation | undefined;

/** Memory that outlives its pool or allocator: a leak unless it is freed before the end. */
export class LeakCandidates {
  readonly #allocationAt: AllocationAt;
  /** The address and the kind of each allocation. */
  readonly #unfreed = new Map<LiveAllocation, { readonly at: bigint | ArrayBufferLike; readonly kind: string }>();

  /** @param allocationAt finds the current allocation at an address */
  constructor(allocationAt: AllocationAt) {
    this.#allocationAt = allocationAt;
  }

  /** Adds memory whose pool or allocator is gone. */
  add(unfreed: readonly UnfreedPieces[]): void {
    for (const memory of unfreed) {
      for (const { at } of memory.pieces()) {
        const allocation = this.#allocationAt(at);
        if (allocation !== undefined) this.#unfreed.set(allocation, { at, kind: memory.kind });
      }
    }
  }

  /** Groups what is still not freed by call site. */
  leaks(): LeakGroup[] {
    const byPlace = new Map<string, LeakGroup>();
    for (const [allocation, { at, kind }] of this.#unfreed) {
      if (this.#allocationAt(at) !== allocation) continue;
      const { operation } = allocation;
      const place = `${kind}\n${stackOf(operation.site)}`;
      const { count, byteLength } = byPlace.get(place) ?? { count: 0, byteLength: 0 };
      byPlace.set(place, { kind, count: count + 1, byteLength: byteLength + allocation.byteLength, operation });
    }
    this.#unfreed.clear();
    return [...byPlace.values()];
  }
}
