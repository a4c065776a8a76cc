import { type Driver, eventFlags, type HostAllocation } from "./driver.ts";
import { EndedError, ignoreLoss } from "./support/error_wording.ts";
import { reportLeak } from "./support/leaks.ts";
import { ImportedMappings } from "./memory/imported_mappings.ts";
import type { MemoryPool } from "./memory/memory_pool.ts";
import { Staging } from "./memory/staging.ts";

/** Memory that is of no pool, which would report it, and that nobody has freed yet. */
export interface UnpooledMemory {
  readonly byteLength: number;
}

/** What all objects of one `Cuda` share. */
export class Session {
  /** The driver; once the session has ended, one whose every method throws a `ReferenceError`. */
  driver: Driver;
  /** Page-locked memory that copies to pageable memory go through. */
  readonly staging: Staging;
  /** Whether pools remember where each buffer was allocated. */
  readonly debug: boolean;
  /** The pools that there are, by handle: a device tells its current pool by that. */
  readonly pools: Map<bigint, MemoryPool> = new Map();
  /** Memory of no pool: what is left of it is reported by `end`. */
  readonly unpooledMemory: Set<UnpooledMemory> = new Set();
  readonly #hostAllocations = new Set<HostAllocation>();
  readonly #hostViews = new Set<ArrayBuffer>();
  /** Events that the library itself waits for, and their devices. */
  readonly #markers = new Map<bigint, number>();
  readonly #importedMappings = new Map<bigint, ImportedMappings>();

  constructor(driver: Driver, { debug = false }: { debug?: boolean } = {}) {
    this.driver = driver;
    this.staging = new Staging(this);
    this.debug = debug;
  }

  get hasEnded(): boolean {
    return this.driver === endedDriver;
  }

  /** Page-locked memory, which the session frees at its end if nobody has. */
  allocateHost(byteLength: number): HostAllocation {
    const allocation = this.driver.hostAlloc(byteLength);
    this.#hostAllocations.add(allocation);
    return allocation;
  }

  freeHost(allocation: HostAllocation): void {
    if (!this.#hostAllocations.delete(allocation)) return;
    // Detached afterwards, the buffer can no longer show memory that is gone.
    const { buffer } = allocation;
    try {
      this.driver.freeHost(allocation);
    } finally {
      this.detach(buffer);
    }
  }

  /** An event by which the library itself knows how far a stream is. The session destroys it at its end if nobody has. */
  createMarker(device: number): bigint {
    const marker = this.driver.eventCreateWithFlags(device, eventFlags.disableTiming);
    this.#markers.set(marker, device);
    return marker;
  }

  destroyMarker(marker: bigint): void {
    const device = this.#markers.get(marker);
    if (device === undefined) return;
    this.#markers.delete(marker);
    ignoreLoss(() => this.driver.eventDestroy(device, marker));
  }

  /** Memory of a pool in host memory, seen in place until `detach`. */
  hostView(address: bigint, byteLength: number): ArrayBuffer {
    const view = this.driver.hostView(address, byteLength);
    this.#hostViews.add(view);
    return view;
  }

  /** Ends a view of memory that is about to go. */
  detach(view: ArrayBuffer): void {
    this.#hostViews.delete(view);
    if (!view.detached) view.transfer(0);
  }

  /** The mappings of an imported pool: a driver gives the same handle to each import of the same pool. */
  importedMappings(pool: bigint): ImportedMappings {
    let mappings = this.#importedMappings.get(pool);
    if (mappings === undefined) {
      mappings = new ImportedMappings(() => this.#importedMappings.delete(pool));
      this.#importedMappings.set(pool, mappings);
    }
    return mappings;
  }

  /** Freeing it now would wait for all that its device was given, which may wait for a process that is gone. */
  #reportUnpooledMemory(): void {
    reportLeak({
      count: this.unpooledMemory.size,
      byteLength: [...this.unpooledMemory].reduce((sum, { byteLength }) => sum + byteLength, 0),
      before: "the Cuda object was disposed, of no pool",
    });
  }

  /** Gives back what the session itself holds. */
  end(): void {
    if (this.hasEnded) return;
    const { driver } = this;
    this.#reportUnpooledMemory();
    try {
      // The last to be deferred is the first to be done; one that fails keeps none of the others from it.
      using releases = new DisposableStack();
      for (const marker of this.#markers.keys()) releases.defer(() => this.destroyMarker(marker));
      for (const view of this.#hostViews) releases.defer(() => this.detach(view));
      for (const allocation of this.#hostAllocations) releases.defer(() => ignoreLoss(() => this.freeHost(allocation)));
      releases.defer(() => ignoreLoss(() => this.staging.close()));
    } finally {
      this.driver = endedDriver;
      driver.close();
    }
  }
}

const endedDriver = new Proxy({} as Driver, {
  get() {
    throw new EndedError(
      "Cannot use this object: the Cuda object was disposed, and all that came from it went with it",
    );
  },
});
