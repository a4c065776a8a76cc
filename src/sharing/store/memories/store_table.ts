/**
 * A store's table, its records of memories, and the backups of the table and the descriptors.
 *
 * The table survives its process in a journal: a memory file to which each change is appended, and whose descriptor
 * other processes back up. A process may be killed in the middle of a write. Each record has its length and a checksum:
 * an incomplete record is detected and ignored, and the records before it are valid.
 *
 * @module
 */
import type { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import { SystemError } from "../../../../ffi/native/shim/shim.ts";
import type { DescriptorBackup, KeptName } from "../descriptor_backups.ts";
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "../../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../../ffi/native/shim/memory_files.ts";
import { SharingError } from "../../../support/errors.ts";
import { flagOf, type JsonObject, memberOf, numberOf, numbersOf, objectOf, textOf } from "../../protocol/documents.ts";
import type { Peer } from "../../transport/unix_socket.ts";

/** The minimum length in bytes at which a journal is rewritten without the records of freed allocations. */
const compactionByteLength = 2 ** 20;

/** The properties of an allocation that are needed to back it up. */
interface KeptMemory {
  /** The number in the name that the backups keep the descriptor under. */
  readonly descriptor: number;
  /** Undefined if the allocation lies in a file, and has no descriptor. */
  readonly handle: ShareableHandle | undefined;
}

/** Records each change of a store's allocations, for a process that takes over the store. */
export class StoreTable implements Disposable {
  /** Returns the current records of all allocations, from which a new journal is written. */
  readonly #records: () => Iterable<StoredRecord>;
  readonly #backups = new Set<DescriptorBackup>();
  /**
   * The journals to which changes are written. After a rewrite of the table, both the old and the new journal are
   * written until all backups hold the new one.
   */
  readonly #journals: Journal[];
  /** The length of the journal in bytes at which the table is rewritten. */
  #longestJournal = compactionByteLength;

  /** @param records returns the current records of all allocations; called now and whenever the table is rewritten */
  constructor(records: () => Iterable<StoredRecord>) {
    this.#records = records;
    this.#journals = [this.#writeAnew()];
  }

  /**
   * Backs up the table and the allocations, now and after each change. Resolves when the backup holds all descriptors.
   */
  async addBackup(backup: DescriptorBackup, memories: Iterable<KeptMemory>): Promise<void> {
    this.#backups.add(backup);
    await Promise.all([
      backup.keep("table", this.#journals.at(-1)!.fd),
      ...new Map([...memories].map(({ descriptor, handle }) => [descriptor, handle])).entries().flatMap((
        [descriptor, handle],
      ) => handle === undefined ? [] : [backup.keep(nameOf(descriptor), handle.fd)]),
    ]);
  }

  /** Stops sending changes to a backup. */
  removeBackup(backup: DescriptorBackup): void {
    this.#backups.delete(backup);
  }

  /** Backs up the descriptor of an allocation. Resolves when all backups hold the descriptor. */
  keep({ descriptor, handle }: KeptMemory): Promise<unknown> {
    if (handle === undefined) return Promise.resolve();
    return Promise.all([...this.#backups].map((backup) => backup.keep(nameOf(descriptor), handle.fd)));
  }

  /** Makes all backups close their descriptors of an allocation. */
  forget({ descriptor, handle }: KeptMemory): void {
    if (handle === undefined) return;
    for (const backup of this.#backups) backup.forget(nameOf(descriptor));
  }

  /** Records a change. Must be called before the change is made: if this throws, the change must not be made. */
  write(change: TableChange): void {
    const record = encodeChange(change);
    // Rewrite the table before recording the change, because a rewritten table contains only changes that have been
    // made.
    this.#compactIfLong();
    for (const journal of this.#journals) journal.append(record);
  }

  /** Closes the journals. Backups keep their own descriptors. */
  [Symbol.dispose](): void {
    for (const journal of this.#journals) journal[Symbol.dispose]();
  }

  /**
   * Rewrites the table if the journal is at least `compactionByteLength` bytes long and at least twice as long as after
   * the last rewrite.
   */
  #compactIfLong(): void {
    const [journal, second] = this.#journals;
    if (second !== undefined || journal!.byteLength < this.#longestJournal) return;
    let fresh: Journal;
    try {
      fresh = this.#writeAnew();
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      // No descriptor or memory is left for a new journal, so continue with the old one.
      this.#longestJournal = journal!.byteLength + compactionByteLength;
      return;
    }
    this.#longestJournal = Math.max(compactionByteLength, 2 * fresh.byteLength);
    this.#journals.push(fresh);
    void Promise.all([...this.#backups].map((backup) => backup.keep("table", fresh.fd))).then(() => {
      this.#journals.shift();
      journal![Symbol.dispose]();
    });
  }

  #writeAnew(): Journal {
    return new Journal(encodeAll(this.#records()));
  }
}

function nameOf(id: number): KeptName {
  return `memory-${id}`;
}

function* encodeAll(records: Iterable<StoredRecord>): Iterable<string> {
  for (const record of records) yield encodeChange({ type: "memory", record });
}

/** The size in bytes of a record's header, which consists of the record's length and checksum. */
const headerByteLength = 8;
/** The maximum length in bytes of a journal that is read. A longer file was not written by a store. */
const maximumByteLength = 2 ** 30;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A journal: an in-memory file to which records are appended. */
export class Journal implements Disposable {
  readonly fd: number;
  #byteLength = 0;
  #isDisposed = false;

  /** Creates a journal with initial records, each of which is a JSON object. */
  constructor(records: Iterable<string>) {
    this.fd = createMemoryFile("poolpass-store", 0);
    try {
      for (const record of records) this.append(record);
    } catch (error) {
      closeDescriptor(this.fd);
      throw error;
    }
  }

  /** The length of the journal in bytes. */
  get byteLength(): number {
    return this.#byteLength;
  }

  /**
   * Appends a record. The record is in the file when this returns, even if the process exits immediately afterwards.
   */
  append(record: string): void {
    const body = encoder.encode(record);
    const bytes = new Uint8Array(headerByteLength + body.length);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, body.length, true);
    view.setUint32(4, sumOf(body), true);
    bytes.set(body, headerByteLength);
    writeAt(this.fd, bytes, { offset: this.#byteLength });
    this.#byteLength += bytes.length;
  }

  /** Closes the descriptor. The file exists for as long as another process has a descriptor for it. */
  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    closeDescriptor(this.fd);
  }
}

/**
 * Reads the records of a journal, up to the first incomplete or corrupt record.
 *
 * @throws {SharingError} `bad-message` if the file is not a journal, or a record is not a JSON object
 */
export function readJournal(fd: number): JsonObject[] {
  const { type, byteLength, seals } = describeDescriptor(fd);
  if (type !== "file" || seals === undefined || byteLength > maximumByteLength) {
    throw new SharingError("bad-message", `Cannot read the table of a store: descriptor ${fd} is not one`);
  }
  const bytes = new Uint8Array(byteLength);
  const length = readAt(fd, bytes);
  const view = new DataView(bytes.buffer, 0, length);
  const records: JsonObject[] = [];
  for (let position = 0; position + headerByteLength <= length;) {
    const end = position + headerByteLength + view.getUint32(position, true);
    if (end > length) break;
    const body = bytes.subarray(position + headerByteLength, end);
    if (body.length === 0 || sumOf(body) !== view.getUint32(position + 4, true)) break;
    records.push(parse(body));
    position = end;
  }
  return records;
}

function parse(body: Uint8Array): JsonObject {
  let record: unknown;
  try {
    record = JSON.parse(decoder.decode(body));
  } catch (cause) {
    throw new SharingError("bad-message", "Cannot read the table of a store: a record is not JSON", { cause });
  }
  if (typeof record === "object" && record !== null && !Array.isArray(record)) return record as JsonObject;
  throw new SharingError("bad-message", "Cannot read the table of a store: a record is not an object");
}

/** Returns the 32-bit FNV-1a hash of `bytes`, which serves as a checksum. */
function sumOf(bytes: Uint8Array): number {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}

/** The maximum length of an allocation's metadata, in bytes of JSON in UTF-8. */
export const maximumEntryMetadata: number = 4 * 2 ** 20;

/** The part of a set that an allocation is: one for each rank, published together. */
export interface PartOfSet {
  /** Distinguishes sets of the same name that are written at the same time. */
  readonly id: string;
  /** The number of ranks, at least 2. */
  readonly count: number;
  readonly rank: number;
}

/**
 * Where an allocation lies: `"device"`; `"host"`, in a memory file; or the absolute path of a file, of which the store
 * knows no more than the path.
 */
export type Place = "device" | "host" | `/${string}`;

/** Returns a place if a string names one; otherwise undefined. */
export function placeNamed(text: string): Place | undefined {
  return text === "device" || text === "host" || text.startsWith("/") ? text as Place : undefined;
}

/**
 * The table's record of an allocation. The state is `"new"` until the allocation is published, `"replaced"` after
 * another generation of the same name was published, and `"removed"` after the name was removed.
 */
export interface StoredRecord {
  readonly id: number;
  readonly name: string;
  /** The UUID of the device that holds the allocation. */
  readonly device: string;
  /** The requested size in bytes. */
  readonly byteLength: number;
  /** The allocated size in bytes, a multiple of the device's allocation granularity. */
  readonly size: number;
  /** The metadata as JSON in UTF-8, which is sent to clients unchanged. */
  metadata: Uint8Array<ArrayBuffer> | undefined;
  /** The ID of the user whose process created the allocation. */
  readonly uid: number;
  /** When the allocation was created, in milliseconds since 1970. */
  readonly created: number;
  /** The generation of the name, from 1; 0 until the allocation is published. */
  generation: number;
  /** When the allocation was published, in milliseconds since 1970; 0 until then. */
  published: number;
  state: "new" | "published" | "replaced" | "removed";
  /** The digest of the contents that the publisher stated, as 64 hexadecimal digits. */
  digest: string | undefined;
  /** A digest of how the contents are laid out that the publisher stated, as 64 hexadecimal digits. */
  layout: string | undefined;
  /** Whether the allocation is never evicted. */
  keep: boolean;
  /** Whether a process has mapped the allocation for writing after it was published. */
  mayChange: boolean;
  place: Place;
  /**
   * The number in the name that the backups keep the descriptor under: `id`, or, if it has moved or shares the memory of
   * another allocation, another one. Allocations with the same number share their memory.
   */
  descriptor: number;
  /** The number of the allocation that is being moved to this one, which then takes its place. */
  readonly target: number | undefined;
  /** The set that the allocation is part of; undefined if it is published alone. */
  readonly set: PartOfSet | undefined;
}

/** What a client states when it publishes an allocation. */
export interface Publication {
  /** The metadata that replaces what the allocation was created with, as JSON in UTF-8. */
  readonly metadata?: Uint8Array<ArrayBuffer> | undefined;
  /** The digest of the contents, as 64 hexadecimal digits. */
  readonly digest?: string | undefined;
  /** A digest of how the contents are laid out, as 64 hexadecimal digits. */
  readonly layout?: string | undefined;
  /** Whether the allocation is never evicted. */
  readonly keep?: boolean;
}

/** A change to record in a store's table. "gone" states that an allocation was freed. */
export type TableChange =
  | { readonly type: "memory"; readonly record: StoredRecord }
  | Publication & {
    readonly type: "published";
    readonly id: number;
    readonly generation: number;
    readonly at: number;
    /** The descriptor of the allocation whose memory this one shares from now on. */
    readonly descriptor?: number | undefined;
  }
  /** The allocation has moved: to that with the number `memory`, which ends with this record, or to a file. */
  | { readonly type: "moved"; readonly id: number; readonly memory: number | undefined; readonly place: Place }
  /** What the writer of an allocation of a set has stated, who waits for the other ranks. */
  | Publication & { readonly type: "stated"; readonly id: number }
  | {
    readonly type: "published-set";
    readonly id: number;
    readonly ids: readonly number[];
    readonly generation: number;
    readonly at: number;
    /** The descriptors of the allocations in `ids`, if any of them shares the memory of another one. */
    readonly descriptors?: readonly number[] | undefined;
  }
  | { readonly type: "replaced" | "removed" | "gone"; readonly id: number };

/** Encodes a change as a record: a JSON object. */
function encodeChange(change: TableChange): string {
  if (change.type !== "memory" && change.type !== "published" && change.type !== "stated") {
    return JSON.stringify(change);
  }
  const { metadata, ...record } = change.type === "memory" ? { type: change.type, ...change.record } : change;
  const json = JSON.stringify(record);
  return metadata === undefined ? json : `${json.slice(0, -1)},"metadata":${metadataText(metadata)}}`;
}

/** Encodes a JSON string as UTF-8. */
export function metadataBytes(json: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(json);
}

/** Decodes UTF-8 to a JSON string. */
export function metadataText(metadata: Uint8Array<ArrayBuffer>): string {
  return decoder.decode(metadata);
}

/**
 * Applies the records of a table in order.
 *
 * @returns the records of the store's allocations, keyed by number
 * @throws {SharingError} `bad-message` if a record is malformed
 */
export function replayTable(records: readonly JsonObject[]): Map<number, StoredRecord> {
  const memories = new Map<number, StoredRecord>();
  for (const record of records) {
    const type = textOf(record, "type");
    const id = numberOf(record, "id", 1);
    if (type === "memory") {
      memories.set(id, decodeRecord(record, id));
      continue;
    }
    const memory = memories.get(id);
    // Ignore a record about an unknown allocation, so that the other allocations are not lost.
    if (memory === undefined) continue;
    switch (type) {
      case "published":
        // The store may have exited before it recorded that the previous generation was replaced.
        for (const other of memories.values()) {
          if (other.name === memory.name && other.state === "published") other.state = "replaced";
        }
        memory.generation = numberOf(record, "generation", 1);
        memory.published = numberOf(record, "at");
        memory.descriptor = descriptorOf(record, memory.descriptor);
        memory.state = "published";
        Object.assign(memory, statementOf(record, memory.metadata));
        break;
      case "stated":
        Object.assign(memory, statementOf(record, memory.metadata));
        break;
      case "published-set": {
        for (const other of memories.values()) {
          if (other.name === memory.name && other.state === "published") other.state = "replaced";
        }
        const generation = numberOf(record, "generation", 1), published = numberOf(record, "at");
        const descriptors = numbersOf(record, "descriptors", 1);
        for (const [index, member] of numbersOf(record, "ids", 1).entries()) {
          const part = memories.get(member);
          if (part === undefined) continue;
          const { [index]: descriptor = part.descriptor } = descriptors;
          Object.assign(part, { generation, published, state: "published", descriptor });
        }
        break;
      }
      case "replaced":
      case "removed":
        memory.state = type;
        break;
      case "moved": {
        const target = memberOf(record, "memory") === undefined ? undefined : numberOf(record, "memory", 1);
        const place = checkedPlace(record);
        const last = memory.descriptor;
        const descriptor = target === undefined ? last : memories.get(target)?.descriptor ?? target;
        for (const each of memories.values()) {
          if (each.descriptor === last) Object.assign(each, { place, descriptor });
        }
        if (target !== undefined) memories.delete(target);
        break;
      }
      case "gone":
        memories.delete(id);
        break;
      default:
        throw nonsense(`a record is of the type "${type}"`);
    }
  }
  return memories;
}

function decodeRecord(record: JsonObject, id: number): StoredRecord {
  const state = textOf(record, "state");
  if (state !== "new" && state !== "published" && state !== "replaced" && state !== "removed") {
    throw nonsense(`memory ${id} is ${state}`);
  }
  return {
    id,
    name: textOf(record, "name"),
    device: textOf(record, "device"),
    byteLength: numberOf(record, "byteLength", 1),
    size: numberOf(record, "size", 1),
    uid: numberOf(record, "uid"),
    created: numberOf(record, "created"),
    generation: numberOf(record, "generation"),
    published: numberOf(record, "published"),
    state,
    ...statementOf(record, undefined),
    mayChange: flagOf(record, "mayChange"),
    place: memberOf(record, "place") === undefined ? "device" : checkedPlace(record),
    descriptor: descriptorOf(record, id),
    target: memberOf(record, "target") === undefined ? undefined : numberOf(record, "target", 1),
    set: setOf(record),
  };
}

/** Returns the part of a set that a record or a request states. */
export function setOf(document: JsonObject): PartOfSet | undefined {
  if (memberOf(document, "set") === undefined) return undefined;
  const set = objectOf(document, "set");
  return { id: textOf(set, "id"), count: numberOf(set, "count", 2), rank: numberOf(set, "rank") };
}

/** Returns what the publisher of an allocation has stated. `metadata` is used if the record has none. */
function statementOf(record: JsonObject, metadata: Uint8Array<ArrayBuffer> | undefined) {
  const digestOf = (name: string) => memberOf(record, name) === undefined ? undefined : textOf(record, name);
  const keep = flagOf(record, "keep");
  return { metadata: metadataOf(record) ?? metadata, digest: digestOf("digest"), layout: digestOf("layout"), keep };
}

function descriptorOf(record: JsonObject, otherwise: number): number {
  return memberOf(record, "descriptor") === undefined ? otherwise : numberOf(record, "descriptor", 1);
}

function checkedPlace(record: JsonObject): Place {
  const text = textOf(record, "place");
  return placeNamed(text) ?? ((): never => {
    throw nonsense(`a memory lies at "${text}"`);
  })();
}

function metadataOf(record: JsonObject): Uint8Array<ArrayBuffer> | undefined {
  const metadata = memberOf(record, "metadata");
  return metadata === undefined ? undefined : metadataBytes(JSON.stringify(metadata));
}

function nonsense(what: string): SharingError {
  return new SharingError("bad-message", `Cannot use the table of a store: ${what}`);
}

/** A client of a store that has mapped or created allocations. Remains a holder after its connection was closed. */
export interface Holder {
  readonly peer: Peer;
}

/** A holder's mappings of an allocation. */
export interface Mappings {
  /** The number of mappings, including those that are asleep. */
  count: number;
  /** The number of mappings that are asleep: they are unmapped, but still hold the allocation. */
  sleeping: number;
}

/** A holder's mappings, and the time of the first one in milliseconds since 1970. */
interface Reading extends Mappings {
  readonly since: number;
}

/** An allocation of a store, with its descriptor and its holders. */
export interface Stored extends StoredRecord {
  /** Undefined if the allocation lies in a file. */
  handle: ShareableHandle | undefined;
  /** The holder that is moving the allocation to another place. Undefined if it is not being moved. */
  mover: Holder | undefined;
  /** The holder that created the allocation. Undefined once the allocation is published, or if the holder is gone. */
  writer: Holder | undefined;
  /** Whether processes that held the allocation before this store took over may still claim it. */
  mayBeClaimed: boolean;
  /** Whether the table has a record of the allocation. */
  isWritten: boolean;
  readonly readers: Map<Holder, Reading>;
  /** When the allocation was last mapped or released, in milliseconds since 1970. */
  lastUse: number;
  /** The allocations that share this one's memory, including this one. Undefined until others do. */
  sharers: Set<Stored> | undefined;
  /** The allocation whose memory this one is to share when its set is published. */
  equivalent: Stored | undefined;
}

/** Returns the allocations that share the memory of one, including that one. */
export function sharersOf(memory: Stored): Iterable<Stored> {
  return memory.sharers ?? [memory];
}

/**
 * Returns whether an allocation stands for its memory, which it may share with others: the memory is counted once, for
 * the first allocation that is published, or else the oldest.
 */
export function isCounted(memory: Stored): boolean {
  if (memory.sharers === undefined) return true;
  const [...all] = memory.sharers;
  return memory === (all.find(({ state }) => state === "published") ?? all[0]);
}

/** Returns an allocation restored from an earlier process of the store. The processes that held it may claim it. */
export function restoredMemory(record: StoredRecord, handle: ShareableHandle | undefined): Stored {
  return { ...unheldMemory(record, handle), mayBeClaimed: true, isWritten: true };
}

/** Returns a new allocation that `writer` holds and that is not recorded in the table yet. */
export function newMemory(record: StoredRecord, handle: ShareableHandle, writer: Holder): Stored {
  return { ...unheldMemory(record, handle), writer };
}

function unheldMemory(record: StoredRecord, handle: ShareableHandle | undefined): Stored {
  return {
    ...record,
    handle,
    mover: undefined,
    writer: undefined,
    mayBeClaimed: false,
    isWritten: false,
    readers: new Map(),
    lastUse: Date.now(),
    sharers: undefined,
    equivalent: undefined,
  };
}

/** Returns the name of an allocation, and its rank if it is part of a set. Names contain no NUL. */
export function nameWithRank({ name, set }: { readonly name: string; readonly set: PartOfSet | undefined }): string {
  return set === undefined ? name : `${name}\0${set.rank}/${set.count}`;
}

/** Returns whether an allocation will be freed unless a process that held it before this store took over claims it. */
export function isUnclaimed({ mayBeClaimed, state, writer, readers }: Stored): boolean {
  return mayBeClaimed && state !== "published" && writer === undefined && readers.size === 0;
}

/** Returns the table's record of an allocation. */
export function recordOf(memory: Stored): StoredRecord {
  const { id, name, device, byteLength, size, metadata, uid, created, generation, published, state } = memory;
  const { digest, layout, keep, mayChange, place, descriptor, target, set } = memory;
  return {
    ...{ id, name, device, byteLength, size, metadata, uid, created, generation, published, state },
    ...{ digest, layout, keep, mayChange, place, descriptor, target, set },
  };
}
