/**
 * The page-locked memory that copies read later: a program must not change it before they are done.
 *
 * Changes by the program itself are not seen, but found: whatever differs, when the program learns that a copy is done,
 * from what the memory held when the copy was asked for.
 *
 * @module
 */
import { isBefore, type Operation, type Point } from "./timelines.ts";

/** A copy that may not be done. */
interface CopiedSource {
  readonly operation: Operation;
  readonly source: Uint8Array;
  /** What the source held. */
  readonly copy: Uint8Array;
}

/** A range of a buffer. */
type BufferRange = Pick<Uint8Array, "buffer" | "byteOffset" | "byteLength">;

/** Bytes that were changed too early. */
export interface EarlyChange {
  readonly operation: Operation;
  readonly buffer: ArrayBufferLike;
  /** Offsets of the first changed byte in the source, and of the byte behind the last one. */
  readonly begin: number;
  readonly end: number;
  readonly byteLength: number;
}

/** The sources of copies that may not be done. */
export class CopiedSources {
  readonly #pending = new Set<CopiedSource>();

  /** Whether all copies are done. */
  get isEmpty(): boolean {
    return this.#pending.size === 0;
  }

  /** Adds a copy. */
  add(operation: Operation, source: Uint8Array): void {
    // A source that is copied again and again is kept once.
    const same = [...this.#pending].findLast((other) => isSameRange(other.source, source));
    const isUnchanged = same !== undefined && firstDifference(source, same.copy) < 0;
    this.#pending.add({ operation, source, copy: isUnchanged ? same.copy : source.slice() });
  }

  /** Compares the sources of the copies that are known to be done at some point. */
  changesBefore(point: Point): EarlyChange[] {
    return this.#take(({ operation }) => isBefore(operation, point));
  }

  /** Compares the sources in some memory, which something else is about to write. */
  changesIn(memory: Uint8Array): EarlyChange[] {
    return this.#take(({ source }) => overlap(source, memory));
  }

  /** Forgets the sources in a range of a buffer, which something else has written. */
  forget(range: BufferRange): void {
    for (const each of this.#pending) if (overlap(each.source, range)) this.#pending.delete(each);
  }

  #take(isWanted: (source: CopiedSource) => boolean): EarlyChange[] {
    const changes: EarlyChange[] = [];
    for (const each of this.#pending) {
      if (!isWanted(each)) continue;
      this.#pending.delete(each);
      const { operation, source, copy } = each;
      // The memory of a detached buffer is gone.
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

/** The index of the first byte that differs, or -1. */
function firstDifference(a: Uint8Array, b: Uint8Array): number {
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return index;
  return -1;
}
