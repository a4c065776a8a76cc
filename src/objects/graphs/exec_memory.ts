/**
 * The program's memory that an executable graph uses, while changes of its nodes add and remove some.
 *
 * @module
 */
import type { Allocation } from "../../memory/allocation.ts";
import type { Session } from "../../session.ts";
import type { GraphResources, GraphUser } from "./graph_resources.ts";
import type { CopyNote } from "../../driver_layers.ts";
import type { NodeNote, NodeNotes } from "./node_notes.ts";

/** Memory of the program: an allocation, or page-locked memory. */
export type NodeMemory = Allocation | ArrayBufferLike;

/** The program's memory that an executable graph uses. */
export class ExecMemory {
  readonly #user: GraphUser;
  readonly #notes: NodeNotes;
  #allocations: Set<Allocation>;
  #hostMemory: Set<ArrayBufferLike>;
  #borrowed: Set<Allocation>;
  /** Whether the sets are this object's own: before the first change they are those of the resources. */
  #isChanged = false;
  /** How many nodes use each piece of memory. Counted when a node changes its memory for the first time. */
  #counts: Map<NodeMemory, number> | undefined;
  /** The allocations at instantiation, in the order of their addresses. */
  #placed: readonly Allocation[] | undefined;

  readonly #session: Session;

  constructor(
    session: Session,
    { resources, notes, user }: {
      readonly resources: GraphResources;
      readonly notes: NodeNotes;
      readonly user: GraphUser;
    },
  ) {
    this.#session = session;
    this.#user = user;
    this.#notes = notes;
    this.#allocations = resources.allocations;
    this.#hostMemory = resources.hostMemory;
    this.#borrowed = resources.borrowed;
    for (const allocation of this.#allocations) allocation.addGraph(user);
  }

  /** Page-locked memory. Freeing it detaches the buffer. */
  get hostMemory(): Iterable<ArrayBufferLike> {
    return this.#hostMemory;
  }

  /** The memory that another graph allocates: it has to exist at each launch. */
  get borrowed(): Iterable<Allocation> {
    return this.#borrowed;
  }

  /** An allocation that was freed, if there is one. */
  get freed(): Allocation | undefined {
    for (const allocation of this.#allocations) {
      if (allocation.isGone && !allocation.owner.isGraphMemory) return allocation;
    }
    return undefined;
  }

  /** Returns the memory that an end of a copy, or the target of a fill, was in at instantiation. */
  find(memory: CopyNote["copy"]["source"]): NodeMemory | undefined {
    if (typeof memory !== "bigint") return this.#session.lifetimeOf(memory) ?? memory.buffer;
    const placed = this.#placed ??= [...this.#allocations].sort((a, b) => a.address < b.address ? -1 : 1);
    let low = 0, high = placed.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (placed[middle]!.address <= memory) low = middle + 1;
      else high = middle;
    }
    const found = placed[low - 1];
    return found !== undefined && memory - found.address < found.byteLength ? found : undefined;
  }

  /** Call when a node uses other memory than before. */
  exchange(before: readonly NodeMemory[], after: readonly NodeMemory[]): void {
    for (const memory of after) this.move(undefined, memory, 1);
    for (const memory of before) this.move(memory, undefined, 1);
  }

  /** Call when a number of parameters, ends and targets of nodes has left memory for other memory. */
  move(from: NodeMemory | undefined, to: NodeMemory | undefined, count: number): void {
    const counts = this.#counts ??= this.#count();
    if (!this.#isChanged) {
      this.#isChanged = true;
      this.#allocations = new Set(this.#allocations);
      this.#hostMemory = new Set(this.#hostMemory);
      this.#borrowed = new Set(this.#borrowed);
    }
    if (to !== undefined) {
      const before = counts.get(to) ?? 0;
      counts.set(to, before + count);
      if (before === 0) this.#add(to);
    }
    const before = from === undefined ? undefined : counts.get(from);
    if (before === undefined) return;
    if (before > count) {
      counts.set(from!, before - count);
    } else {
      counts.delete(from!);
      this.#remove(from!);
    }
  }

  /** Call when the executable graph stops using all of it. */
  letGo(): void {
    for (const allocation of this.#allocations) allocation.deleteGraph(this.#user);
  }

  #add(memory: NodeMemory): void {
    if (!isAllocation(memory)) return void this.#hostMemory.add(memory);
    this.#allocations.add(memory);
    if (memory.owner.isGraphMemory) this.#borrowed.add(memory);
    memory.addGraph(this.#user);
  }

  #remove(memory: NodeMemory): void {
    if (!isAllocation(memory)) return void this.#hostMemory.delete(memory);
    this.#allocations.delete(memory);
    this.#borrowed.delete(memory);
    memory.deleteGraph(this.#user);
  }

  #count(): Map<NodeMemory, number> {
    // Placed before anything changes.
    void this.find(0n);
    const counts = new Map<NodeMemory, number>();
    for (const [, note] of this.#notes.entries()) {
      for (const memory of memoryOfNote(note, this)) counts.set(memory, (counts.get(memory) ?? 0) + 1);
    }
    // What no known node uses is used by an unknown one.
    for (const memory of [...this.#allocations, ...this.#hostMemory]) {
      if (!counts.has(memory)) counts.set(memory, 1);
    }
    return counts;
  }
}

/** Returns the program's memory that a node uses: once for each parameter, end or target. */
function memoryOfNote(note: NodeNote, memory: ExecMemory): NodeMemory[] {
  switch (note.kind) {
    case "kernel":
      return note.addresses.flatMap(({ memory }) => memory ?? []);
    case "copy":
      return [memory.find(note.copy.source), memory.find(note.copy.destination)].filter(isKnown);
    case "rows":
      return [memory.find(note.copy.source.memory), memory.find(note.copy.destination.memory)].filter(isKnown);
    case "fill":
      return [memory.find(note.fill.address)].filter(isKnown);
    default:
      return [];
  }
}

function isKnown(memory: NodeMemory | undefined): memory is NodeMemory {
  return memory !== undefined;
}

function isAllocation(memory: NodeMemory): memory is Allocation {
  return "owner" in memory;
}
