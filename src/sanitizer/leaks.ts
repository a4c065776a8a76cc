/**
 * Memory that was never freed, by where it was allocated.
 *
 * @module
 */
import { stackOf } from "./reporting/call_sites.ts";
import type { Operation } from "./order/timelines.ts";

/** Memory of a kind that was not freed. */
export interface UnfreedMemory {
  /** What it is, in the singular: "host buffer". */
  readonly kind: string;
  /** Each piece, by its address, or its buffer for page-locked memory. */
  pieces(): Iterable<{ readonly at: bigint | ArrayBufferLike; readonly byteLength: number }>;
}

/** An allocation that may have to be freed. */
export interface LiveAllocation {
  readonly operation: Operation;
  readonly byteLength: number;
}

/** What one line of a program has allocated and nobody has freed. */
export interface Leak {
  readonly kind: string;
  readonly count: number;
  readonly byteLength: number;
  /** The last of the allocations. */
  readonly operation: Operation;
}

type AllocationAt = (at: bigint | ArrayBufferLike) => LiveAllocation | undefined;

/** Memory that was not freed when it should have been, and may still be. */
export class LateMemory {
  readonly #allocationAt: AllocationAt;
  /** By allocation, its address and its kind. */
  readonly #late = new Map<LiveAllocation, { readonly at: bigint | ArrayBufferLike; readonly kind: string }>();

  /** @param allocationAt what is allocated at an address now */
  constructor(allocationAt: AllocationAt) {
    this.#allocationAt = allocationAt;
  }

  /** Adds memory whose pool or allocator is gone. */
  add(unfreed: readonly UnfreedMemory[]): void {
    for (const memory of unfreed) {
      for (const { at } of memory.pieces()) {
        const allocation = this.#allocationAt(at);
        if (allocation !== undefined) this.#late.set(allocation, { at, kind: memory.kind });
      }
    }
  }

  /** Adds up what is still not freed and was allocated at the same place. Leaves out what was not seen to be allocated. */
  leaks(): Leak[] {
    const byPlace = new Map<string, Leak>();
    for (const [allocation, { at, kind }] of this.#late) {
      if (this.#allocationAt(at) !== allocation) continue;
      const { operation } = allocation;
      const place = `${kind}\n${stackOf(operation.site)}`;
      const { count, byteLength } = byPlace.get(place) ?? { count: 0, byteLength: 0 };
      byPlace.set(place, { kind, count: count + 1, byteLength: byteLength + allocation.byteLength, operation });
    }
    this.#late.clear();
    return [...byPlace.values()];
  }
}
