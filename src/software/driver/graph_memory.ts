/**
 * The memory of a driver's graphs.
 *
 * @module
 */
import { graphNodeType } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { GraphAllocation, GraphMemoryUsage } from "../execution/graph_memory.ts";
import type { GraphOperation, SoftwareGraph, SoftwareGraphNode } from "../execution/software_graph.ts";
import type { Stream, Work } from "../execution/streams.ts";
import { fail } from "../failure.ts";
import { addressOfOffset } from "../memory/memory_layout.ts";
import type { DriverCore } from "./core.ts";
import type { ProgramMemory } from "./program_memory.ts";

/** The memory that graphs of a driver allocate. */
export class SoftwareGraphMemory {
  readonly #core: DriverCore;
  readonly #memory: ProgramMemory;
  readonly #allocations = new Map<bigint, GraphAllocation>();
  readonly #usage = new Map<number, GraphMemoryUsage>();

  constructor(core: DriverCore, memory: ProgramMemory) {
    this.#core = core;
    this.#memory = memory;
  }

  /** Returns how much memory the graphs of a device use. */
  usageOf(device: number): GraphMemoryUsage {
    let usage = this.#usage.get(device);
    if (usage === undefined) this.#usage.set(device, usage = new GraphMemoryUsage());
    return usage;
  }

  /** Returns the allocation of a graph that begins at an address. */
  at(address: bigint): GraphAllocation | undefined {
    return this.#allocations.get(address);
  }

  /** Returns whether an allocation that begins at an offset is one of a graph, and no launch has allocated it. */
  isDormant(begin: number): boolean {
    return this.at(addressOfOffset(begin))?.isAlive === false;
  }

  /**
   * Returns the operation of a node that allocates memory, and the memory's address.
   *
   * @param after the nodes on which the node depends: as in CUDA, it gets memory that the same graph has freed before
   */
  allocate(
    { graph, device, byteLength, after }: {
      graph: SoftwareGraph;
      device: number;
      byteLength: number;
      after: readonly SoftwareGraphNode[];
    },
    call: string,
  ): { address: bigint; operation: GraphOperation } {
    const [freed] = freedBefore(after)
      .filter(({ memory }) => memory.device === device && memory.byteLength >= byteLength)
      .sort((first, second) => first.memory.byteLength - second.memory.byteLength);
    if (freed !== undefined) {
      freed.freeing.clear();
      return { address: addressOfOffset(freed.memory.begin), operation: this.#operation(freed) };
    }
    const core = this.#core, memory = this.#memory;
    core.ensureBoundsTable(device, call);
    const allocated = core.legacyMemory.allocate(device, byteLength);
    if (allocated === undefined) return core.failForMemory(call);
    memory.allocations.add(allocated);
    const address = addressOfOffset(allocated.begin);
    const release = () => {
      this.#allocations.delete(address);
      memory.forget(allocated);
      core.legacyMemory.release(allocated);
    };
    const allocation = new GraphAllocation(allocated, { owner: graph, usage: this.usageOf(device), release });
    this.#allocations.set(address, allocation);
    return { address, operation: this.#operation(allocation) };
  }

  #operation(allocation: GraphAllocation): GraphOperation {
    const core = this.#core, memory = this.#memory;
    const note = () => {
      if (memory.isChecked) memory.markFresh(allocation.memory);
    };
    const enqueue = (stream: Stream) => core.scheduler.enqueue(stream, note);
    return { type: graphNodeType.memAlloc, allocation, enqueue };
  }

  /** Enqueues a free of an allocation that outlived its launch. */
  free(allocation: GraphAllocation, stream: Stream): Work {
    allocation.hold();
    const work = this.#core.scheduler.enqueue(stream, () => allocation.drop(), { outlivesDevice: true });
    allocation.freeAfter(work, stream);
    return work;
  }

  /** Returns the operation of a node of a graph that frees memory of a graph. */
  freeOperation(graph: SoftwareGraph, address: bigint, call: string): GraphOperation {
    const allocation = this.at(address) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const { owner, freeing } = allocation;
    // Either the owner frees the memory, or other graphs do.
    const isRefused = freeing.has(graph) || (graph === owner ? freeing.size > 0 : freeing.has(owner));
    if (isRefused) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    freeing.add(graph);
    return { type: graphNodeType.memFree, allocation, enqueue: () => undefined };
  }
}

/** Returns the allocations that a graph makes and frees in the nodes that come before a new one. */
function freedBefore(after: readonly SoftwareGraphNode[]): GraphAllocation[] {
  const before = new Set(after);
  // Nodes that are added meanwhile are visited too.
  for (const { dependencies } of before) for (const dependency of dependencies) before.add(dependency);
  const operations = [...before].map(({ operation }) => operation);
  const made = operations.filter(({ type }) => type === graphNodeType.memAlloc).map(({ allocation }) => allocation!);
  const freed = new Set(
    operations.filter(({ type }) => type === graphNodeType.memFree).map(({ allocation }) => allocation),
  );
  return made.filter((allocation) => allocation.freeing.has(allocation.owner) && freed.has(allocation));
}
