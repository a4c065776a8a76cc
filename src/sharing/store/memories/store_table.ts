/**
 * A store's table, its records of memories, and the backups of the table and the descriptors.
 *
 * The table outlives its process in a journal: a memory file to which each change is appended, and whose descriptor is
 * backed up by other processes. A process may be killed in the middle of a write. Each record has its length and a
 * checksum: an incomplete record is detected and ignored, and the records before it are valid.
 *
 * @module
 */
import type { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import { SystemError } from "../../../../ffi/native/shim/shim.ts";
import type { DescriptorBackup, KeptName } from "../descriptor_backups.ts";
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "../../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../../ffi/native/shim/memory_files.ts";
import { SharingError } from "../../../support/errors.ts";
import { type JsonObject, memberOf, numberOf, textOf } from "../../protocol/documents.ts";
import type { Peer } from "../../transport/unix_socket.ts";

/** The minimum size in bytes at which a table is rewritten without removed memories. */
const compactionByteLength = 2 ** 20;

/** Memory whose descriptor is backed up. */
interface KeptMemory {
  readonly id: number;
  readonly handle: ShareableHandle;
}

/** Records each change of the memories for the process that takes over. */
export class StoreTable implements Disposable {
  /** Returns the records of a rewritten table. */
  readonly #records: () => Iterable<StoredRecord>;
  readonly #backups = new Set<DescriptorBackup>();
  /** The journals that changes are written to: two until the backups have the second one. */
  readonly #journals: Journal[];
  /** The length at which the table is rewritten. */
  #longestJournal = compactionByteLength;

  /** @param records returns the records of the table, now and whenever it is rewritten */
  constructor(records: () => Iterable<StoredRecord>) {
    this.#records = records;
    this.#journals = [this.#writeAnew()];
  }

  /** Adds a backup of the table and its memories. */
  async addBackup(backup: DescriptorBackup, memories: Iterable<KeptMemory>): Promise<void> {
    this.#backups.add(backup);
    await Promise.all([
      backup.keep("table", this.#journals.at(-1)!.fd),
      ...[...memories].map(({ id, handle }) => backup.keep(nameOf(id), handle.fd)),
    ]);
  }

  /** Removes a backup. */
  removeBackup(backup: DescriptorBackup): void {
    this.#backups.delete(backup);
  }

  /** Backs up a memory. Resolves when all backups have it. */
  keep({ id, handle }: KeptMemory): Promise<unknown> {
    return Promise.all([...this.#backups].map((backup) => backup.keep(nameOf(id), handle.fd)));
  }

  /** Removes a memory from all backups. */
  forget({ id }: KeptMemory): void {
    for (const backup of this.#backups) backup.forget(nameOf(id));
  }

  /** Writes a change before the memories are changed: if this throws, the change has not happened. */
  write(change: TableChange): void {
    const record = encodeChange(change);
    // First: it rewrites the table from the memories, which do not have the change yet.
    this.#compactIfLong();
    for (const journal of this.#journals) journal.append(record);
  }

  /** Closes the table. Backups keep theirs. */
  [Symbol.dispose](): void {
    for (const journal of this.#journals) journal[Symbol.dispose]();
  }

  /** Rewrites the table if it is twice as long as after the last time. */
  #compactIfLong(): void {
    const [journal, second] = this.#journals;
    if (second !== undefined || journal!.byteLength < this.#longestJournal) return;
    let fresh: Journal;
    try {
      fresh = this.#writeAnew();
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      // No descriptor or memory is left: the old table is used for now.
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

/** The header of a record: its length and its checksum. */
const headerByteLength = 8;
/** The maximum size of a journal in bytes. A larger file was not written by a store. */
const maximumByteLength = 2 ** 30;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A journal in a memory file. */
export class Journal implements Disposable {
  readonly fd: number;
  #byteLength = 0;
  #isDisposed = false;

  /** Creates a journal with some records, each a JSON object. */
  constructor(records: Iterable<string>) {
    this.fd = createMemoryFile("poolpass-store", 0);
    try {
      for (const record of records) this.append(record);
    } catch (error) {
      closeDescriptor(this.fd);
      throw error;
    }
  }

  /** Its length in bytes. */
  get byteLength(): number {
    return this.#byteLength;
  }

  /** Appends a record. When this returns, it survives the end of the process. */
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

  /** Closes the descriptor. The file stays as long as another process has its descriptor. */
  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    closeDescriptor(this.fd);
  }
}

/**
 * Reads the records of a journal, up to the first incomplete one.
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

/** The checksum FNV-1a of 32 bits. */
function sumOf(bytes: Uint8Array): number {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}

/** The maximum length of a memory's metadata, as JSON. */
export const maximumEntryMetadata: number = 4 * 2 ** 20;

/**
 * A memory of a store. Its state is `"new"` until it is published, `"replaced"` when another generation has its name,
 * and `"removed"` when its name was removed.
 */
export interface StoredRecord {
  readonly id: number;
  readonly name: string;
  /** The device's UUID. */
  readonly device: string;
  /** The requested size in bytes. */
  readonly byteLength: number;
  /** The actual size in bytes: a multiple of the granularity. */
  readonly size: number;
  /** JSON in UTF-8, sent to all clients as it is. */
  readonly metadata: Uint8Array<ArrayBuffer> | undefined;
  /** The user who created it. */
  readonly uid: number;
  /** When it was created, in milliseconds since 1970. */
  readonly created: number;
  /** 0 until it is published. */
  generation: number;
  /** When it was published. */
  published: number;
  state: "new" | "published" | "replaced" | "removed";
}

/** A change of a store's table. */
export type TableChange =
  | { readonly type: "memory"; readonly record: StoredRecord }
  | { readonly type: "published"; readonly id: number; readonly generation: number; readonly at: number }
  | { readonly type: "replaced" | "removed" | "gone"; readonly id: number };

/** A change as a record of the table: a JSON object. */
function encodeChange(change: TableChange): string {
  if (change.type !== "memory") return JSON.stringify(change);
  const { metadata, ...record } = change.record;
  const json = JSON.stringify({ type: "memory", ...record });
  return metadata === undefined ? json : `${json.slice(0, -1)},"metadata":${metadataText(metadata)}}`;
}

/** Encodes metadata. */
export function metadataBytes(json: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(json);
}

/** Decodes metadata to JSON. */
export function metadataText(metadata: Uint8Array<ArrayBuffer>): string {
  return decoder.decode(metadata);
}

/**
 * Replays the records of a table.
 *
 * @returns the memories of the store, by number
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
    // A record about unknown memory is ignored, so that the others are not lost.
    if (memory === undefined) continue;
    switch (type) {
      case "published":
        // The record of the previous generation's replacement may be missing.
        for (const other of memories.values()) {
          if (other.name === memory.name && other.state === "published") other.state = "replaced";
        }
        memory.generation = numberOf(record, "generation", 1);
        memory.published = numberOf(record, "at");
        memory.state = "published";
        break;
      case "replaced":
      case "removed":
        memory.state = type;
        break;
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
  const metadata = memberOf(record, "metadata");
  return {
    id,
    name: textOf(record, "name"),
    device: textOf(record, "device"),
    byteLength: numberOf(record, "byteLength", 1),
    size: numberOf(record, "size", 1),
    metadata: metadata === undefined ? undefined : metadataBytes(JSON.stringify(metadata)),
    uid: numberOf(record, "uid"),
    created: numberOf(record, "created"),
    generation: numberOf(record, "generation"),
    published: numberOf(record, "published"),
    state,
  };
}

function nonsense(what: string): SharingError {
  return new SharingError("bad-message", `Cannot use the table of a store: ${what}`);
}

/** A process that holds memory of a store. */
export interface Holder {
  readonly peer: Peer;
}

/** How often a process maps a memory, and since when. */
interface Reading {
  count: number;
  readonly since: number;
}

/** A memory and its holders. */
export interface Stored extends StoredRecord {
  readonly handle: ShareableHandle;
  /** The process that writes it and has not published it. */
  writer: Holder | undefined;
  /** Whether processes that held it before this store took over may still claim it. */
  mayBeClaimed: boolean;
  /** Whether it is in the table. */
  isWritten: boolean;
  readonly readers: Map<Holder, Reading>;
  /** When it was mapped or released last, in milliseconds since 1970. */
  lastUse: number;
}

/** Restores memory of an earlier process of the store, which its holders may claim. */
export function restoredMemory(record: StoredRecord, handle: ShareableHandle): Stored {
  return { ...unheldMemory(record, handle), mayBeClaimed: true, isWritten: true };
}

/** New memory for a writer. It is not in the table yet. */
export function newMemory(record: StoredRecord, handle: ShareableHandle, writer: Holder): Stored {
  return { ...unheldMemory(record, handle), writer };
}

function unheldMemory(record: StoredRecord, handle: ShareableHandle): Stored {
  return {
    ...record,
    handle,
    writer: undefined,
    mayBeClaimed: false,
    isWritten: false,
    readers: new Map(),
    lastUse: Date.now(),
  };
}

/** Whether memory is dropped soon unless a process that held it before the store took over claims it. */
export function isUnclaimed({ mayBeClaimed, state, writer, readers }: Stored): boolean {
  return mayBeClaimed && state !== "published" && writer === undefined && readers.size === 0;
}

/** The table's record of a memory. */
export function recordOf(memory: Stored): StoredRecord {
  const { id, name, device, byteLength, size, metadata, uid, created, generation, published, state } = memory;
  return { id, name, device, byteLength, size, metadata, uid, created, generation, published, state };
}
