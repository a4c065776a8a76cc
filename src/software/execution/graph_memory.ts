/**
 * Memory that graphs of the software device allocate. Its address is fixed when the allocation is added to a graph.
 *
 * CUDA gives an allocation physical memory when its graph is launched, and lets launches that do not overlap use the
 * same. Here, all memory is there from the beginning: what is reserved is only counted.
 *
 * @module
 */
import { graphMemAttribute } from "../../driver.ts";
import type { DeviceMemory } from "../ipc/legacy_memory.ts";
import type { SoftwareGraph } from "./software_graph.ts";
import type { Awaited, Stream } from "./streams.ts";

/** Memory is reserved in multiples of this, in bytes. */
const unitByteLength = 32 * 2 ** 20;

/** Memory that is reserved for graphs. */
interface ReservedBlock {
  readonly byteLength: number;
  /** The last work that uses the block. Undefined while an allocation has it. */
  end: { readonly work: Awaited; readonly stream: Stream } | undefined;
}

/** An allocation of a graph. */
export class GraphAllocation {
  readonly memory: DeviceMemory;
  /** The graph that allocates the memory. */
  readonly owner: SoftwareGraph;
  /**
   * The graphs that free the memory: either its owner or others. Without any, the program frees it after a launch.
   */
  readonly freeing: Set<SoftwareGraph> = new Set();
  /** Whether a launch has allocated the memory, and nothing that is enqueued frees it. */
  isAlive = false;
  readonly #usage: GraphMemoryUsage;
  readonly #release: (memory: DeviceMemory) => void;
  /** The number of graphs, executable graphs and pending frees that have the allocation. */
  #holders = 0;
  #block: ReservedBlock | undefined;

  constructor(memory: DeviceMemory, { owner, usage, release }: {
    owner: SoftwareGraph;
    usage: GraphMemoryUsage;
    release: (memory: DeviceMemory) => void;
  }) {
    this.memory = memory;
    this.owner = owner;
    this.#usage = usage;
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

  /** Called when a graph is uploaded on a stream, so that a launch need not reserve memory. */
  reserve(stream: Stream): void {
    if (this.#block === undefined) this.#usage.free(this.#usage.reserve(this.memory.byteLength, stream), done(stream));
  }

  /** Called when a launch on a stream allocates the memory. */
  allocate(stream: Stream): void {
    this.isAlive = true;
    this.#block ??= this.#usage.reserve(this.memory.byteLength, stream);
  }

  /** Called when a launch that frees the memory, or a free, is enqueued. */
  freeAfter(work: Awaited, stream: Stream): void {
    this.isAlive = false;
    if (this.#block !== undefined) this.#usage.free(this.#block, { work, stream });
    this.#block = undefined;
  }
}

function done(stream: Stream): { readonly work: Awaited; readonly stream: Stream } {
  return { work: { done: true }, stream };
}

/**
 * The memory that a device has reserved for graphs, in bytes, and how much of it they use: `graphMemAttribute`. As on a
 * GPU, the two are the same.
 */
export class GraphMemoryUsage {
  readonly #values: bigint[] = [0n, 0n, 0n, 0n];
  readonly #blocks = new Set<ReservedBlock>();

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

  /** Returns memory for a launch on a stream: memory that the stream's earlier work or complete work used, or new. */
  reserve(byteLength: number, stream: Stream): ReservedBlock {
    const size = Math.ceil(byteLength / unitByteLength) * unitByteLength;
    let block = [...this.#blocks].find(({ byteLength, end }) => {
      return byteLength === size && end !== undefined && (end.stream === stream || end.work.done);
    });
    if (block === undefined) {
      this.#blocks.add(block = { byteLength: size, end: undefined });
      this.#add(size);
    }
    block.end = undefined;
    return block;
  }

  /** Notes the last work that uses a block. */
  free(block: ReservedBlock, end: { readonly work: Awaited; readonly stream: Stream }): void {
    block.end = end;
  }

  /** Releases the memory that no launch uses any more. */
  trim(): void {
    for (const block of this.#blocks) {
      if (!block.end?.work.done) continue;
      this.#blocks.delete(block);
      this.#add(-block.byteLength);
    }
  }

  #add(byteLength: number): void {
    const { usedCurrent, usedHigh, reservedCurrent, reservedHigh } = graphMemAttribute;
    for (const [current, high] of [[usedCurrent, usedHigh], [reservedCurrent, reservedHigh]] as const) {
      const value = this.#values[current]! + BigInt(byteLength);
      this.#values[current] = value;
      if (value > this.#values[high]!) this.#values[high] = value;
    }
  }
}
