/**
 * What the work of a graph uses: memory and modules of the program, and memory that the graph has copied.
 *
 * @module
 */
import type { Allocation } from "../../memory/allocation.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";

/** An executable graph, seen from the memory that it uses. */
export interface GraphUser {
  /** Call before memory of the graph is freed: orders the free behind the launches so far. */
  noteUses(allocation: Allocation): void;
  /** Call when memory of the graph was freed: it cannot be launched any more. */
  onFreed(allocation: Allocation): void;
}

/** What the work of a graph uses. Kept until the graph and all its executable graphs are disposed. */
export class GraphResources {
  /** The program's memory. It is not kept from being freed. */
  readonly allocations: Set<Allocation> = new Set();
  /** The program's page-locked memory that copies read or write. Freeing it detaches the buffer. */
  readonly hostMemory: Set<ArrayBufferLike> = new Set();
  /** The memory that the graph allocates, and the program's buffer of it. */
  readonly owned: Map<Allocation, DeviceBuffer> = new Map();
  /** Functions that release what is kept, by what they release. */
  readonly #releases = new Map<unknown, () => void>();
  #holders = 0;

  /** Keeps something, if it is not kept yet. `keep` returns a function that releases it. */
  keep(what: unknown, keep: () => () => void): void {
    if (!this.#releases.has(what)) this.#releases.set(what, keep());
  }

  /** The memory that the graph allocates and does not free. */
  readonly unfreed: Map<Allocation, DeviceBuffer> = new Map();

  /** Call when the capture has ended: the memory that was allocated in it does not exist before a launch. */
  onCaptured(): void {
    for (const [allocation, buffer] of this.owned) {
      this.allocations.delete(allocation);
      if (allocation.isFreed) continue;
      this.unfreed.set(allocation, buffer);
      allocation.suspend("a graph allocates it, and has not been launched");
    }
  }

  hold(): void {
    this.#holders++;
  }

  /** Call when a holder is disposed. The last one releases what is kept. */
  drop(): void {
    if (--this.#holders > 0) return;
    for (const release of this.#releases.values()) release();
    this.#releases.clear();
  }
}
