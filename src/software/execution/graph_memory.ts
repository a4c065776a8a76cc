/**
 * Memory that graphs of the software device allocate. Its address is fixed when the allocation is added to a graph.
 *
 * @module
 */
import type { DeviceMemory } from "../ipc/legacy_memory.ts";

/** An allocation of a graph. */
export class GraphAllocation {
  readonly memory: DeviceMemory;
  /** Whether the graph frees the memory. Otherwise the program frees it after a launch, or the next launch does. */
  isFreedInGraph = false;
  /** Whether a launch has allocated the memory, and nothing has freed it. */
  isAlive = false;
  readonly #release: (memory: DeviceMemory) => void;
  /** The number of graphs and executable graphs that have the allocation. */
  #holders = 0;

  constructor(memory: DeviceMemory, release: (memory: DeviceMemory) => void) {
    this.memory = memory;
    this.#release = release;
  }

  hold(): void {
    this.#holders++;
  }

  /** Called when a graph or an executable graph that has the allocation is destroyed. */
  drop(): void {
    this.#holders--;
    this.#releaseIfUnused();
  }

  /** Frees memory that outlived its launch. */
  free(): void {
    this.isAlive = false;
    this.#releaseIfUnused();
  }

  #releaseIfUnused(): void {
    if (this.#holders === 0 && !this.isAlive) this.#release(this.memory);
  }
}
