/**
 * The memories of a store: their table, who holds them, and how much there may be.
 *
 * @module
 */
import { allocationGranularity, memHandleType, memLocationType } from "../../driver.ts";
import { type Cuda, sessionOf } from "../../objects/cuda.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { ShareableHandle } from "../../memory/shareable_handle.ts";
import { wholeUnits } from "../../memory/virtual/physical_memory.ts";
import { CudaError, SharingError } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";
import { isSameUuid } from "../../support/uuid.ts";
import { abortable } from "../../support/waiting/abortable.ts";
import type { JsonObject } from "../protocol/documents.ts";
import { limitExceeded } from "../protocol/messages.ts";
import type { JsonValue } from "../protocol/metadata.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { Journal } from "./journal.ts";
import type { Keeper, KeptName } from "./keepers.ts";
import { encodeChange, type StoredRecord, type TableChange } from "./stored_record.ts";

/** A process that holds memory of a store. */
export interface Holder {
  readonly peer: Peer;
}

/** How much a store may have. */
export interface StoreLimits {
  /** The devices on which memory can be created. */
  readonly devices: readonly CudaDevice[];
  readonly maxSize: number;
  readonly maxSizeOfUser: number;
  readonly maximumMetadata: number;
  /** Whether published memory that nobody maps goes, that used longest ago first, if there is no room. */
  readonly evict: boolean;
}

/** What somebody maps, and since when. */
interface Reading {
  count: number;
  readonly since: number;
}

/** A memory, and who holds it. */
export interface Stored extends StoredRecord {
  readonly handle: ShareableHandle;
  /** Who writes it. It has not published it. */
  writer: Holder | undefined;
  /** Whether somebody may claim it who held it before this process took over. */
  mayBeClaimed: boolean;
  /** Whether the table has it. */
  isWritten: boolean;
  readonly readers: Map<Holder, Reading>;
  /** When it was mapped or released last, in milliseconds since 1970. */
  lastUse: number;
}

/** What to create. */
export interface CreateRequest {
  readonly name: string;
  readonly device: string;
  readonly byteLength: number;
  readonly metadata: JsonValue | undefined;
}

/** A table has at least so many bytes before it is written anew, without what is gone. */
const compactionByteLength = 2 ** 20;
/** Milliseconds between two attempts to get memory that others than the store may have freed. */
const retryPause = 100;
/** The maximum number of memories: each is a descriptor. */
const maximumMemories = 65_536;

/** The memories of a store. */
export class StoredMemories implements Disposable {
  readonly #cuda: Cuda;
  readonly #limits: StoreLimits;
  readonly #memories = new Map<number, Stored>();
  /** Those that are published, by name. */
  readonly #published = new Map<string, Stored>();
  readonly #keepers = new Set<Keeper>();
  /** Where changes are written: two while others do not keep the second yet. */
  readonly #journals: Journal[];
  /** The length at which the table is written anew. */
  #longestJournal = compactionByteLength;
  /** Another store at the same path must not take one for its own: a new table begins anywhere. */
  #nextId = 1 + Math.floor(Math.random() * 2 ** 40) * 2 ** 10;
  /** Total of generations that were published. */
  publishedTotal = 0;
  #metadataByteLength = 0;
  /** What was allocated and is no memory of the table yet. */
  readonly #granted = new Set<{ readonly device: string; readonly uid: number; readonly size: number }>();
  #isRetrying = false;
  /** The attempts to create memory for which there was none, in order. */
  readonly #waiting = new Set<() => boolean>();
  #retryTimer: ReturnType<typeof setInterval> | undefined;
  /** Those who wait for the first generation of a name. */
  readonly #awaited = new Map<string, Set<() => void>>();

  /**
   * @param restored what another process had, with the descriptors, which this takes over
   */
  constructor(
    cuda: Cuda,
    limits: StoreLimits,
    restored: readonly { readonly record: StoredRecord; readonly handle: ShareableHandle }[],
  ) {
    this.#cuda = cuda;
    this.#limits = limits;
    for (const { record, handle } of restored) {
      const memory: Stored = {
        ...record,
        handle,
        writer: undefined,
        mayBeClaimed: true,
        isWritten: true,
        readers: new Map(),
        lastUse: Date.now(),
      };
      this.#memories.set(memory.id, memory);
      this.#metadataByteLength += byteLengthOf(memory.metadata);
      if (memory.state === "published") this.#published.set(memory.name, memory);
    }
    if (restored.length > 0) this.#nextId = 1 + Math.max(...restored.map(({ record }) => record.id));
    this.#journals = [new Journal(this.#records())];
  }

