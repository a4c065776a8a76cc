/**
 * The memory of a driver's graphs.
 *
 * @module
 */
import { graphNodeType } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import { GraphAllocation, GraphMemoryUsage } from "../execution/graph_memory.ts";
import type { GraphOperation } from "../execution/software_graph.ts";
import { fail } from "../failure.ts";
import { addressOfOffset } from "../memory/linear_memory.ts";
import type { DriverCore } from "./core.ts";
import type { ProgramMemory } from "./program_memory.ts";

/** The memory that graphs of a driver allocate. */
export class GraphMemory {
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

  /** Returns the operation of a node that allocates memory, and the memory's address. */
  allocate(device: number, byteLength: number, call: string): { address: bigint; operation: GraphOperation } {
    const core = this.#core, memory = this.#memory;
    core.ensureBoundsTable(device, call);
    const allocated = core.legacyMemory.allocate(device, byteLength);
    if (allocated === undefined) return core.failForMemory(call);
    memory.allocations.add(allocated);
    const address = addressOfOffset(allocated.begin);
    const allocation = new GraphAllocation(allocated, () => {
      this.#allocations.delete(address);
      memory.forget(allocated);
      core.legacyMemory.release(allocated);
    });
    this.#allocations.set(address, allocation);
    const note = () => {
      if (memory.isChecked) memory.markFresh(allocated);
    };
    const operation: GraphOperation = {
      type: graphNodeType.memAlloc,
      isReplaceable: false,
      allocation,
      enqueue: (branch) => core.scheduler.enqueue(branch, note),
    };
    return { address, operation };
  }

  /** Returns the operation of a node that frees memory of a graph. */
  freeOperation(address: bigint, call: string): GraphOperation {
    const allocation = this.at(address);
    if (allocation === undefined || allocation.isFreedInGraph) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    allocation.isFreedInGraph = true;
    return { type: graphNodeType.memFree, isReplaceable: false, allocation, enqueue: () => undefined };
  }
}
