/**
 * Finds memory that was never freed, grouped by where it was allocated.
 *
 * @module
 */
import { stackOf } from "./reporting/call_stacks.ts";
import type { Operation } from "./order/timelines.ts";

/** The unfreed allocations of one kind. */
export interface UnfreedPieces {
  /** The name of this kind of allocation in messages, in the singular: "host buffer". */
  readonly kind: string;
  /** Lists the allocations. `at` is the address, or the buffer in the case of page-locked memory. */
  pieces(): Iterable<{ readonly at: bigint | ArrayBufferLike; readonly byteLength: number }>;
}

/** An allocation that the program has not freed. */
export interface LiveAllocation {
  readonly operation: Operation;
  readonly byteLength: number;
}

/** The unfreed allocations of one kind that were made at the same call site. */
export interface LeakGroup {
  readonly kind: string;
  readonly count: number;
  readonly byteLength: number;
  /** The operation that made the latest of these allocations. */
  readonly operation: Operation;
}

type AllocationAt = (at: bigint | ArrayBufferLike) => LiveAllocation | undefined;

/**
 * Allocations that outlive their pool or allocator. Allocations that the program does not free before it exits are
 * leaks.
 */
export class LeakCandidates {
  readonly #allocationAt: AllocationAt;
  /** The address or buffer of each candidate, and its kind for messages. */
  readonly #unfreed = new Map<LiveAllocation, { readonly at: bigint | ArrayBufferLike; readonly kind: string }>();

  /** @param allocationAt returns the current allocation at an address or of a buffer */
  constructor(allocationAt: AllocationAt) {
    this.#allocationAt = allocationAt;
  }

  /** Adds the unfreed memory of a disposed pool or allocator. */
  add(unfreed: readonly UnfreedPieces[]): void {
    for (const memory of unfreed) {
      for (const { at } of memory.pieces()) {
        const allocation = this.#allocationAt(at);
        if (allocation !== undefined) this.#unfreed.set(allocation, { at, kind: memory.kind });
      }
    }
  }

  /** Returns the allocations that are still not freed, grouped by kind and call site, and clears the list. */
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
