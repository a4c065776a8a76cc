/**
 * The pools and caching allocators of a session, and the call sites at which their buffers were allocated and freed.
 *
 * @module
 */
import type { NamedBuffer } from "../../driver.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { MemoryPool } from "./memory_pool.ts";
import type { PoolMemory } from "./pool_memory.ts";
import { callStack } from "../../support/leaks.ts";
import { type BlockSnapshot, MemorySnapshot, type PoolHolder } from "../snapshots/memory_snapshot.ts";
import { placeIn } from "./pool_contents.ts";

/** Memory of a pool that another process holds. */
export interface HeldMemory extends PoolHolder {
  readonly pool: unknown;
  /** The memory. Undefined if the process holds the whole pool. */
  readonly range: { readonly address: bigint; readonly byteLength: number } | undefined;
}

/** The functions of the exporters that list what other processes hold. */
export const heldMemory: Set<() => Iterable<HeldMemory>> = new Set();

/** A holder of a pool's memory that can release unused memory: a caching allocator. */
export interface CacheMemory {
  readonly pool: MemoryPool;
  /** Bytes that the holder has allocated from the pool. */
  readonly reserved: number;
  /** Bytes of `reserved` that buffers use. */
  readonly used: number;
  /** Releases unused memory to the pool, in stream order. Returns the streams on which it is freed. */
  releaseUnused(): Set<CudaStream>;
  /** The slabs, with their blocks in the order of their offsets. */
  slabBlocks(): Iterable<{ readonly address: bigint; readonly blocks: BlockSnapshot[] }>;
  /** Lists the memory of the buffers, whose sizes may be rounded up from the requested sizes. */
  buffers(): Iterable<{ readonly address: bigint; readonly byteLength: number }>;
}

/** The pools and caching allocators of a session. */
export class MemoryRegistry {
  /** The number of times that memory was freed to a pool. */
  frees = 0;
  /** The pools that are not destroyed yet. */
  readonly pools: Set<PoolMemory> = new Set();
  readonly caches: Set<CacheMemory> = new Set();
  /** The call sites at which buffers were allocated and freed; undefined without POOLPASS_DEBUG=1. */
  readonly sites: AllocationSites | undefined;

  constructor({ debug }: { readonly debug: boolean }) {
    if (debug) this.sites = new AllocationSites();
  }

  /** Takes a snapshot of pools, by default of all. */
  snapshot(pools: Iterable<PoolMemory> = this.pools): MemorySnapshot {
    const held = [...heldMemory].flatMap((list) => [...list()]);
    return new MemorySnapshot(Array.from(pools, (pool) => pool.snapshot(held)));
  }

  /** Yields the buffers of caching allocators, and the buffers whose call sites were recorded. */
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

  /** Returns the bytes that pools of managed memory have reserved and not allocated. */
  unusedManaged(): number {
    let unused = 0;
    for (const pool of this.pools) if (pool.managed !== undefined) unused += pool.unusedByteLength();
    return unused;
  }

  /** Returns the caching allocators of a pool and, with `onDevice`, of all other pools of the same place. */
  cachesOf(pool: MemoryPool, { onDevice }: { onDevice: boolean }): CacheMemory[] {
    const isBeside = (other: MemoryPool) => other.device === pool.device && other.isManaged === pool.isManaged;
    return [...this.caches].filter((cache) => cache.pool === pool || (onDevice && isBeside(cache.pool)));
  }
}

interface Site {
  readonly byteLength: number;
  /** The call stack of the allocation. */
  readonly allocated: string;
  /** The call stack of the free. */
  readonly freed?: string;
}

/** Maximum number of freed buffers whose call sites are kept. */
const maximumFreed = 256;

/** The call sites at which buffers were allocated and freed, recorded with POOLPASS_DEBUG=1 for error messages. */
export class AllocationSites {
  readonly #live = new Map<bigint, Site>();
  /** The most recently freed buffers, the latest at the end. */
  readonly #freed: (Site & { readonly address: bigint })[] = [];

  /** Records the call stack of a buffer's allocation. */
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

  /** Yields the buffers: first the live ones, then the freed ones from the latest to the oldest. */
  *named(): Generator<NamedBuffer> {
    for (const [address, { byteLength, allocated }] of this.#live) {
      yield { address, byteLength, isFreed: false, allocated: placeIn(allocated) };
    }
    for (const { address, byteLength, allocated, freed } of this.#freed.toReversed()) {
      yield { address, byteLength, isFreed: true, allocated: placeIn(allocated), freed: placeIn(freed!) };
    }
  }
}
