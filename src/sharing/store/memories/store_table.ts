/**
 * A store's table, and the backups of the table and the descriptors.
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
import { encodeChange, type StoredRecord, type TableChange } from "./stored_record.ts";
import { closeDescriptor, describeDescriptor, readAt, writeAt } from "../../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../../ffi/native/shim/memory_files.ts";
import { SharingError } from "../../../support/errors.ts";
import type { JsonObject } from "../../protocol/documents.ts";

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
