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
import { encodeMetadata } from "../../protocol/metadata.ts";
import { knownNames } from "../../protocol/known_names.ts";
import type { DescriptorBackup } from "../descriptor_backups.ts";
import { AwaitedNames, type NameWaiter, type PendingRequest } from "./pending_request.ts";
import { createHostMemory, type Grant, MemoryAllocator, type NeededMove } from "./memory_allocator.ts";
import { type BudgetLimits, type SpaceRequest, StoreBudget } from "./store_budget.ts";
import {
  type Holder,
  isCounted,
  type Mappings,
  maximumEntryMetadata,
  metadataBytes,
  nameWithRank,
  newMemory,
  type PartOfSet,
  type Place,
  type Publication,
  recordOf,
  restoredMemory,
  sharersOf,
  type Stored,
  type StoredRecord,
  StoreTable,
} from "./store_table.ts";
import { PublicationSets } from "./publication_sets.ts";
import type { SavedEntry } from "./saved_entry.ts";
import { UnsentAnswers } from "./store_answer.ts";

/** A client's request to create an allocation. */
export interface CreateRequest {
  readonly name: string;
  readonly device: string;
  readonly byteLength: number;
  /** The metadata as JSON in UTF-8. */
  readonly metadata: Uint8Array<ArrayBuffer> | undefined;
  /** The set that the allocation is to be part of. */
  readonly set: PartOfSet | undefined;
  /** Whether the client can move allocations to host memory to make room. */
  readonly offloads: boolean;
}

/** What a client asks to map. */
export interface MapRequest {
  readonly name: string;
  readonly write: boolean;
  /** The first digits of the digest that the contents must have. Undefined to map the newest generation. */
  readonly digest: string | undefined;
  /** The rank whose memory to map, and the number of ranks; `[0, 1]` for memory that is not part of a set. */
  readonly rank: readonly [rank: number, count: number];
}

/** The maximum number of digests that an error lists. */
const maximumListed = 8;

/** A place that an allocation can be moved to. */
export type MoveTarget = "device" | "host" | "file";

/** Returns whether an allocation is written by a process that will publish it. */
function willBePublished({ state, target }: Stored): boolean {
  return state === "new" && target === undefined;
}

/** The allocations of a store. */
export class StoredMemories implements Disposable {
  readonly #memories = new Map<number, Stored>();
  /** The published allocations, keyed by name: one for each rank of a set, or a single one. */
  readonly #published = new Map<string, readonly Stored[]>();
  /** The replaced generations of the published names that processes still hold, keyed by name. */
  readonly #replaced = new Map<string, Set<Stored>>();
  readonly #limits: BudgetLimits;
  readonly #table: StoreTable;
  readonly #budget: StoreBudget;
  readonly #allocator: MemoryAllocator;
  /**
   * The number of the next allocation. Each process of a store starts at a random number, because clients claim
   * allocations of an earlier process by number, so these numbers must not be reused.
   */
  #nextId = 1 + Math.floor(Math.random() * 2 ** 32) * 2 ** 20;
  /** The answers that are being sent. They may refer to the metadata of freed allocations. */
  readonly unsent: UnsentAnswers;
  /** The total number of generations that were published since the store began to serve. */
  publishedTotal = 0;
  /** The requests that wait until an allocation is published under a name, or until its last writer is gone. */
  readonly #awaited = new AwaitedNames();
  /** The number of unpublished allocations of each name, with its rank in a set, including those that wait for room. */
  readonly #unpublished = new Map<string, number>();
  /** The sets whose ranks have not all published. */
  readonly #sets = new PublicationSets();

