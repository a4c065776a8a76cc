/**
 * A table of what the 64 bytes by which a pointer is shared stand for.
 *
 * Strings would do for keys, but to make one of 64 bytes and to hash it takes several times as long, and the call that it
 * comes before takes less than a microsecond.
 *
 * @module
 */

/** What export data have, in bytes. */
export const exportDataByteLength = 64;

/** Export data as numbers, which are quick to compare. */
export interface ExportDataKey {
  readonly words: readonly number[];
  readonly hash: number;
}

interface Entry<V> {
  readonly key: ExportDataKey;
  readonly value: V;
  /** Another whose hash is the same. */
  next: Entry<V> | undefined;
}

const words = new Int32Array(exportDataByteLength / Int32Array.BYTES_PER_ELEMENT);
const bytes = new Uint8Array(words.buffer);
/** Of the hash by Fowler, Noll and Vo. */
const prime = 0x01000193;

/** The key of 64 bytes. */
export function exportDataKey(exportData: Uint8Array): ExportDataKey {
  bytes.set(exportData);
  const copy = new Array<number>(words.length);
  let hash = 0;
  for (let index = 0; index < words.length; index++) {
    const word = words[index]!;
    copy[index] = word;
    hash = Math.imul(hash ^ word, prime);
  }
  return { words: copy, hash };
}

/** Values by export data. */
export class ExportDataMap<V> {
  readonly #byHash = new Map<number, Entry<V>>();

  get(key: ExportDataKey): V | undefined {
    let entry = this.#byHash.get(key.hash);
    while (entry !== undefined && !areEqual(entry.key, key)) entry = entry.next;
    return entry?.value;
  }

  /** Adds what is not in it yet. */
  add(key: ExportDataKey, value: V): void {
    this.#byHash.set(key.hash, { key, value, next: this.#byHash.get(key.hash) });
  }

  delete(key: ExportDataKey): void {
    const first = this.#byHash.get(key.hash);
    if (first === undefined) return;
    if (areEqual(first.key, key)) {
      if (first.next === undefined) this.#byHash.delete(key.hash);
      else this.#byHash.set(key.hash, first.next);
      return;
    }
    let before = first;
    while (before.next !== undefined && !areEqual(before.next.key, key)) before = before.next;
    before.next = before.next?.next;
  }
}

function areEqual(one: ExportDataKey, other: ExportDataKey): boolean {
  for (let index = 0; index < words.length; index++) {
    if (one.words[index] !== other.words[index]) return false;
  }
  return true;
}
