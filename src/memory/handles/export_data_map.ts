/**
 * A map whose keys are export data, the 64 bytes by which a pointer is shared. The driver imports a pointer in little
 * more than a microsecond, so the lookup that precedes it must be fast.
 *
 * @module
 */
import { exportDataByteLength } from "../../driver.ts";
import { type HashEntry, HashTable, mixHash } from "../hash_table.ts";

/** An entry of the map, with the key as 32-bit words. */
export interface ExportDataEntry<V> extends HashEntry<ExportDataEntry<V>> {
  readonly words: number[];
  value: V | undefined;
}

/** The key of the last lookup in any map, as 32-bit words because they compare fast. `keyHash` is its hash. */
const keyWords = new Int32Array(exportDataByteLength / Int32Array.BYTES_PER_ELEMENT);
const keyBytes = new Uint8Array(keyWords.buffer);
let keyHash = 0;
/** The prime of the FNV hash (Fowler, Noll, Vo). */
const prime = 0x01000193;

/** A u64 of the key of the last lookup, by its index. It may lose bits beyond 2^53. */
export function keyFieldAt(index: number): number {
  return (keyWords[2 * index]! >>> 0) + (keyWords[2 * index + 1]! >>> 0) * 2 ** 32;
}

/** A map from export data to values. */
export class ExportDataMap<V> {
  readonly #table = new HashTable<ExportDataEntry<V>>();
  /** A linked list of deleted entries. They are reused, so that imports create no garbage for their keys. */
  #idle: ExportDataEntry<V> | undefined;

  get(exportData: Uint8Array): V | undefined {
    loadKey(exportData);
    let entry = this.#table.first(keyHash);
    while (entry !== undefined && !(entry.hash === keyHash && equalsKey(entry.words))) entry = entry.next;
    return entry?.value;
  }

  /** Adds a value for the key of the last `get`, which must not have found it. Returns the entry, for `delete`. */
  addLatest(value: V): ExportDataEntry<V> {
    const entry = this.#idle ?? { hash: 0, words: new Array<number>(keyWords.length).fill(0), value, next: undefined };
    this.#idle = entry.next;
    entry.hash = keyHash;
    entry.value = value;
    for (let index = 0; index < keyWords.length; index++) entry.words[index] = keyWords[index]!;
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

/** Loads a key and hashes it, in four independent chains that a processor can run in parallel. */
function loadKey(exportData: Uint8Array): void {
  keyBytes.set(exportData);
  let [a, b, c, d] = [0, 0, 0, 0];
  for (let index = 0; index < keyWords.length; index += 4) {
    a = Math.imul(a ^ keyWords[index]!, prime);
    b = Math.imul(b ^ keyWords[index + 1]!, prime);
    c = Math.imul(c ^ keyWords[index + 2]!, prime);
    d = Math.imul(d ^ keyWords[index + 3]!, prime);
  }
  keyHash = mixHash(a ^ Math.imul(b, 3) ^ Math.imul(c, 5) ^ Math.imul(d, 7));
}

function equalsKey(others: readonly number[]): boolean {
  for (let index = 0; index < keyWords.length; index++) {
    if (others[index] !== keyWords[index]) return false;
  }
  return true;
}
