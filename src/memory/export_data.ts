/**
 * A table of what the 64 bytes by which a pointer is shared stand for. The call that it comes before takes little more
 * than a microsecond.
 *
 * @module
 */
import { exportDataByteLength } from "../driver.ts";
import { type HashEntry, HashTable, mixHash } from "../support/hash_table.ts";

/** What some export data stand for. */
export interface ExportDataEntry<V> extends HashEntry<ExportDataEntry<V>> {
  readonly words: number[];
  value: V | undefined;
}

/** The data that were last looked for, in any map, as numbers, which are quick to compare; and their hash. */
const words = new Int32Array(exportDataByteLength / Int32Array.BYTES_PER_ELEMENT);
const bytes = new Uint8Array(words.buffer);
let wordsHash = 0;
/** Of the hash by Fowler, Noll and Vo. */
const prime = 0x01000193;

/** Values by export data. */
export class ExportDataMap<V> {
  readonly #table = new HashTable<ExportDataEntry<V>>();
  /** Entries that were deleted, to be used again: so that an import leaves nothing of its key behind. */
  #idle: ExportDataEntry<V> | undefined;

  get(exportData: Uint8Array): V | undefined {
    take(exportData);
    let entry = this.#table.first(wordsHash);
    while (entry !== undefined && !(entry.hash === wordsHash && areTaken(entry.words))) entry = entry.next;
    return entry?.value;
  }

  /** Adds a value for the data that `get` has just not found, and gives what `delete` takes. */
  addLatest(value: V): ExportDataEntry<V> {
    const entry = this.#idle ?? { hash: 0, words: new Array<number>(words.length).fill(0), value, next: undefined };
    this.#idle = entry.next;
    entry.hash = wordsHash;
    entry.value = value;
    for (let index = 0; index < words.length; index++) entry.words[index] = words[index]!;
    this.#table.add(entry);
    return entry;
  }

  delete(entry: ExportDataEntry<V>): void {
    this.#table.delete(entry);
    entry.value = undefined;
    entry.next = this.#idle;
    this.#idle = entry;
  }
}

/** Takes data to be looked for. The hash is of four parts, which a processor can do side by side. */
function take(exportData: Uint8Array): void {
  bytes.set(exportData);
  let [a, b, c, d] = [0, 0, 0, 0];
  for (let index = 0; index < words.length; index += 4) {
    a = Math.imul(a ^ words[index]!, prime);
    b = Math.imul(b ^ words[index + 1]!, prime);
    c = Math.imul(c ^ words[index + 2]!, prime);
    d = Math.imul(d ^ words[index + 3]!, prime);
  }
  wordsHash = mixHash(a ^ Math.imul(b, 3) ^ Math.imul(c, 5) ^ Math.imul(d, 7));
}

function areTaken(others: readonly number[]): boolean {
  for (let index = 0; index < words.length; index++) {
    if (others[index] !== words[index]) return false;
  }
  return true;
}
