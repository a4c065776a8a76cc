/**
 * A store's table, and those who keep it with the store's descriptors.
 *
 * @module
 */
import type { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import { SystemError } from "../../../../ffi/native/shim/shim.ts";
import type { Keeper, KeptName } from "../keepers.ts";
import { Journal } from "./journal.ts";
import { encodeChange, type StoredRecord, type TableChange } from "./stored_record.ts";

/** A table has at least so many bytes before it is written anew, without what is gone. */
const compactionByteLength = 2 ** 20;

/** Memory that others keep. */
interface KeptMemory {
  readonly id: number;
  readonly handle: ShareableHandle;
}

/** Writes each change of the memories where the process that takes over finds it. */
export class StoreTable implements Disposable {
  /** What the table says when it is written anew. */
  readonly #records: () => Iterable<StoredRecord>;
  readonly #keepers = new Set<Keeper>();
  /** Where changes are written: two while others do not keep the second yet. */
  readonly #journals: Journal[];
  /** The length at which the table is written anew. */
  #longestJournal = compactionByteLength;

  /** @param records what the table says now, and whenever it is written anew */
  constructor(records: () => Iterable<StoredRecord>) {
    this.#records = records;
    this.#journals = [this.#writeAnew()];
  }

  /** Lets somebody keep the table and its memories from now on. */
  async addKeeper(keeper: Keeper, memories: Iterable<KeptMemory>): Promise<void> {
    this.#keepers.add(keeper);
    await Promise.all([
      keeper.keep("table", this.#journals.at(-1)!.fd),
      ...[...memories].map(({ id, handle }) => keeper.keep(nameOf(id), handle.fd)),
    ]);
  }

  /** Lets somebody keep nothing any more. */
  removeKeeper(keeper: Keeper): void {
    this.#keepers.delete(keeper);
  }

  /** Lets all keepers keep a memory. Resolves when they do. */
  keep({ id, handle }: KeptMemory): Promise<unknown> {
    return Promise.all([...this.#keepers].map((keeper) => keeper.keep(nameOf(id), handle.fd)));
  }

  /** Lets all keepers let a memory go. */
  forget({ id }: KeptMemory): void {
    for (const keeper of this.#keepers) keeper.forget(nameOf(id));
  }

  /** Writes a change, which the memories do not show yet. What cannot be written has not happened. */
  write(change: TableChange): void {
    const record = encodeChange(change);
    // First: the table is written anew from what the memories show.
    this.#compactIfLong();
    for (const journal of this.#journals) journal.append(record);
  }

  /** Closes the table. What others keep stays. */
  [Symbol.dispose](): void {
    for (const journal of this.#journals) journal[Symbol.dispose]();
  }

  /** Writes the table anew, if it is twice as long as it was then. */
  #compactIfLong(): void {
    const [journal, second] = this.#journals;
    if (second !== undefined || journal!.byteLength < this.#longestJournal) return;
    let fresh: Journal;
    try {
      fresh = this.#writeAnew();
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      // There is no descriptor or no memory left: the table goes on as it is for a while.
      this.#longestJournal = journal!.byteLength + compactionByteLength;
      return;
    }
    this.#longestJournal = Math.max(compactionByteLength, 2 * fresh.byteLength);
    this.#journals.push(fresh);
    void Promise.all([...this.#keepers].map((keeper) => keeper.keep("table", fresh.fd))).then(() => {
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
