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

/** Why memory that a graph allocates cannot be used outside its nodes. */
const awaitsLaunch = "a graph allocates it, and has not been launched";
const existsWithin = "a graph allocates it and frees it again: it exists only within a launch, for nodes of the graph";
const freedByOther = "another graph has freed it; it exists again after the next launch of the graph that allocates it";

/** What the work of a graph uses. Kept until the graph and all its executable graphs are disposed. */
export class GraphResources {
  /** The program's memory. It is not kept from being freed. */
  readonly allocations: Set<Allocation> = new Set();
  /** The program's page-locked memory that copies read or write. Freeing it detaches the buffer. */
  readonly hostMemory: Set<ArrayBufferLike> = new Set();
  /** The memory that the graph allocates, and the program's buffer of it. */
  readonly owned: Map<Allocation, DeviceBuffer> = new Map();
  /** The memory that the graph allocates and does not free. */
  readonly unfreed: Map<Allocation, DeviceBuffer> = new Map();
  /** The memory that the graph uses and another graph allocates: it has to exist at each launch. */
  readonly borrowed: Set<Allocation> = new Set();
  /** The memory that the graph frees and another graph allocates. */
  readonly freedOfOthers: Set<Allocation> = new Set();
  /** The memory that a capture has allocated that has not ended: streams of the capture use it. */
  readonly #captured = new Set<Allocation>();
  /** Whether nodes record events or wait for events. */
  hasEvents = false;
  /** What single nodes use, by their handles. */
  readonly #ofNodes = new Map<bigint, GraphResources>();
  /** Whether something else than the nodes in `#ofNodes` uses what is here. */
  #isMixed = false;
  /** Functions that release what is kept, by what they release. */
  readonly #releases = new Map<unknown, () => void>();
  #holders = 0;

  /** Keeps something, if it is not kept yet. `keep` returns a function that releases it. */
  keep(what: unknown, keep: () => () => void): void {
    if (!this.#releases.has(what)) this.#releases.set(what, keep());
  }

  /** Returns a copy, which keeps what this keeps. Nodes that are added afterwards do not change it. */
  copy(): GraphResources {
    const copy = new GraphResources();
    copy.adopt(this);
    return copy;
  }

  /** Adds what other resources have, and keeps what they keep. */
  adopt(other: GraphResources): void {
    this.#isMixed = true;
    for (const [allocation, buffer] of other.owned) this.owned.set(allocation, buffer);
    for (const [allocation, buffer] of other.unfreed) this.unfreed.set(allocation, buffer);
    for (const allocation of other.freedOfOthers) this.freedOfOthers.add(allocation);
    this.hasEvents ||= other.hasEvents;
    this.#add(other);
  }

  #add(uses: GraphResources): void {
    for (const allocation of uses.allocations) {
      if (this.owned.has(allocation)) continue;
      this.allocations.add(allocation);
      if (allocation.owner.isGraphMemory) this.borrowed.add(allocation);
    }
    for (const memory of uses.hostMemory) this.hostMemory.add(memory);
    this.keep(uses, () => {
      uses.hold();
      return () => uses.drop();
    });
  }

  /** Adds what a node uses. */
  addNode(node: bigint, uses: GraphResources): void {
    this.#ofNodes.set(node, uses);
    this.#add(uses);
  }

  /** Removes what only a node has used, which was removed. Executable graphs may still run it: all is kept. */
  deleteNode(node: bigint): void {
    const uses = this.#ofNodes.get(node);
    if (uses === undefined) return;
    this.#ofNodes.delete(node);
    if (this.#isMixed) return;
    const others = [...this.#ofNodes.values()];
    for (const allocation of uses.allocations) {
      if (others.some(({ allocations }) => allocations.has(allocation))) continue;
      this.allocations.delete(allocation);
      this.borrowed.delete(allocation);
    }
    for (const memory of uses.hostMemory) {
      if (!others.some(({ hostMemory }) => hostMemory.has(memory))) this.hostMemory.delete(memory);
    }
  }

  /** Adds memory that the graph allocates. With `isCaptured`, it can be used until `onCaptured` is called. */
  own(allocation: Allocation, buffer: DeviceBuffer, { isCaptured }: { isCaptured: boolean }): void {
    this.owned.set(allocation, buffer);
    if (isCaptured) this.#captured.add(allocation);
    else {
      this.unfreed.set(allocation, buffer);
      allocation.suspend(awaitsLaunch);
    }
  }

  /** Whether a node of the graph frees memory. */
  frees(allocation: Allocation): boolean {
    return this.freedOfOthers.has(allocation) ||
      this.owned.has(allocation) && !this.unfreed.has(allocation) && !this.#captured.has(allocation);
  }

  /** Notes that a node frees memory, which this graph or another one allocates. */
  free(allocation: Allocation): void {
    if (!this.owned.has(allocation)) {
      this.freedOfOthers.add(allocation);
      return;
    }
    this.unfreed.delete(allocation);
    this.#captured.delete(allocation);
    allocation.suspend(existsWithin);
  }

  /** Call before a capture into the graph begins. */
  onCapture(): void {
    this.#isMixed = true;
  }

  /** Call when a capture has ended: the memory that was allocated in it does not exist before a launch. */
  onCaptured(): void {
    for (const allocation of this.#captured) {
      this.allocations.delete(allocation);
      if (allocation.isFreed) continue;
      this.unfreed.set(allocation, this.owned.get(allocation)!);
      allocation.suspend(awaitsLaunch);
    }
    this.#captured.clear();
  }

  /** Call when a launch was enqueued: from now on, work behind it can use what it allocates. */
  onLaunch(): void {
    for (const allocation of this.unfreed.keys()) allocation.revive();
    for (const allocation of this.freedOfOthers) allocation.suspend(freedByOther);
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
