import { type Driver, eventFlags, type HostAllocation } from "./driver.ts";
import { EndedError, ignoreLoss } from "./support/driver_errors.ts";
import { reportLeak } from "./support/leaks.ts";
import { CompletedEvents } from "./memory/completed_events.ts";
import { ImportedMappings } from "./memory/imported_mappings.ts";
import type { MemoryPool } from "./memory/memory_pool.ts";
import { ReleaseStreams } from "./memory/release_streams.ts";
import { Staging } from "./memory/staging.ts";
import { Uploads } from "./memory/uploads.ts";

/**
 * Memory that is not freed yet and belongs to no pool. The session reports it if it leaks, as a pool does for its own.
 */
export interface UnpooledMemory {
  readonly byteLength: number;
}

/** The state that all objects of one `Cuda` share. */
export class Session {
  /** The driver. Once the session has ended, any use of it throws a `ReferenceError`. */
  driver: Driver;
  /** Page-locked memory for copies between devices and pageable memory. */
  readonly staging: Staging;
  /** Copies of pageable memory through page-locked memory. */
  readonly uploads: Uploads;
  /** What the program has found complete without a synchronization. */
  readonly completed: CompletedEvents;
  /** The streams on which memory that several streams have used is freed. */
  readonly releaseStreams: ReleaseStreams;
  /** Whether buffers and events record where they were created, for warnings. */
  readonly debug: boolean;
  /** The live pools by handle: the driver reports a device's current pool as a handle. */
  readonly pools: Map<bigint, MemoryPool> = new Map();
  /** Memory that belongs to no pool. `end` reports what has not been freed. */
  readonly unpooledMemory: Set<UnpooledMemory> = new Set();
  /**
   * Memory that stays although it was freed, because somebody has transferred an ArrayBuffer of it and may still access
   * it. `end` reports it.
   */
  readonly transferredMemory: Set<{ readonly byteLength: number }> = new Set();
  /** Page-locked memory by its buffer, with its size, which a detached buffer does not show. */
  readonly #hostAllocations = new Map<ArrayBufferLike, { allocation: HostAllocation; byteLength: number }>();
  /** The size of each view. */
  readonly #hostViews = new Map<ArrayBuffer, number>();
  /** Events that the library itself waits for, each with its device. */
  readonly #markers = new Map<bigint, number>();
  readonly #importedMappings = new Map<bigint, ImportedMappings>();

  constructor(driver: Driver, { debug = false }: { debug?: boolean } = {}) {
    this.driver = driver;
    this.staging = new Staging(this);
    this.uploads = new Uploads(this);
    this.completed = new CompletedEvents(this);
    this.releaseStreams = new ReleaseStreams(this);
    this.debug = debug;
  }

  get hasEnded(): boolean {
    return this.driver === endedDriver;
  }

  /** Allocates page-locked memory. The session frees it at its end unless it has been freed before. */
  allocateHost(byteLength: number): HostAllocation {
    const allocation = this.driver.hostAlloc(byteLength);
    this.#hostAllocations.set(allocation.buffer, { allocation, byteLength });
    return allocation;
  }

  /** Frees page-locked memory, unless its buffer was transferred. */
  freeHost(allocation: HostAllocation): void {
    const { buffer } = allocation;
    const found = this.#hostAllocations.get(buffer);
    if (found === undefined) return;
    this.#hostAllocations.delete(buffer);
    if (isTransferred(buffer, found.byteLength)) return void this.transferredMemory.add(found);
    // Detach the buffer even if freeing fails: it must not show memory that is gone.
    try {
      this.driver.freeHost(allocation);
    } finally {
      this.detach(buffer);
    }
  }

  /** Whether a buffer shows page-locked memory of this session, which copies read and write in the stream's order. */
  isPageLocked(buffer: ArrayBufferLike): boolean {
    return this.#hostAllocations.has(buffer) || this.#hostViews.has(buffer as ArrayBuffer);
  }