  /** Lets somebody keep everything from now on. */
  async addKeeper(keeper: Keeper): Promise<void> {
    this.#keepers.add(keeper);
    await Promise.all([
      keeper.keep("table", this.#journals.at(-1)!.fd),
      ...[...this.#memories.values()].map(({ id, handle }) => keeper.keep(`memory-${id}`, handle.fd)),
    ]);
  }

  /** Lets nobody keep anything any more. */
  removeKeeper(keeper: Keeper): void {
    this.#keepers.delete(keeper);
  }

  /** The memories that are published, by name. */
  get published(): Iterable<Stored> {
    return this.#published.values();
  }

  /** All memories. */
  get all(): Iterable<Stored> {
    return this.#memories.values();
  }

  /**
   * Creates memory for its writer, and waits for it if there is none.
   *
   * @throws {SharingError} `limit-exceeded`, `device-not-visible`, `out-of-descriptors`
   * @throws {CudaError} If the driver refuses for another reason than that there is no memory
   */
  async create(writer: Holder, request: CreateRequest, signal: AbortSignal): Promise<Stored> {
    const device = this.#deviceOf(request.device);
    const size = this.#wholeSize(device, request.byteLength);
    const metadataByteLength = byteLengthOf(request.metadata);
    const grant = { device: device.uuid, uid: writer.peer.uid, size };
    const allocate = (): ShareableHandle | undefined => {
      this.#checkLimits(writer, { device, size, metadataByteLength: 0, name: request.name });
      const handle = this.#allocate(device, size);
      if (handle !== undefined) this.#granted.add(grant);
      return handle;
    };
    this.#checkLimits(writer, { device, size, metadataByteLength, name: request.name });
    // It counts while it waits: a client may ask for much at once.
    this.#metadataByteLength += metadataByteLength;
    let handle: ShareableHandle;
    try {
      handle = (this.#waiting.size === 0 ? allocate() : undefined) ?? await this.#whenFree(allocate, signal);
    } catch (error) {
      this.#metadataByteLength -= metadataByteLength;
      throw error;
    }
    this.#granted.delete(grant);
    const memory: Stored = {
      id: this.#nextId++,
      name: request.name,
      device: request.device,
      byteLength: request.byteLength,
      size,
      metadata: request.metadata,
      uid: writer.peer.uid,
      created: Date.now(),
      generation: 0,
      published: 0,
      state: "new",
      handle,
      writer,
      mayBeClaimed: false,
      isWritten: false,
      readers: new Map(),
      lastUse: Date.now(),
    };
    this.#memories.set(memory.id, memory);
    // Whoever takes over finds the descriptor of everything that the table names.
    await Promise.all([...this.#keepers].map((keeper) => keeper.keep(`memory-${memory.id}`, handle.fd)));
    if (this.#memories.get(memory.id) !== memory) return memory;
    try {
      this.#write({ type: "memory", record: recordOf(memory) });
      memory.isWritten = true;
    } catch (error) {
      memory.writer = undefined;
      this.#forget(memory);
      throw error;
    }
    return memory;
  }

  /** The memory with a number, if a process writes it. */
  writtenBy(writer: Holder, id: number): Stored | undefined {
    const memory = this.#memories.get(id);
    return memory?.writer === writer ? memory : undefined;
  }

  /**
   * Publishes memory. Its writer reads it from then on. Those who map the last generation keep that.
   *
   * @throws {SharingError} `not-permitted` if the name is another user's
   */
  publish(memory: Stored): void {
    const { name } = memory;
    const writer = memory.writer!;
    const last = this.#published.get(name);
    if (last !== undefined) this.#checkOwner(writer, last, "replace");
    const at = Date.now();
    const generation = (last?.generation ?? 0) + 1;
    // First of all: what cannot be written has not happened. One record: whoever takes over finds one generation or the
    // other.
    this.#write({ type: "published", id: memory.id, generation, at });
    Object.assign(memory, { generation, published: at, lastUse: at, state: "published", writer: undefined });
    memory.readers.set(writer, { count: 1, since: at });
    this.#published.set(name, memory);
    this.publishedTotal++;
    if (last !== undefined) this.#retire(last, "replaced");
    for (const notify of [...this.#awaited.get(name) ?? []]) notify();
  }

  /**
   * The published memory of a name, held by a reader from now on. Undefined if there is none.
   *
   * @throws {SharingError} `not-permitted` if it is to be written, and is another user's
   */
  map(reader: Holder, name: string, { write }: { readonly write: boolean }): Stored | undefined {
    const memory = this.#published.get(name);
    if (memory === undefined) return undefined;
    if (write) this.#checkOwner(reader, memory, "write");
    const reading = memory.readers.get(reader);
    if (reading === undefined) memory.readers.set(reader, { count: 1, since: Date.now() });
    else reading.count++;
    memory.lastUse = Date.now();
    return memory;
  }

  /** Notes that a reader holds a memory so many times, as it says. */
  claim(reader: Holder, memory: Stored, count: number): void {
    memory.readers.set(reader, { count, since: Date.now() });
  }

  /** Resolves when something is published under a name. */
  async whenPublished(name: string, signal: AbortSignal): Promise<void> {
    const awaiting = this.#awaited.get(name) ?? new Set();
    this.#awaited.set(name, awaiting);
    try {
      await abortable((resolve) => {
        const notify = () => resolve();
        awaiting.add(notify);
        return () => void awaiting.delete(notify);
      }, { signal });
    } finally {
      if (awaiting.size === 0 && this.#awaited.get(name) === awaiting) this.#awaited.delete(name);
    }
  }

  /** Ends what a process holds of a memory once. Returns whether it held it. */
  release(holder: Holder, id: number): boolean {
    const memory = this.#memories.get(id);
    if (memory === undefined) return false;
    if (memory.writer === holder) memory.writer = undefined;
    else {
      const reading = memory.readers.get(holder);
      if (reading === undefined) return false;
      if (--reading.count === 0) memory.readers.delete(holder);
      memory.lastUse = Date.now();
    }
    this.#dropIfUnused(memory);
    return true;
  }

  /** Ends everything that a process holds. */
  releaseAll(holder: Holder): void {
    for (const memory of [...this.#memories.values()]) {
      const isWriter = memory.writer === holder;
      if (isWriter) memory.writer = undefined;
      if (memory.readers.delete(holder) || isWriter) this.#dropIfUnused(memory);
    }
  }

  /** Lets one holder hold what another one does, which is of the same process. */
  transfer(from: Holder, to: Holder): void {
    for (const memory of this.#memories.values()) {
      if (memory.writer === from) memory.writer = to;
      const reading = memory.readers.get(from);
      if (reading === undefined) continue;
      memory.readers.delete(from);
      memory.readers.set(to, { ...reading, count: reading.count + (memory.readers.get(to)?.count ?? 0) });
    }
  }

  /** The memory with a number, for a process that says that it holds it. */
  find(id: number): Stored | undefined {
    return this.#memories.get(id);
  }

  /**
   * Takes the name from a memory. It goes when its last reader has let go.
   *
   * @returns whether there was one
   * @throws {SharingError} `not-permitted` if it is another user's
   */
  remove(holder: Holder, name: string): boolean {
    const memory = this.#published.get(name);
    if (memory === undefined) return false;
    this.#checkOwner(holder, memory, "remove");
    this.#retire(memory, "removed");
    return true;
  }

  /** Drops what nobody has claimed after another process had taken over. */
  dropUnclaimed(): void {
    for (const memory of [...this.#memories.values()]) {
      memory.mayBeClaimed = false;
      this.#dropIfUnused(memory);
    }
  }

  /** Closes all descriptors. What others keep stays. */
  [Symbol.dispose](): void {
    clearInterval(this.#retryTimer);
    for (const { handle } of this.#memories.values()) handle[Symbol.dispose]();
    this.#memories.clear();
    this.#published.clear();
    for (const journal of this.#journals) journal[Symbol.dispose]();
  }

  #deviceOf(uuid: string): CudaDevice {
    const device = this.#limits.devices.find((device) => isSameUuid(device.uuid, uuid));
    if (device !== undefined) return device;
    throw new SharingError(
      "device-not-visible",
      `Cannot create memory on device ${uuid}: the store does not have it; see its option devices and its ` +
        "CUDA_VISIBLE_DEVICES",
    );
  }

  #wholeSize(device: CudaDevice, byteLength: number): number {
    const location = { type: memLocationType.device, id: device.ordinal };
    const props = { handleTypes: memHandleType.posixFileDescriptor, location };
    const { driver } = sessionOf(this.#cuda);
    return wholeUnits(byteLength, driver.memGetAllocationGranularity(props, allocationGranularity.minimum));
  }

  /** Refuses what would not be possible however long one waited. */
  #checkLimits(
    { peer }: Holder,
    { device, size, metadataByteLength, name }: {
      device: CudaDevice;
      size: number;
      metadataByteLength: number;
      name: string;
    },
  ): void {
    const what = `create ${countOf(size, "byte")} as ${JSON.stringify(name)}`;
    const { maxSize, maxSizeOfUser, maximumMetadata } = this.#limits;
    if (size > maxSize) throw limitExceeded(what, `${maxSize} bytes of each device (maxSize)`);
    const all = sessionOf(this.#cuda).driver.deviceTotalMem(device.ordinal);
    if (size > all) throw limitExceeded(what, `${all} bytes, all that device ${device.ordinal} has`);
    let ofUser = size;
    for (const { uid, size } of this.#taken()) if (uid === peer.uid) ofUser += size;
    if (ofUser > maxSizeOfUser) {
      throw limitExceeded(
        what,
        `${maxSizeOfUser} bytes of one user (maxSizeOfUser), and user ${peer.uid} has ${ofUser - size}`,
      );
    }
    if (this.#metadataByteLength + metadataByteLength > maximumMetadata) {
      throw limitExceeded(what, `${maximumMetadata} bytes of metadata (maximumMetadata)`);
    }
    if (this.#memories.size >= maximumMemories) throw limitExceeded(what, `${maximumMemories} entries`);
  }

  /** New memory, or undefined if there is no room. */
  #allocate(device: CudaDevice, size: number): ShareableHandle | undefined {
    for (;;) {
      const handle = this.#fits(device, size) ? this.#tryAllocate(device, size) : undefined;
      if (handle !== undefined) return handle;
      if (!this.#limits.evict || !this.#evictOne(device)) return undefined;
    }
  }

  #fits(device: CudaDevice, size: number): boolean {
    let used = size;
    for (const { device: uuid, size } of this.#taken()) if (isSameUuid(uuid, device.uuid)) used += size;
    return used <= this.#limits.maxSize;
  }

  *#taken(): Iterable<{ readonly device: string; readonly uid: number; readonly size: number }> {
    yield* this.#memories.values();
    yield* this.#granted;
  }

  #tryAllocate(device: CudaDevice, size: number): ShareableHandle | undefined {
    try {
      // The descriptor keeps the memory: a handle would be one more thing of the driver.
      using memory = device.createMemory(size, { handleType: "posix-fd" });
      return memory.exportHandle();
    } catch (error) {
      if (error instanceof CudaError && error.code === "cudaErrorMemoryAllocation") return undefined;
      if (error instanceof CudaError && error.code === "cudaErrorOperatingSystem") {
        throw new SharingError(
          "out-of-descriptors",
          `Cannot create memory of ${
            countOf(size, "byte")
          }: the store has no descriptor left; raise its limit of open ` +
            "files (ulimit -n)",
          { cause: error },
        );
      }
      throw error;
    }
  }

  /** Removes the published memory that nobody maps and that was used longest ago. */
  #evictOne(device: CudaDevice): boolean {
    let oldest: Stored | undefined;
    for (const memory of this.#published.values()) {
      if (memory.readers.size > 0 || memory.mayBeClaimed || !isSameUuid(memory.device, device.uuid)) continue;
      if (oldest === undefined || memory.lastUse < oldest.lastUse) oldest = memory;
    }
    if (oldest === undefined) return false;
    this.#retire(oldest, "removed");
    return true;
  }

  /** Waits until there is room, behind those who wait already. */
  async #whenFree(allocate: () => ShareableHandle | undefined, signal: AbortSignal): Promise<ShareableHandle> {
    this.#retryTimer ??= setInterval(() => this.#retry(), retryPause);
    try {
      return await abortable<ShareableHandle>((resolve, reject) => {
        const attempt = (): boolean => {
          try {
            const handle = allocate();
            if (handle !== undefined) resolve(handle);
            return handle !== undefined;
          } catch (error) {
            reject(error);
            return true;
          }
        };
        this.#waiting.add(attempt);
        return () => void this.#waiting.delete(attempt);
      }, { signal });
    } finally {
      if (this.#waiting.size === 0) {
        clearInterval(this.#retryTimer);
        this.#retryTimer = undefined;
      }
    }
  }

  #retry(): void {
    // What an attempt removes to have room would begin another one.
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    try {
      for (const attempt of this.#waiting) {
        // In order: a small request must not keep a large one from its turn.
        if (!attempt()) return;
        this.#waiting.delete(attempt);
      }
    } finally {
      this.#isRetrying = false;
    }
  }

  /** Takes the name from a published memory. It goes when nobody maps it. */
  #retire(memory: Stored, state: "replaced" | "removed"): void {
    this.#write({ type: state, id: memory.id });
    memory.state = state;
    if (this.#published.get(memory.name) === memory) this.#published.delete(memory.name);
    this.#dropIfUnused(memory);
  }

  #dropIfUnused(memory: Stored): void {
    const isHeld = memory.writer !== undefined || memory.readers.size > 0 || memory.mayBeClaimed;
    if (memory.state === "published" || isHeld) return;
    if (!this.#memories.has(memory.id)) return;
    if (memory.isWritten) this.#write({ type: "gone", id: memory.id });
    this.#forget(memory);
  }

  /** Gives back a memory that is in the table no more. */
  #forget(memory: Stored): void {
    this.#memories.delete(memory.id);
    this.#metadataByteLength -= byteLengthOf(memory.metadata);
    const name: KeptName = `memory-${memory.id}`;
    for (const keeper of this.#keepers) keeper.forget(name);
    memory.handle[Symbol.dispose]();
    this.#retry();
  }

  #checkOwner({ peer: { uid } }: Holder, memory: Stored, action: string): void {
    if (uid === memory.uid || uid === 0) return;
    throw new SharingError(
      "not-permitted",
      `Cannot ${action} ${JSON.stringify(memory.name)}: user ${memory.uid} has published it, and this is user ${uid}`,
    );
  }

  #write(change: TableChange): void {
    const record = encodeChange(change);
    for (const journal of this.#journals) journal.append(record);
    this.#compactIfLong();
  }

  /** Writes the table anew, if it is twice as long as it was then. */
  #compactIfLong(): void {
    const [journal, second] = this.#journals;
    if (second !== undefined || journal!.byteLength < this.#longestJournal) return;
    const fresh = new Journal(this.#records());
    this.#longestJournal = Math.max(compactionByteLength, 2 * fresh.byteLength);
    this.#journals.push(fresh);
    void Promise.all([...this.#keepers].map((keeper) => keeper.keep("table", fresh.fd))).then(() => {
      this.#journals.shift();
      journal![Symbol.dispose]();
    });
  }

  *#records(): Iterable<JsonObject> {
    for (const memory of this.#memories.values()) {
      if (memory.isWritten) yield encodeChange({ type: "memory", record: recordOf(memory) });
    }
  }
}

function recordOf(memory: Stored): StoredRecord {
  const { id, name, device, byteLength, size, metadata, uid, created, generation, published, state } = memory;
  return { id, name, device, byteLength, size, metadata, uid, created, generation, published, state };
}

function byteLengthOf(metadata: JsonValue | undefined): number {
  return metadata === undefined ? 0 : new TextEncoder().encode(JSON.stringify(metadata)).length;
}
