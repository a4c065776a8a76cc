/**
 * The memories of a store, and their holders. A memory is an allocation that outlives the process that created it.
 *
 * @module
 */
import type { Cuda } from "../../../objects/cuda.ts";
import type { CudaDevice } from "../../../objects/cuda_device.ts";
import type { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import { SharingError } from "../../../support/errors.ts";
import { isSameUuid } from "../../../support/uuid.ts";
import type { DescriptorBackup } from "../descriptor_backups.ts";
import { AwaitedNames, type NameWaiter, type PendingRequest } from "./pending_request.ts";
import { type Grant, MemoryAllocator } from "./memory_allocator.ts";
import { type BudgetLimits, StoreBudget } from "./store_budget.ts";
import {
  type Holder,
  newMemory,
  recordOf,
  restoredMemory,
  type Stored,
  type StoredRecord,
  StoreTable,
} from "./store_table.ts";
import { UnsentAnswers } from "./store_answer.ts";

/** A request to create memory. */
export interface CreateRequest {
  readonly name: string;
  readonly device: string;
  readonly byteLength: number;
  /** The metadata as JSON in UTF-8. */
  readonly metadata: Uint8Array<ArrayBuffer> | undefined;
}

/** The memories of a store. */
export class StoredMemories implements Disposable {
  readonly #memories = new Map<number, Stored>();
  /** The published memories. */
  readonly #published = new Map<string, Stored>();
  readonly #table: StoreTable;
  readonly #budget: StoreBudget;
  readonly #allocator: MemoryAllocator;
  /**
   * The number of the next memory. Each process of a store starts at a random number, because clients may claim memory
   * of an earlier process by its number, which must not be reused.
   */
  #nextId = 1 + Math.floor(Math.random() * 2 ** 32) * 2 ** 20;
  /** The answers that are being sent, which may need the metadata of freed memory. */
  readonly unsent: UnsentAnswers;
  /** The total number of generations published. */
  publishedTotal = 0;
  /** The requests that wait for the first generation of a name. */
  readonly #awaited = new AwaitedNames();

  /** @param restored the memories of an earlier process; takes ownership of their handles */
  constructor(
    cuda: Cuda,
    limits: BudgetLimits,
    restored: readonly { readonly record: StoredRecord; readonly handle: ShareableHandle }[],
  ) {
    const budget = this.#budget = new StoreBudget(cuda, limits, (name) => this.#published.has(name));
    this.#allocator = new MemoryAllocator({
      cuda,
      limits,
      budget,
      evictable: (device) => this.#unused(device).reduce((sum, { size }) => sum + size, 0),
      evictOne: (device) => this.#evictOne(device),
    });
    this.unsent = new UnsentAnswers(limits.maximumMetadata);
    for (const { record, handle } of restored) {
      const memory = restoredMemory(record, handle);
      this.#memories.set(memory.id, memory);
      budget.update(memory);
      if (memory.state === "published") this.#published.set(memory.name, memory);
    }
    this.#table = new StoreTable(() => this.#records());
  }

  /** Adds a backup of all memories. */
  addBackup(backup: DescriptorBackup): Promise<void> {
    return this.#table.addBackup(backup, this.#memories.values());
  }

  /** Removes a backup. */
  removeBackup(backup: DescriptorBackup): void {
    this.#table.removeBackup(backup);
  }

  /** The published memories. */
  get published(): Iterable<Stored> {
    return this.#published.values();
  }

  /** All memories, published or not. */
  get all(): Iterable<Stored> {
    return this.#memories.values();
  }

  /**
   * Creates memory for a writer. Waits until enough memory is available.
   *
   * @throws {SharingError} `limit-exceeded`, `device-not-visible`, `out-of-descriptors`
   * @throws {CudaError} If the driver fails for a reason other than lack of memory
   */
  async create(writer: Holder, request: CreateRequest, pending: PendingRequest): Promise<Stored> {
    const device = this.#allocator.deviceOf(request.device);
    const size = this.#allocator.wholeSize(device, request.byteLength);
    const metadataByteLength = request.metadata?.length ?? 0;
    const { uid } = writer.peer;
    const space = { name: request.name, device, uid, size };
    this.#budget.check(space, metadataByteLength);
    // Charges the metadata also while the request waits, because a client may send many requests.
    this.#budget.metadata.add([uid], metadataByteLength);
    let grant: Grant;
    try {
      grant = this.#allocator.allocate(space) ?? await this.#allocator.whenFree(space, pending);
    } finally {
      this.#budget.metadata.add([uid], -metadataByteLength);
    }
    this.#budget.endGrant(grant);
    const record: StoredRecord = {
      id: this.#takeId(),
      name: request.name,
      // Uses the store's own spelling of the UUID, because other clients receive it.
      device: device.uuid,
      byteLength: request.byteLength,
      size,
      metadata: request.metadata,
      uid,
      created: Date.now(),
      generation: 0,
      published: 0,
      state: "new",
    };
    const memory = newMemory(record, grant.handle, writer);
    this.#memories.set(memory.id, memory);
    this.#budget.update(memory);
    // Backs up the descriptor first: a process that takes over needs the descriptors of all memories in the table.
    await this.#table.keep(memory);
    if (this.#memories.get(memory.id) !== memory) return memory;
    try {
      this.#table.write({ type: "memory", record: recordOf(memory) });
      memory.isWritten = true;
    } catch (error) {
      memory.writer = undefined;
      this.#forget(memory);
      throw error;
    }
    return memory;
  }

  #takeId(): number {
    while (this.#memories.has(this.#nextId)) this.#nextId++;
    return this.#nextId++;
  }

  /** Returns the memory with a number; undefined unless `writer` writes it. */
  writtenBy(writer: Holder, id: number): Stored | undefined {
    const memory = this.#memories.get(id);
    return memory?.writer === writer ? memory : undefined;
  }

  /**
   * Publishes memory. The writer becomes a reader. Readers of the previous generation keep their mappings.
   *
   * @throws {SharingError} `not-permitted` if another user has published the name
   */
  publish(memory: Stored): void {
    const { name } = memory;
    const writer = memory.writer!;
    const last = this.#published.get(name);
    if (last !== undefined) this.#checkOwner(writer, last, "replace");
    const at = Date.now();
    const generation = (last?.generation ?? 0) + 1;
    // Writes the record first: if this throws, nothing has changed. A single record suffices, so that a process that
    // takes over always finds one of the generations.
    this.#table.write({ type: "published", id: memory.id, generation, at });
    Object.assign(memory, { generation, published: at, lastUse: at, state: "published", writer: undefined });
    memory.readers.set(writer, { count: 1, since: at });
    this.#published.set(name, memory);
    this.publishedTotal++;
    if (last !== undefined) this.#retire(last, "replaced");
    this.#awaited.notify(name);
  }

  /**
   * Adds a reader to the memory published under a name. Returns the memory; undefined if none is published.
   *
   * @throws {SharingError} `not-permitted` if `write` is true and another user has published the memory;
   * `limit-exceeded` if the reader's user holds too much memory that other users have replaced or removed
   */
  map(reader: Holder, name: string, { write }: { readonly write: boolean }): Stored | undefined {
    const memory = this.#published.get(name);
    if (memory === undefined) return undefined;
    if (write) this.#checkOwner(reader, memory, "write");
    const reading = memory.readers.get(reader);
    if (reading === undefined) {
      this.#budget.checkReader(reader.peer.uid, memory);
      memory.readers.set(reader, { count: 1, since: Date.now() });
    } else {
      reading.count++;
    }
    memory.lastUse = Date.now();
    return memory;
  }

  /** Whether a holder's user is within its share of memory that other users have replaced or removed. */
  mayHold({ peer: { uid } }: Holder, memory: Stored): boolean {
    return this.#budget.mayRead(uid, memory);
  }

  /** Accepts the claim of a process that it has mapped a memory `count` times. */
  claim(reader: Holder, memory: Stored, count: number): void {
    memory.readers.set(reader, { count, since: Date.now() });
    this.#budget.update(memory);
  }

  /** Accepts the claim of a process that it has created a memory. The process may then publish the memory. */
  claimToWrite(writer: Holder, memory: Stored): void {
    memory.writer = writer;
    this.#budget.update(memory);
  }

  /**
   * Calls a waiter when memory is published under a name.
   *
   * @returns a function that removes the waiter
   */
  awaitName(name: string, waiter: NameWaiter): () => void {
    this.#awaited.add(name, waiter);
    return () => this.#awaited.delete(name, waiter);
  }

  /** Releases one or more of a holder's mappings of a memory. Returns whether the holder held the memory. */
  release(holder: Holder, id: number, times = 1): boolean {
    const memory = this.#memories.get(id);
    if (memory === undefined) return false;
    if (memory.writer === holder) memory.writer = undefined;
    else {
      const reading = memory.readers.get(holder);
      if (reading === undefined) return false;
      reading.count -= times;
      if (reading.count <= 0) memory.readers.delete(holder);
      memory.lastUse = Date.now();
    }
    this.#dropIfUnused(memory);
    return true;
  }

  /**
   * Releases all memory of a holder, except `kept`.
   *
   * @param kept the number of mappings of each memory that the holder keeps, by the memory's number
   */
  releaseAll(holder: Holder, kept: ReadonlyMap<number, number> = new Map()): void {
    for (const memory of [...this.#memories.values()]) {
      const count = kept.get(memory.id) ?? 0;
      const reading = memory.readers.get(holder);
      const isReleased = reading !== undefined && reading.count > count;
      if (isReleased) {
        reading.count = count;
        if (count === 0) memory.readers.delete(holder);
        memory.lastUse = Date.now();
      }
      const isAbandoned = memory.writer === holder && count === 0;
      if (isAbandoned) memory.writer = undefined;
      if (isReleased || isAbandoned) this.#dropIfUnused(memory);
    }
  }

  /** Transfers all memory of one holder to another holder of the same process. */
  transfer(from: Holder, to: Holder): void {
    for (const memory of this.#memories.values()) {
      if (memory.writer === from) memory.writer = to;
      const reading = memory.readers.get(from);
      if (reading === undefined) continue;
      memory.readers.delete(from);
      memory.readers.set(to, { ...reading, count: reading.count + (memory.readers.get(to)?.count ?? 0) });
      this.#budget.update(memory);
    }
  }

  /** Returns the memory with a number; undefined if there is none. */
  find(id: number): Stored | undefined {
    return this.#memories.get(id);
  }

  /**
   * Removes a name. The memory published under it is freed when its last reader releases it.
   *
   * @returns whether memory was published under the name
   * @throws {SharingError} `not-permitted` if another user has published the memory
   */
  remove(holder: Holder, name: string): boolean {
    const memory = this.#published.get(name);
    if (memory === undefined) return false;
    this.#checkOwner(holder, memory, "remove");
    this.#retire(memory, "removed");
    return true;
  }

  /** Drops memory restored from an earlier process that no client has claimed. */
  dropUnclaimed(): void {
    for (const memory of [...this.#memories.values()]) {
      memory.mayBeClaimed = false;
      this.#dropIfUnused(memory);
    }
  }

  /** Closes all descriptors. Backups keep their own. */
  [Symbol.dispose](): void {
    this.#allocator[Symbol.dispose]();
    for (const { handle } of this.#memories.values()) handle[Symbol.dispose]();
    this.#memories.clear();
    this.#published.clear();
    this.#table[Symbol.dispose]();
  }

  /**
   * Evicts the least recently used published memory on a device that no process maps. Returns false if there is none.
   */
  #evictOne(device: CudaDevice): boolean {
    const [oldest] = this.#unused(device).sort((one, other) => one.lastUse - other.lastUse);
    if (oldest === undefined) return false;
    this.#retire(oldest, "removed");
    return true;
  }

  /** Returns the published memories on a device that no process maps. */
  #unused(device: CudaDevice): Stored[] {
    return [...this.#published.values()].filter((memory) =>
      memory.readers.size === 0 && !memory.mayBeClaimed && isSameUuid(memory.device, device.uuid)
    );
  }

  /** Removes the name of a published memory, which is freed once no process maps it. */
  #retire(memory: Stored, state: "replaced" | "removed"): void {
    this.#table.write({ type: state, id: memory.id });
    memory.state = state;
    if (this.#published.get(memory.name) === memory) {
      this.#published.delete(memory.name);
      this.#budget.onNameRemoved(memory.name);
    }
    this.#dropIfUnused(memory);
  }

  #dropIfUnused(memory: Stored): void {
    if (!this.#memories.has(memory.id)) return;
    const isHeld = memory.writer !== undefined || memory.readers.size > 0 || memory.mayBeClaimed;
    if (memory.state === "published" || isHeld) {
      if (this.#budget.update(memory)) this.#allocator.retry();
      return;
    }
    if (memory.isWritten) this.#table.write({ type: "gone", id: memory.id });
    this.#forget(memory);
  }

  /** Frees a memory that is not, or no longer, in the table. */
  #forget(memory: Stored): void {
    this.#memories.delete(memory.id);
    this.#budget.remove(memory);
    this.unsent.onGone(memory);
    this.#table.forget(memory);
    memory.handle[Symbol.dispose]();
    this.#allocator.retry();
  }

  #checkOwner({ peer: { uid } }: Holder, memory: Stored, action: string): void {
    if (uid === memory.uid || uid === 0) return;
    throw new SharingError(
      "not-permitted",
      `Cannot ${action} ${JSON.stringify(memory.name)}: user ${memory.uid} has published it, and this is user ${uid}`,
    );
  }

  *#records(): Iterable<StoredRecord> {
    for (const memory of this.#memories.values()) if (memory.isWritten) yield recordOf(memory);
  }
}