  /**
   * Creates an event for the library's own use: it records the event to find out later how far a stream has got. The
   * session destroys it at its end unless it has been destroyed before.
   */
  createMarker(device: number): bigint {
    const marker = this.driver.eventCreateWithFlags(device, eventFlags.disableTiming);
    this.#markers.set(marker, device);
    return marker;
  }

  /** Makes an event of the application a marker when the application disposes it. */
  adoptMarker(event: bigint, device: number): void {
    this.#markers.set(event, device);
  }

  destroyMarker(marker: bigint): void {
    const device = this.#markers.get(marker);
    if (device === undefined) return;
    this.#markers.delete(marker);
    this.completed.deleteMarker(marker);
    ignoreLoss(() => this.driver.eventDestroy(device, marker));
  }

  /** A view of a host pool's memory, without a copy, until `detach`. */
  hostView(address: bigint, byteLength: number): ArrayBuffer {
    const view = this.driver.hostView(address, byteLength);
    this.#hostViews.set(view, byteLength);
    return view;
  }

  /** Detaches a view whose memory is about to be freed. */
  detach(view: ArrayBuffer): void {
    this.#hostViews.delete(view);
    if (!view.detached) view.transfer(0);
  }

  /** The mappings of an imported pool. A driver returns the same handle for each import of the same pool. */
  importedMappings(pool: bigint): ImportedMappings {
    let mappings = this.#importedMappings.get(pool);
    if (mappings === undefined) {
      mappings = new ImportedMappings(() => this.#importedMappings.delete(pool));
      this.#importedMappings.set(pool, mappings);
    }
    return mappings;
  }

  /**
   * Reports the memory and does not free it: freeing waits for all work of its device, and that work may be waiting for
   * a process that has ended.
   */
  #reportUnpooledMemory(): void {
    reportLeak({
      count: this.unpooledMemory.size,
      byteLength: totalOf(this.unpooledMemory),
      before: "the Cuda object was disposed (memory outside any pool)",
    });
  }

  #reportTransferredMemory(): void {
    reportLeak({
      count: this.transferredMemory.size,
      byteLength: totalOf(this.transferredMemory),
      before: "the Cuda object was disposed, because an ArrayBuffer of the memory was transferred",
      advice: "transfer a copy of the bytes instead, such as buffer.slice()",
    });
  }

  /** Releases what the session itself holds. */
  end(): void {
    if (this.hasEnded) return;
    const { driver } = this;
    this.#reportUnpooledMemory();
    try {
      ignoreLoss(() => this.releaseStreams.close());
      // Runs the last deferred release first, and the others even if one fails.
      using releases = new DisposableStack();
      for (const marker of this.#markers.keys()) releases.defer(() => this.destroyMarker(marker));
      for (const [view, byteLength] of this.#hostViews) {
        if (isTransferred(view, byteLength)) this.transferredMemory.add({ byteLength });
        else releases.defer(() => this.detach(view));
      }
      for (const { allocation } of this.#hostAllocations.values()) {
        releases.defer(() => ignoreLoss(() => this.freeHost(allocation)));
      }
      releases.defer(() => ignoreLoss(() => this.staging.close()));
    } finally {
      this.driver = endedDriver;
      this.#reportTransferredMemory();
      driver.close({ keepMemory: this.transferredMemory.size > 0 });
    }
  }
}

/** Whether somebody else has detached the buffer of memory that has `byteLength` bytes. */
function isTransferred(buffer: ArrayBuffer, byteLength: number): boolean {
  return byteLength > 0 && buffer.detached;
}

function totalOf(memory: Iterable<{ readonly byteLength: number }>): number {
  let total = 0;
  for (const { byteLength } of memory) total += byteLength;
  return total;
}

const endedDriver = new Proxy({} as Driver, {
  get() {
    throw new EndedError("Cannot use this object: the Cuda object was disposed, along with everything that it created");
  },
});
