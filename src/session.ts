import type { Driver, HostAllocation } from "./driver.ts";
import { giveBack } from "./explain.ts";
import { ImportedMappings } from "./imported_mappings.ts";
import { Staging } from "./staging.ts";

/** What all objects of one `Cuda` share. */
export class Session {
  /** The driver; once the session has ended, one whose every method throws a `ReferenceError`. */
  driver: Driver;
  /** Page-locked memory that copies to pageable memory go through. */
  readonly staging: Staging;
  /** Whether pools remember where each buffer was allocated. */
  readonly debug: boolean;
  readonly #hostAllocations = new Set<HostAllocation>();
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
    this.#hostAllocations.delete(allocation);
    // Detached afterwards, the buffer can no longer show memory that is gone.
    const { buffer } = allocation;
    try {
      this.driver.freeHost(allocation);
    } finally {
      if (!buffer.detached) buffer.transfer(0);
    }
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

  /** Gives back what the session itself holds. */
  end(): void {
    if (this.hasEnded) return;
    const { driver } = this;
    giveBack(() => this.staging.close());
    for (const allocation of this.#hostAllocations) giveBack(() => this.freeHost(allocation));
    this.driver = endedDriver;
    driver.close();
  }
}

const endedDriver = new Proxy({} as Driver, {
  get(_, name) {
    throw new ReferenceError(`Cannot call ${String(name)}: the Cuda object was disposed`);
  },
});