  /** @param restored the records and handles of an earlier process; takes ownership of the handles */
  constructor(
    cuda: Cuda,
    limits: BudgetLimits,
    restored: readonly { readonly record: StoredRecord; readonly handle: ShareableHandle | undefined }[],
  ) {
    this.#limits = limits;
    const budget = this.#budget = new StoreBudget(cuda, limits, (name) => this.#published.has(name));
    this.#allocator = new MemoryAllocator({
      cuda,
      limits,
      budget,
      evictable: (request) => {
        const evictable = limits.evict === "host" ? this.#offloadable(request) : this.#unused(request.device);
        return evictable.sort((one, other) => lastUseOf(one) - lastUseOf(other));
      },
      evict: ({ name }) => this.#retire(this.#published.get(name)!, "removed"),
    });
    this.unsent = new UnsentAnswers(limits.maximumMetadata);
    const published = restored.filter(({ record }) => record.state === "published");
    const ofDescriptors = new Map<number, Stored>();
    for (const { record, handle } of restored) {
      const memory = restoredMemory(record, handle);
      const { name, set, descriptor } = memory;
      const equivalent = ofDescriptors.get(descriptor);
      if (equivalent === undefined) ofDescriptors.set(descriptor, memory);
      else joinSharers(memory, equivalent);
      // The store may have exited while it removed a set.
      const isWhole = set === undefined || published.filter((one) => one.record.name === name).length === set.count;
      if (memory.state === "published" && !isWhole) memory.state = "removed";
      this.#memories.set(memory.id, memory);
      budget.update(memory);
      if (memory.state === "published") this.#published.set(name, byRank([...this.#published.get(name) ?? [], memory]));
      if (memory.state === "replaced") this.#addReplaced(memory);
      if (willBePublished(memory)) {
        this.#addUnpublished(memory, 1);
        this.#sets.add(memory);
      }
    }
    this.#table = new StoreTable(() => this.#records());
  }

  /**
   * Publishes entries that lie in files.
   *
   * @param uid the ID of the user who owns them
   * @throws {SharingError} `limit-exceeded` if their metadata are too long, or one exceeds the limit of its device
   */
  addSaved(saved: readonly SavedEntry[], uid: number): void {
    const at = Date.now();
    for (const entry of saved) {
      const { name, path, byteLength, digest, keep = false, rank: [rank, count] = [0, 1] } = entry;
      const device = entry.device ?? this.#limits.devices[0]!;
      const json = encodeMetadata(entry.metadata, maximumEntryMetadata);
      const metadata = json === "" ? undefined : metadataBytes(json);
      const size = this.#allocator.wholeSize(device, byteLength);
      this.#budget.check({ name, device, uid, size }, metadata?.length ?? 0);
      const id = this.#takeId();
      const record: StoredRecord = {
        ...{ id, name, device: device.uuid, byteLength, size, metadata, uid, created: at, generation: 1 },
        ...{ published: at, state: "published", digest, layout: undefined, keep, mayChange: false },
        ...{ place: path as Place, descriptor: id, target: undefined },
        set: count === 1 ? undefined : { id: "", count, rank },
      };
      this.#table.write({ type: "memory", record });
      const memory: Stored = { ...restoredMemory(record, undefined), mayBeClaimed: false };
      this.#memories.set(id, memory);
      this.#budget.update(memory);
      this.#published.set(name, byRank([...this.#published.get(name) ?? [], memory]));
    }
  }

  /** Adds a backup of the table and all allocations. Resolves when the backup is complete. */
  addBackup(backup: DescriptorBackup): Promise<void> {
    return this.#table.addBackup(backup, this.#memories.values());
  }

  /** Stops sending changes to a backup. */
  removeBackup(backup: DescriptorBackup): void {
    this.#table.removeBackup(backup);
  }

  /** The published allocations. */
  get published(): Iterable<Stored> {
    return [...this.#published.values()].flat();
  }

  /** The replaced generations of the published names. */
  *replaced(): Iterable<Stored> {
    for (const name of this.#published.keys()) yield* this.#replaced.get(name) ?? [];
  }

  /** Returns the list of published names for the error message of a request for a name that is not published. */
  insteadOf(name: string): string {
    if (this.#published.size === 0) return "the store has nothing published now";
    return knownNames(name, this.#published, "the store has");
  }

  /** All allocations, whether published or not. */
  get all(): Iterable<Stored> {
    return this.#memories.values();
  }

  /**
   * Creates an allocation that `writer` holds until it is published. Waits until enough memory is available. If the
   * client can make room, resolves to what it has to move before it asks again.
   *
   * @throws {SharingError} `limit-exceeded`, `device-not-visible`, `out-of-descriptors`; `in-use` if another process
   * writes the same rank of a set
   * @throws {CudaError} If the driver fails for a reason other than lack of memory
   */
  async create(writer: Holder, request: CreateRequest, pending: PendingRequest): Promise<Stored | NeededMove> {
    const { name, set } = request;
    const part = set === undefined ? undefined : { name, set, uid: writer.peer.uid };
    if (part !== undefined) this.#sets.reserve(part);
    this.#addUnpublished(request, 1);
    try {
      return await this.#create(writer, request, pending);
    } finally {
      this.#addUnpublished(request, -1);
      if (part !== undefined) this.#sets.unreserve(part);
    }
  }

  async #create(writer: Holder, request: CreateRequest, pending: PendingRequest): Promise<Stored | NeededMove> {
    const device = this.#allocator.deviceOf(request.device);
    const size = this.#allocator.wholeSize(device, request.byteLength);
    const metadataByteLength = request.metadata?.length ?? 0;
    const { uid } = writer.peer;
    const space = { name: request.name, device, uid, size, mover: request.offloads ? uid : undefined };
    this.#budget.check(space, metadataByteLength);
    // Charge the metadata while the request waits, because a client may send many requests.
    this.#budget.metadata.add([uid], metadataByteLength);
    let grant: Grant | NeededMove;
    try {
      grant = this.#allocator.allocate(space) ?? await this.#allocator.whenFree(space, pending);
    } finally {
      this.#budget.metadata.add([uid], -metadataByteLength);
    }
    if ("offload" in grant) return grant;
    this.#budget.endGrant(grant);
    const id = this.#takeId();
    const record: StoredRecord = {
      id,
      name: request.name,
      // Store the UUID as this process formats it, not as the client wrote it, because it is sent to other clients.
      device: device.uuid,
      byteLength: request.byteLength,
      size,
      metadata: request.metadata,
      uid,
      created: Date.now(),
      generation: 0,
      published: 0,
      state: "new",
      digest: undefined,
      layout: undefined,
      keep: false,
      mayChange: false,
      place: "device",
      descriptor: id,
      target: undefined,
      set: request.set,
    };
    return await this.#register(newMemory(record, grant.handle, writer));
  }

  /** Adds a new allocation to the backups, and records it in the table. */
  async #register(memory: Stored): Promise<Stored> {
    this.#memories.set(memory.id, memory);
    if (willBePublished(memory)) {
      this.#addUnpublished(memory, 1);
      this.#sets.add(memory);
    }
    this.#budget.update(memory);
    // Back up the descriptor before recording the allocation: a process that takes over needs the descriptors of all
    // allocations in the table.
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

  /** Returns the unpublished allocation with the given number; undefined unless `writer` holds it. */
  writtenBy(writer: Holder, id: number): Stored | undefined {
    const memory = this.#memories.get(id);
    return memory?.writer === writer && memory.target === undefined ? memory : undefined;
  }

  /**
   * Publishes an allocation under its name. The writer becomes a reader. Readers of the previous generation keep their
   * mappings.
   *
   * @throws {SharingError} `not-permitted` if another user has published the name; `limit-exceeded` if the writer's user
   * would have too much metadata
   */
  publish(memory: Stored, publication: Publication, equivalent?: Stored): void {
    this.#checkPublication(memory, publication.metadata);
    memory.equivalent = equivalent;
    const at = Date.now();
    const generation = this.generationOf(memory.name) + 1;
    // Write the record before changing anything, because writing may throw. A single record publishes the new
    // generation and replaces the old one, so that a process that takes over always finds exactly one of them
    // published.
    const descriptor = this.#mayShare(memory) ? equivalent!.descriptor : undefined;
    this.#table.write({ type: "published", id: memory.id, generation, at, ...publication, descriptor });
    this.#state(memory, publication);
    this.#onPublished([memory], { generation, at });
  }

  /**
   * Returns the newest allocation of the same user that has the same contents as an unpublished one, as their publishers
   * have stated them, in memory that nobody writes. Undefined if there is none.
   */
  equivalentOf(memory: Stored, { digest, layout }: Publication): Stored | undefined {
    if (digest === undefined || layout === undefined) return undefined;
    let equivalent: Stored | undefined;
    for (const other of this.#memories.values()) {
      if (other.digest === digest && other.layout === layout && isLike(memory, other)) equivalent = other;
    }
    return equivalent;
  }

  /** Returns whether an allocation that is to be published can share the memory of its equivalent. */
  #mayShare(memory: Stored): boolean {
    const { equivalent } = memory;
    return equivalent !== undefined && this.#memories.get(equivalent.id) === equivalent && isLike(memory, equivalent);
  }

  /** Gives an allocation the memory of its equivalent, in place of its own. */
  #share(memory: Stored): void {
    if (!this.#mayShare(memory)) return;
    const { descriptor, handle, equivalent } = memory;
    memory.descriptor = equivalent!.descriptor;
    memory.handle = equivalent!.handle;
    joinSharers(memory, equivalent!);
    this.#table.forget({ descriptor, handle });
    handle?.[Symbol.dispose]();
    this.#budget.update(memory);
  }

  /**
   * Publishes an allocation of a set, together with the others. If the writers of other ranks have not done so yet, waits
   * for them.
   *
   * @param equivalent the allocation whose memory is to be shared
   * @param onEnd called when all allocations of the set are published, or with the error if they never will be
   * @throws {SharingError} In the same cases as `publish`; `peer-gone` if the memory of another rank is gone
   */
  publishPart(
    memory: Stored,
    { publication, equivalent }: { readonly publication: Publication; readonly equivalent: Stored | undefined },
    onEnd: (error?: SharingError) => void,
  ): void {
    this.#checkPublication(memory, publication.metadata);
    const parts = this.#sets.markWritten(memory, onEnd);
    this.#table.write({ type: "stated", id: memory.id, ...publication });
    this.#state(memory, publication);
    memory.equivalent = equivalent;
    if (parts === undefined) return;
    const at = Date.now();
    const generation = this.generationOf(memory.name) + 1;
    try {
      this.#checkPublication(memory, undefined);
      const ids = parts.map(({ id }) => id);
      const descriptors = parts.some(({ equivalent }) => equivalent !== undefined)
        ? parts.map((part) => this.#mayShare(part) ? part.equivalent!.descriptor : part.descriptor)
        : undefined;
      this.#table.write({ type: "published-set", id: memory.id, ids, descriptors, generation, at });
    } catch (error) {
      const cause = error instanceof SharingError ? error : new SharingError("internal-error", String(error));
      return this.#sets.break(memory, cause);
    }
    this.#onPublished(parts, { generation, at });
    this.#sets.complete(memory);
  }

  /** Ends the wait of `publishPart`. The allocation may be published again. */
  withdrawPart(memory: Stored): void {
    this.#sets.unmark(memory);
  }

  #checkPublication(memory: Stored, metadata: Uint8Array<ArrayBuffer> | undefined): void {
    const { name, uid } = memory;
    const [last] = this.#published.get(name) ?? [];
    if (last !== undefined) this.#checkOwner(memory.writer!, last, "replace");
    const more = metadata === undefined ? 0 : metadata.length - (memory.metadata?.length ?? 0);
    if (more > 0) this.#budget.metadata.check(uid, more, `publish ${JSON.stringify(name)}`);
  }

  #state(memory: Stored, { metadata, digest, layout, keep = false }: Publication): void {
    Object.assign(memory, { digest, layout, keep });
    if (metadata === undefined) return;
    this.#budget.metadata.add([memory.uid], metadata.length - (memory.metadata?.length ?? 0));
    memory.metadata = metadata;
  }

  /** Makes allocations the new generation of their name. */
  #onPublished(memories: readonly Stored[], { generation, at }: { generation: number; at: number }): void {
    const { name } = memories[0]!;
    const last = this.#published.get(name);
    this.#published.set(name, memories);
    for (const memory of memories) {
      this.#share(memory);
      memory.readers.set(memory.writer!, { count: 1, sleeping: 0, since: at });
      Object.assign(memory, { generation, published: at, lastUse: at, state: "published", writer: undefined });
      memory.equivalent = undefined;
      this.#addUnpublished(memory, -1);
    }
    this.publishedTotal++;
    if (last !== undefined) this.#retire(last, "replaced");
    this.#awaited.notify(name);
    this.#allocator.retry();
  }

  /**
   * Adds a mapping of a reader to the allocation published under a name, and returns the allocation. With a digest, the
   * allocation may also be a generation that was replaced. Returns undefined if no allocation is published under the
   * name.
   *
   * @throws {SharingError} `not-found` if no generation has the digest; `not-permitted` if `write` is true and another
   * user has published the memory; `limit-exceeded` if the reader's user holds too much memory that other users have replaced or removed
   */
  map(reader: Holder, { name, write, digest, rank }: MapRequest): Stored | undefined {
    const memory = this.wanted({ name, digest, rank });
    if (memory === undefined) return undefined;
    if (write) this.#allowWriting(reader, memory);
    this.hold(reader, memory);
    return memory;
  }

  /**
   * Adds a mapping of a reader to an allocation.
   *
   * @throws {SharingError} `limit-exceeded` if the reader's user holds too much memory that other users have replaced or
   * removed
   */
  hold(reader: Holder, memory: Stored): void {
    const reading = memory.readers.get(reader);
    if (reading === undefined) {
      this.#budget.checkReader(reader.peer.uid, memory);
      memory.readers.set(reader, { count: 1, sleeping: 0, since: Date.now() });
      // The readers of a replaced generation pay for it.
      this.#budget.update(memory);
    } else {
      reading.count++;
    }
    memory.lastUse = Date.now();
  }

  /** Records that an allocation may be written from now on, and that none may share its memory. */
  #allowWriting(writer: Holder, memory: Stored): void {
    this.#checkOwner(writer, memory, "write");
    const other = [...sharersOf(memory)].find((each) => each !== memory);
    if (other !== undefined) {
      const [own, others] = [memory, other].map(({ name, generation }) => `${JSON.stringify(name)} (${generation})`);
      throw new SharingError(
        "in-use",
        `Cannot write ${own}: ${others} has the same memory; remove that one, or publish this one with share: false`,
      );
    }
    if (memory.mayChange) return;
    this.#table.write({ type: "memory", record: { ...recordOf(memory), mayChange: true } });
    memory.mayChange = true;
  }

  /**
   * Returns the latest generation whose digest begins with the given digits.
   *
   * @throws {SharingError} `not-found` if there is none
   */
  #withDigest(newest: readonly Stored[], rank: readonly [number, number], digits: string): Stored {
    const { name } = newest[0]!;
    const replaced = [...this.#replaced.get(name) ?? []].sort((one, other) => other.generation - one.generation);
    const generations = [...newest, ...replaced].filter((memory) => isOfRank(memory, rank));
    if (generations.length === 0) return ofRank(newest, rank);
    const found = generations.find(({ digest }) => digest?.startsWith(digits));
    if (found !== undefined) return found;
    const digests = new Set(generations.map(({ digest }) => digest ?? "unknown"));
    const listed = [...digests].slice(0, maximumListed);
    const more = digests.size > listed.length ? ` and ${digests.size - listed.length} more` : "";
    throw new SharingError(
      "not-found",
      `Cannot map ${JSON.stringify(name)} with the digest ${digits}: the store has it with ${
        listed.length === 1 ? "the digest" : "the digests"
      } ${listed.join(", ")}${more}`,
    );
  }

  /** Returns whether a holder's user may map another allocation; see `StoreBudget.mayRead`. */
  mayHold({ peer: { uid } }: Holder, memory: Stored): boolean {
    return this.#budget.mayRead(uid, memory);
  }

  /**
   * Marks one of a holder's mappings as asleep: it is unmapped, and still holds the allocation.
   *
   * @returns whether the holder has such a mapping
   */
  sleep(holder: Holder, id: number): boolean {
    const reading = this.#memories.get(id)?.readers.get(holder);
    if (reading === undefined || reading.count === reading.sleeping) return false;
    reading.sleeping++;
    return true;
  }

  /** Marks one of a holder's sleeping mappings as mapped, and returns the allocation. Undefined if there is none. */
  wake(holder: Holder, id: number): Stored | undefined {
    const memory = this.#memories.get(id);
    const reading = memory?.readers.get(holder);
    if (reading === undefined || reading.sleeping === 0) return undefined;
    reading.sleeping--;
    memory!.lastUse = Date.now();
    return memory;
  }

  /** Adds a reader that claims to have mapped an allocation. */
  claim(reader: Holder, memory: Stored, { count, sleeping }: Mappings): void {
    memory.readers.set(reader, { count, sleeping, since: Date.now() });
    this.#budget.update(memory);
  }

  /**
   * Sets the writer of an unpublished allocation to a holder that claims to have created it, so that the holder may
   * publish it.
   */
  claimToWrite(writer: Holder, memory: Stored): void {
    const source = memory.target === undefined ? undefined : this.#memories.get(memory.target);
    if (source !== undefined && (source.mover === undefined || source.mover === memory.writer)) {
      setMover(source, writer);
    }
    memory.writer = writer;
    this.#budget.update(memory);
  }

  /** Returns the generation that is published under a name; 0 if there is none. */
  generationOf(name: string): number {
    return this.#published.get(name)?.[0]?.generation ?? 0;
  }

  /** Returns the generation that is published under a name as a set of `count` ranks; 0 if there is none. */
  generationOfSet(name: string, count: number): number {
    return this.#published.get(name)?.length === count ? this.generationOf(name) : 0;
  }

  /**
   * Returns whether there is an unpublished allocation of a name and a rank of a set, or a request for one that waits for
   * room.
   */
  isBeingWritten(request: Pick<CreateRequest, "name" | "set">): boolean {
    return this.#unpublished.has(nameWithRank(request));
  }

  /**
   * Charges the metadata of a request that waits, and returns a function that ends the charge.
   *
   * @throws {SharingError} `limit-exceeded` if the client's user would have too much metadata
   */
  chargeMetadata({ peer: { uid } }: Holder, { name, metadata }: CreateRequest): () => void {
    const byteLength = metadata?.length ?? 0;
    if (byteLength > 0) this.#budget.metadata.check(uid, byteLength, `create ${JSON.stringify(name)}`);
    this.#budget.metadata.add([uid], byteLength);
    return () => this.#budget.metadata.add([uid], -byteLength);
  }

  /**
   * Calls `waiter.attempt` each time an allocation is published under a name or loses its last writer, until the call
   * returns true.
   *
   * @returns a function that removes the waiter
   */
  awaitName(name: string, waiter: NameWaiter): () => void {
    this.#awaited.add(name, waiter);
    return () => this.#awaited.delete(name, waiter);
  }

  /** Releases some of a holder's mappings of an allocation. Returns whether the holder held the allocation. */
  release(holder: Holder, id: number, released: Mappings = { count: 1, sleeping: 0 }): boolean {
    const memory = this.#memories.get(id);
    if (memory === undefined) return false;
    if (memory.writer === holder) {
      memory.writer = undefined;
      this.#stopMoveTo(memory, holder);
    } else {
      const reading = memory.readers.get(holder);
      if (reading === undefined) return false;
      reading.count -= released.count;
      reading.sleeping = Math.max(0, Math.min(reading.sleeping - released.sleeping, reading.count));
      if (reading.count <= 0) memory.readers.delete(holder);
      memory.lastUse = Date.now();
    }
    this.#dropIfUnused(memory);
    return true;
  }

  /**
   * Releases all allocations of a holder, except `kept`.
   *
   * @param kept the mappings that the holder keeps, keyed by the number of the allocation
   */
  releaseAll(holder: Holder, kept: ReadonlyMap<number, Mappings> = new Map()): void {
    for (const memory of [...this.#memories.values()]) {
      const { count, sleeping } = kept.get(memory.id) ?? { count: 0, sleeping: 0 };
      const reading = memory.readers.get(holder);
      const isReleased = reading !== undefined && reading.count > count;
      if (isReleased) {
        reading.count = count;
        reading.sleeping = sleeping;
        if (count === 0) memory.readers.delete(holder);
        memory.lastUse = Date.now();
      }
      const isAbandoned = memory.writer === holder && count === 0;
      if (isAbandoned) {
        memory.writer = undefined;
        this.#stopMoveTo(memory, holder);
      }
      if (isReleased || isAbandoned) this.#dropIfUnused(memory);
    }
    // What moves to a file has no target.
    for (const memory of [...this.#memories.values()]) {
      const isLeft = memory.mover === holder && !this.#hasTarget(memory);
      if (isLeft) this.#stopMove(memory);
    }
  }

  /** Transfers all allocations of one holder to another holder, which represents the same process. */
  transfer(from: Holder, to: Holder): void {
    for (const memory of this.#memories.values()) {
      if (memory.writer === from) memory.writer = to;
      if (memory.mover === from) memory.mover = to;
      const reading = memory.readers.get(from);
      if (reading === undefined) continue;
      memory.readers.delete(from);
      const { count = 0, sleeping = 0 } = memory.readers.get(to) ?? {};
      memory.readers.set(to, { ...reading, count: reading.count + count, sleeping: reading.sleeping + sleeping });
      this.#budget.update(memory);
    }
  }

  /**
   * Returns the allocation that a client asks to map; undefined if nothing is published under the name.
   *
   * @throws {SharingError} `not-found` if no generation has the digest
   */
  wanted({ name, digest, rank }: Pick<MapRequest, "name" | "digest" | "rank">): Stored | undefined {
    const newest = this.#published.get(name);
    if (newest === undefined) return undefined;
    return digest === undefined ? ofRank(newest, rank) : this.#withDigest(newest, rank, digest);
  }

  /** Returns the allocation published under a name, or those of all ranks; undefined if there is none. */
  publishedAs(name: string): readonly Stored[] | undefined {
    return this.#published.get(name);
  }

  /** Returns the allocation with the given number; undefined if there is none. */
  find(id: number): Stored | undefined {
    return this.#memories.get(id);
  }

  /**
   * Removes a name. The allocation published under the name is freed when the last reader releases it.
   *
   * @returns whether memory was published under the name
   * @throws {SharingError} `not-permitted` if another user has published the memory
   */
  remove(holder: Holder, name: string): boolean {
    const memories = this.#published.get(name);
    if (memories === undefined) return false;
    this.#checkOwner(holder, memories[0]!, "remove");
    this.#retire(memories, "removed");
    return true;
  }

  /**
   * Ends the period in which allocations can be claimed: frees the restored allocations that are neither published nor
   * claimed.
   */
  dropUnclaimed(): void {
    for (const memory of [...this.#memories.values()]) {
      memory.mayBeClaimed = false;
      this.#dropIfUnused(memory);
    }
  }

  /** Closes all descriptors. Backups keep their own descriptors. */
  [Symbol.dispose](): void {
    this.#allocator[Symbol.dispose]();
    for (const { handle } of this.#memories.values()) handle?.[Symbol.dispose]();
    this.#memories.clear();
    this.#published.clear();
    this.#table[Symbol.dispose]();
  }

  /**
   * Returns the published allocations on the device of a request that its client can move to host memory, one for all
   * that share their memory. A client of another user is not trusted to move them unchanged.
   */
  #offloadable({ device, mover }: SpaceRequest): Stored[] {
    return [...this.published].filter((memory) => {
      if (!isCounted(memory) || memory.place !== "device" || !isSameUuid(memory.device, device.uuid)) return false;
      const isOwn = mover !== undefined && (mover === memory.uid || mover === 0);
      return isOwn && memory.mover === undefined && this.#budget.fitsHost(memory) &&
        [...sharersOf(memory)].every(({ keep, mayBeClaimed }) => !keep && !mayBeClaimed) &&
        awakeReadersOf(memory).length === 0;
    });
  }

  /**
   * Returns the published allocations on a device that may be evicted. No process has mapped any rank of their sets, or
   * any allocation that shares their memory.
   */
  #unused(device: CudaDevice): Stored[] {
    const isUnused = ({ readers, mayBeClaimed, keep, mover }: Stored): boolean =>
      readers.size === 0 && !mayBeClaimed && !keep && mover === undefined;
    const unused = new Set([...this.#published.values()].filter((memories) => memories.every(isUnused)).flat());
    return [...unused].filter((memory) =>
      memory.place === "device" && isSameUuid(memory.device, device.uuid) &&
      [...sharersOf(memory)].every((each) => unused.has(each))
    );
  }

  /** Unpublishes the allocations of a name, which are freed once no process has them mapped. */
  #retire(memories: readonly Stored[], state: "replaced" | "removed"): void {
    for (const { id } of memories) this.#table.write({ type: state, id });
    const { name } = memories[0]!;
    for (const memory of memories) memory.state = state;
    if (this.#published.get(name) === memories) {
      this.#published.delete(name);
      for (const memory of memories) this.#budget.onNameRemoved(memory);
      this.#replaced.delete(name);
    } else if (state === "replaced") {
      for (const memory of memories) this.#addReplaced(memory);
    }
    for (const memory of memories) this.#dropIfUnused(memory);
  }

  #dropIfUnused(memory: Stored): void {
    if (!this.#memories.has(memory.id)) return;
    const isHeld = memory.writer !== undefined || memory.mover !== undefined || memory.readers.size > 0 ||
      memory.mayBeClaimed;
    if (memory.state === "published" || isHeld) {
      if (this.#budget.update(memory)) this.#allocator.retry();
      return;
    }
    if (memory.isWritten) this.#table.write({ type: "gone", id: memory.id });
    this.#forget(memory);
  }

  /** Frees an allocation that has no record in the table, or that the table has already recorded as gone. */
  #forget(memory: Stored): void {
    this.#memories.delete(memory.id);
    if (willBePublished(memory)) {
      this.#addUnpublished(memory, -1);
      this.#sets.break(memory);
    }
    const replaced = this.#replaced.get(memory.name);
    if (replaced?.delete(memory) === true && replaced.size === 0) this.#replaced.delete(memory.name);
    memory.sharers?.delete(memory);
    this.#budget.remove(memory);
    this.unsent.onGone(memory);
    // What a client of an earlier store has moved is free for others.
    if (memory.target !== undefined) this.#awaited.notify(memory.name);
    const [sharer] = memory.sharers ?? [];
    if (sharer === undefined) {
      this.#table.forget(memory);
      memory.handle?.[Symbol.dispose]();
    } else {
      this.#budget.update(sharer);
    }
    this.#allocator.retry();
  }

  #addReplaced(memory: Stored): void {
    const { name } = memory;
    this.#replaced.set(name, (this.#replaced.get(name) ?? new Set()).add(memory));
  }

  /**
   * Begins to move an allocation to another place. Waits for room there, and returns new memory of the same size, which
   * `mover` fills; returns undefined if the place is a file, which `mover` writes. Until the move ends, the allocation
   * cannot be mapped. If the client can make room, resolves to what it has to move first, and begins nothing.
   *
   * @throws {SharingError} `in-use` if a process has the allocation mapped; `not-permitted` if another user has
   * published it and it is to leave the device; the errors of `create`
   */
  async beginMove(
    mover: Holder,
    source: Stored,
    { to, offloads, pending }: {
      readonly to: MoveTarget;
      /** Whether the client can move other allocations to host memory to make room. */
      readonly offloads: boolean;
      readonly pending: PendingRequest;
    },
  ): Promise<Stored | NeededMove | undefined> {
    if (to !== "device") this.#checkMayLeave(mover, source);
    if (to === "host") this.#budget.checkHost(source);
    setMover(source, mover);
    if (to === "file") return undefined;
    try {
      const { name, byteLength, size, uid } = source;
      let handle: ShareableHandle;
      if (to === "host") {
        handle = createHostMemory(size);
      } else {
        const device = this.#allocator.deviceOf(source.device);
        const space = { name, device, uid, size, mover: offloads ? mover.peer.uid : undefined };
        const grant = this.#allocator.allocate(space) ?? await this.#allocator.whenFree(space, pending);
        if ("offload" in grant) {
          this.#stopMove(source);
          return grant;
        }
        this.#budget.endGrant(grant);
        handle = grant.handle;
      }
      const id = this.#takeId();
      const { device } = source;
      const record: StoredRecord = {
        ...{ id, name, device, byteLength, size, metadata: undefined, uid, created: Date.now(), generation: 0 },
        ...{ published: 0, state: "new", digest: undefined, layout: undefined, keep: false, mayChange: false },
        ...{ place: to, descriptor: id, target: source.id, set: undefined },
      };
      return await this.#register(newMemory(record, handle, mover));
    } catch (error) {
      this.#stopMove(source);
      throw error;
    }
  }

  /**
   * Ends the move of an allocation, which lies at the other place from now on: in the memory `target`, or in a file.
   *
   * @throws {SharingError} `in-use` if a process has mapped the allocation meanwhile, after another store took over
   */
  endMove(mover: Holder, source: Stored, to: Stored | { readonly file: Place }): void {
    const target = "file" in to ? undefined : to;
    const place = "file" in to ? to.file : to.place;
    if (place !== "device") this.#checkMayLeave(mover, source);
    this.#table.write({ type: "moved", id: source.id, memory: target?.id, place });
    const { descriptor, handle } = source;
    if (target !== undefined) {
      this.#memories.delete(target.id);
      this.#budget.remove(target);
    }
    for (const each of sharersOf(source)) {
      each.handle = target?.handle;
      each.descriptor = target?.descriptor ?? descriptor;
      each.place = place;
    }
    this.#budget.update(source);
    this.#table.forget({ descriptor, handle });
    handle?.[Symbol.dispose]();
    this.#stopMove(source);
    this.#allocator.retry();
  }

  /** Whether an allocation is being moved, maybe by a client that has yet to claim what it fills from this store. */
  isMoving(source: Stored): boolean {
    return source.mover !== undefined || source.mayBeClaimed && this.#hasTarget(source);
  }

  /**
   * Whether a client moves an allocation. The store that let it begin may be gone: a move to a file has no target that
   * the client could claim, and goes on if the client might begin it now.
   */
  isMover(client: Holder, source: Stored): boolean {
    if (source.mover === undefined && source.place === "device") {
      this.#checkMayLeave(client, source);
      setMover(source, client);
    }
    return source.mover === client;
  }

  /** Ends a move without a result: the allocation is where it was. */
  abandonMove(mover: Holder, source: Stored): boolean {
    if (source.mover !== mover) return false;
    for (const target of [...this.#memories.values()]) {
      if (target.target === source.id && target.writer === mover) this.release(mover, target.id);
    }
    if (source.mover === mover) this.#stopMove(source);
    return true;
  }

  #checkMayLeave(mover: Holder, source: Stored): void {
    this.#checkOwner(mover, source, "move");
    const pids = new Set(awakeReadersOf(source).map(({ peer: { pid } }) => pid));
    if (pids.size === 0) return;
    const processes = [...pids].join(", ");
    throw new SharingError(
      "in-use",
      `Cannot move ${JSON.stringify(source.name)}: mapped by process ${processes}; it must sleep there, or be released`,
    );
  }

  #hasTarget(source: Stored): boolean {
    const ids = new Set([...sharersOf(source)].map(({ id }) => id));
    return [...this.#memories.values()].some(({ target, writer, mayBeClaimed }) => {
      return target !== undefined && ids.has(target) && (writer !== undefined || mayBeClaimed);
    });
  }

  #stopMoveTo({ target }: Stored, mover: Holder): void {
    const source = target === undefined ? undefined : this.#memories.get(target);
    if (source?.mover === mover) this.#stopMove(source);
  }

  #stopMove(source: Stored): void {
    for (const each of [...sharersOf(source)]) {
      each.mover = undefined;
      this.#awaited.notify(each.name);
      this.#dropIfUnused(each);
    }
  }

  /** Counts the unpublished allocations of a name. When the last one is gone, retries the requests that wait for that. */
  #addUnpublished(request: Pick<CreateRequest, "name" | "set">, count: 1 | -1): void {
    const key = nameWithRank(request);
    const sum = (this.#unpublished.get(key) ?? 0) + count;
    if (sum > 0) return void this.#unpublished.set(key, sum);
    this.#unpublished.delete(key);
    this.#awaited.notify(request.name);
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

/** Makes an allocation one of those that share the memory of another one. */
function joinSharers(memory: Stored, equivalent: Stored): void {
  memory.sharers = (equivalent.sharers ??= new Set([equivalent])).add(memory);
}

/** Returns the holders that have an allocation mapped, or one that shares its memory. */
function awakeReadersOf(memory: Stored): Holder[] {
  return [...sharersOf(memory)].flatMap(({ readers }) =>
    [...readers].filter(([, { count, sleeping }]) => count > sleeping).map(([holder]) => holder)
  );
}

/** Marks an allocation, and those that share its memory, as being moved by a holder. */
function setMover(source: Stored, mover: Holder): void {
  for (const each of sharersOf(source)) each.mover = mover;
}

/** Returns whether an unpublished allocation can share the memory of another one, if both have the same contents. */
function isLike(memory: Stored, other: Stored): boolean {
  return other.state !== "new" && other.place === "device" && other.mover === undefined && !other.mayChange &&
    other.uid === memory.uid && other.device === memory.device && other.byteLength === memory.byteLength &&
    other.size === memory.size;
}

/** Returns when an allocation, or one that shares its memory, was last used. */
function lastUseOf(memory: Stored): number {
  return Math.max(...[...sharersOf(memory)].map(({ lastUse }) => lastUse));
}

/** Returns allocations of a set in the order of their ranks. */
function byRank(memories: readonly Stored[]): readonly Stored[] {
  return memories.toSorted((one, other) => (one.set?.rank ?? 0) - (other.set?.rank ?? 0));
}

function isOfRank({ set }: Stored, [rank, count]: readonly [number, number]): boolean {
  return set === undefined ? count === 1 : set.rank === rank && set.count === count;
}

/**
 * Returns the memory of a rank.
 *
 * @throws {SharingError} `not-found` if there is another number of ranks
 */
function ofRank(memories: readonly Stored[], rank: readonly [number, number]): Stored {
  const found = memories.find((memory) => isOfRank(memory, rank));
  if (found !== undefined) return found;
  const name = JSON.stringify(memories[0]!.name);
  const wanted = rank[1] === 1 ? "as a whole" : `for rank ${rank[0]} of ${rank[1]}`;
  const published = memories.length === 1 ? "as a whole" : `for ${memories.length} ranks`;
  throw new SharingError("not-found", `Cannot map ${name} ${wanted}: it is published ${published}`);
}
