/**
 * The pools and caching allocators of a session, and where their buffers were allocated and freed.
 *
 * @module
 */
import type { NamedBuffer } from "../../driver.ts";
import type { MemoryPool } from "./memory_pool.ts";
import type { PoolMemory } from "./pool_memory.ts";
import { callStack } from "../../support/leaks.ts";
import { placeIn } from "./pool_contents.ts";

/** A holder of a pool's memory that can release what it does not use: a caching allocator. */
export interface CacheMemory {
  readonly pool: MemoryPool;
  /** Bytes of the pool that it holds. */
  readonly reserved: number;
  /** Bytes of those that are in use. */
  readonly used: number;
  /** Releases unused memory to the pool, in stream order. Returns whether there was any. */
  releaseUnused(): boolean;
  /** The memory of the buffers, which may be larger than what was asked for. */
  buffers(): Iterable<{ readonly address: bigint; readonly byteLength: number }>;
}

/** The pools and caching allocators of a session. */
export class MemoryRegistry {
  /** How often memory was freed to a pool. */
  frees = 0;
  /** The pools that were not destroyed. */
  readonly pools: Set<PoolMemory> = new Set();
  readonly caches: Set<CacheMemory> = new Set();
  /** Where buffers were allocated and freed; undefined without POOLPASS_DEBUG=1. */
  readonly sites: AllocationSites | undefined;

  constructor({ debug }: { readonly debug: boolean }) {
    if (debug) this.sites = new AllocationSites();
  }

  /** The buffers of caching allocators, and those whose call sites were recorded. */
  *namedBuffers(): Generator<NamedBuffer> {
    const seen = new Set<bigint>();
    for (const buffer of this.sites?.named() ?? []) {
      if (!buffer.isFreed) seen.add(buffer.address);
      yield buffer;
    }
    for (const cache of this.caches) {
      for (const { address, byteLength } of cache.buffers()) {
        if (!seen.has(address)) yield { address, byteLength, isFreed: false, isRounded: true };
      }
    }
  }

  /** The caching allocators of a pool, or of all pools on its device. */
  cachesOf(pool: MemoryPool, { onDevice }: { onDevice: boolean }): CacheMemory[] {
    return [...this.caches].filter((cache) => cache.pool === pool || (onDevice && cache.pool.device === pool.device));
  }
}

interface Site {
  readonly byteLength: number;
  /** The call stacks. */
  readonly allocated: string;
  readonly freed?: string;
}

/** How many freed buffers are remembered. */
const maximumFreed = 256;

/** Where buffers were allocated and freed, as POOLPASS_DEBUG=1 records it for the messages of errors. */
export class AllocationSites {
  readonly #live = new Map<bigint, Site>();
  /** The buffers that were freed last, the latest at the end. */
  readonly #freed: (Site & { readonly address: bigint })[] = [];

  /** @param stack the call stack of the allocation */
  addAllocated(address: bigint, byteLength: number, stack: string): void {
    this.#live.set(address, { byteLength, allocated: stack });
  }

  addFreed(address: bigint): void {
    const site = this.#live.get(address);
    if (site === undefined) return;
    this.#live.delete(address);
    this.#freed.push({ ...site, address, freed: callStack("freed") });
    if (this.#freed.length > maximumFreed) this.#freed.shift();
  }

  /** The buffers, the live ones first and then the freed ones, the latest first. */
  *named(): Generator<NamedBuffer> {
    for (const [address, { byteLength, allocated }] of this.#live) {
      yield { address, byteLength, isFreed: false, allocated: placeIn(allocated) };
    }
    for (const { address, byteLength, allocated, freed } of this.#freed.toReversed()) {
      yield { address, byteLength, isFreed: true, allocated: placeIn(allocated), freed: placeIn(freed!) };
    }
  }
}
