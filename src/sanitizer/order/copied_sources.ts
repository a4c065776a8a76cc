/**
 * Finds changes of page-locked memory that a pending copy may still read.
 *
 * Writes by the program itself cannot be observed. So the content of the source is saved when the copy is enqueued, and
 * compared when the program learns that the copy is complete.
 *
 * @module
 */
import { isBefore, type Operation, type Point } from "./timelines.ts";

/** The source of a copy that may be pending, with the operation and the saved content. */
interface CopiedSource {
  readonly operation: Operation;
  readonly source: Uint8Array;
  /** The content of the source when the copy was enqueued. */
  readonly copy: Uint8Array;
}

/** A range of a buffer. */
type BufferRange = Pick<Uint8Array, "buffer" | "byteOffset" | "byteLength">;

/** Bytes of a copy's source that the program changed while the copy could still read them. */
export interface EarlyChange {
  readonly operation: Operation;
  readonly buffer: ArrayBufferLike;
  /** The first changed byte, as an offset in the copy's source. */
  readonly begin: number;
  /** The end of the last changed byte, as an offset in the copy's source. */
  readonly end: number;
  readonly byteLength: number;
}

/** The sources of copies that may be pending, to detect changes by the program. */
export class CopiedSources {
  readonly #pending = new Set<CopiedSource>();

  /** Whether all copies are known to be complete. */
  get isEmpty(): boolean {
    return this.#pending.size === 0;
  }

  /** Saves the content of the source of an enqueued copy. */
  add(operation: Operation, source: Uint8Array): void {
    // If the source of another pending copy is the same and unchanged, share its saved content.
    const same = [...this.#pending].findLast((other) => isSameRange(other.source, source));
    const isUnchanged = same !== undefined && firstDifference(source, same.copy) < 0;
    this.#pending.add({ operation, source, copy: isUnchanged ? same.copy : source.slice() });
  }

  /**
   * Removes the sources of copies that are ordered before a point. Returns the changes that the program has made to
   * them.
   */
  changesBefore(point: Point): EarlyChange[] {
    return this.#remove(({ operation }) => isBefore(operation, point));
  }

  /**
   * Removes the sources in memory that another operation is about to write. Returns the changes that the program has
   * made to them.
   */
  changesIn(memory: Uint8Array): EarlyChange[] {
    return this.#remove(({ source }) => overlap(source, memory));
  }

  /** Drops the sources in a range that another operation has written, without checking them for changes. */
  forget(range: BufferRange): void {
    for (const each of this.#pending) if (overlap(each.source, range)) this.#pending.delete(each);
  }

  #remove(isWanted: (source: CopiedSource) => boolean): EarlyChange[] {
    const changes: EarlyChange[] = [];
    for (const each of this.#pending) {
      if (!isWanted(each)) continue;
      this.#pending.delete(each);
      const { operation, source, copy } = each;
      // Skip a detached buffer, which has no bytes to compare.
      const begin = source.length < copy.length ? -1 : firstDifference(source, copy);
      if (begin < 0) continue;
      const end = source.findLastIndex((byte, index) => byte !== copy[index]) + 1;
      changes.push({ operation, buffer: source.buffer, begin, end, byteLength: copy.length });
    }
    return changes;
  }
}

function overlap(a: BufferRange, b: BufferRange): boolean {
  return a.buffer === b.buffer && a.byteOffset < b.byteOffset + b.byteLength &&
    b.byteOffset < a.byteOffset + a.byteLength;
}

function isSameRange(a: Uint8Array, b: Uint8Array): boolean {
  return a.buffer === b.buffer && a.byteOffset === b.byteOffset && a.byteLength === b.byteLength;
}

/** Returns the index of the first byte that differs, or -1. */
function firstDifference(a: Uint8Array, b: Uint8Array): number {
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return index;
  return -1;
}
