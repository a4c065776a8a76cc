/**
 * A store's table, and the backups of the table and the descriptors.
 *
 * @module
 */
import type { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import { SystemError } from "../../../../ffi/native/shim/shim.ts";
import type { DescriptorBackup, KeptName } from "../descriptor_backups.ts";
import { Journal } from "./journal.ts";
import { encodeChange, type StoredRecord, type TableChange } from "./stored_record.ts";

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
