/**
 * Memory that graphs of the software device allocate. Its address is fixed when the allocation is added to a graph.
 *
 * @module
 */
import { graphMemAttribute } from "../../driver.ts";
import type { DeviceMemory } from "../ipc/legacy_memory.ts";

/** An allocation of a graph. */
export class GraphAllocation {
  readonly memory: DeviceMemory;
  /** Whether a node of any graph frees the memory. Otherwise the program frees it after a launch. */
  isFreedInGraph = false;
  /** Whether a launch has allocated the memory, and nothing that is enqueued frees it. */
  isAlive = false;
  readonly #release: (memory: DeviceMemory) => void;
  /** The number of graphs, executable graphs and pending frees that have the allocation. */
  #holders = 0;

  constructor(memory: DeviceMemory, release: (memory: DeviceMemory) => void) {
    this.memory = memory;
    this.#release = release;
  }

  hold(): void {
    this.#holders++;
  }

  /** Called when a graph or an executable graph that has the allocation is destroyed, or when a free has run. */
  drop(): void {
    this.#holders--;
    if (this.#holders === 0 && !this.isAlive) this.#release(this.memory);
  }

  /** Frees memory that outlived its launch. Returns the function to call when the stream frees it. */
  free(): () => void {
    this.isAlive = false;
    this.hold();
    return () => this.drop();
  }
}

/** The memory that a device has reserved for graphs, in bytes, and how much of it they use: `graphMemAttribute`. */
export class GraphMemoryUsage {
  readonly #values: bigint[] = [0n, 0n, 0n, 0n];

  get(attribute: number): bigint | undefined {
    return this.#values[attribute];
  }

  /** Resets a high mark to what it is a mark of. Returns false if the attribute is no high mark. */
  reset(attribute: number): boolean {
    const { usedCurrent, usedHigh, reservedCurrent, reservedHigh } = graphMemAttribute;
    if (attribute !== usedHigh && attribute !== reservedHigh) return false;
    this.#values[attribute] = this.#values[attribute === usedHigh ? usedCurrent : reservedCurrent]!;
    return true;
  }

  /** Notes memory that a graph has begun to use, or has stopped using if the size is negative. */
  use(byteLength: number): void {
    this.#add(graphMemAttribute.usedCurrent, graphMemAttribute.usedHigh, byteLength);
  }

  /** Notes memory that the device has reserved, or has released if the size is negative. */
  reserve(byteLength: number): void {
    this.#add(graphMemAttribute.reservedCurrent, graphMemAttribute.reservedHigh, byteLength);
  }

  #add(current: number, high: number, byteLength: number): void {
    const value = this.#values[current]! + BigInt(byteLength);
    this.#values[current] = value;
    if (value > this.#values[high]!) this.#values[high] = value;
  }
}
