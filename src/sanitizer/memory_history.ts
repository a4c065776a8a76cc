/**
 * Which operations have accessed which bytes of an allocation, as far as later operations may conflict with them.
 *
 * @module
 */
import type { Operation } from "./operation.ts";
import { isBefore, type Timeline } from "./timelines.ts";

/** An access to some bytes of an allocation. */
export interface Touch {
  readonly operation: Operation;
  readonly access: "read" | "write" | "atomic";
  /** Offsets in the allocation, in bytes. */
  readonly begin: number;
  readonly end: number;
  /** Where in the kernel. */
  readonly source?: string | undefined;
}

/** Two accesses to the same bytes that nothing orders. */
export interface Conflict {
  readonly later: Touch;
  readonly earlier: Touch;
  /** The bytes that both access. */
  readonly begin: number;
  readonly end: number;
}

/** The accesses to some bytes since the last write. */
interface Segment {
  readonly begin: number;
  readonly end: number;
  readonly write: Touch | undefined;
  /** The last of each timeline: what comes after it comes after those before, too. */
  readonly reads: readonly Touch[];
  readonly atomics: readonly Touch[];
}

const mostArguments = 1000;

/** The accesses to an allocation. */
export class MemoryHistory {
  /** In the order of their offsets, without gaps. */
  #segments: Segment[];

  /** @param byteLength of the allocation */
  constructor(byteLength: number) {
    this.#segments = [{ begin: 0, end: byteLength, write: undefined, reads: [], atomics: [] }];
  }

  /** Adds an access, and returns its conflicts with those before. */
  add(touch: Touch): Conflict[] {
    const first = this.#indexOf(touch.begin);
    const conflicts: Conflict[] = [];
    const replaced: Segment[] = [];
    let index = first;
    for (; index < this.#segments.length && this.#segments[index]!.begin < touch.end; index++) {
      const segment = this.#segments[index]!;
      const begin = Math.max(segment.begin, touch.begin), end = Math.min(segment.end, touch.end);
      if (segment.begin < begin) replaced.push({ ...segment, end: begin });
      for (const earlier of conflicting(segment, touch)) conflicts.push({ later: touch, earlier, begin, end });
      replaced.push({ ...after(segment, touch), begin, end });
      if (end < segment.end) replaced.push({ ...segment, begin: end });
    }
    const inserted = merged(replaced);
    // A kernel may leave more segments than a call takes arguments.
    if (inserted.length <= mostArguments) this.#segments.splice(first, index - first, ...inserted);
    else this.#segments = this.#segments.slice(0, first).concat(inserted, this.#segments.slice(index));
    return conflicts;
  }

  /** All accesses that are not known to come before an operation. */
  unfinished(operation: Operation): Touch[] {
    const found = new Set<Touch>();
    for (const { write, reads, atomics } of this.#segments) {
      for (const touch of [...write === undefined ? [] : [write], ...reads, ...atomics]) {
        if (!isBefore(touch.operation, operation)) found.add(touch);
      }
    }
    return [...found];
  }

  /** The index of the segment that has an offset. */
  #indexOf(offset: number): number {
    let low = 0, high = this.#segments.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#segments[middle]!.end <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The accesses that may happen at the same time as a later one, and must not. */
function conflicting({ write, reads, atomics }: Segment, { operation, access }: Touch): Touch[] {
  const candidates = [
    ...write === undefined ? [] : [write],
    ...access === "read" ? [] : reads,
    ...access === "atomic" ? [] : atomics,
  ];
  return candidates.filter((earlier) => !isBefore(earlier.operation, operation));
}

/** A segment after an access to all of it. */
function after(segment: Segment, touch: Touch): Segment {
  switch (touch.access) {
    case "write":
      return { ...segment, write: touch, reads: [], atomics: [] };
    case "read":
      return { ...segment, reads: withLast(segment.reads, touch) };
    case "atomic":
      return { ...segment, atomics: withLast(segment.atomics, touch) };
  }
}

/** The last touches of each timeline, and one more. */
function withLast(touches: readonly Touch[], touch: Touch): readonly Touch[] {
  const timelineOf = ({ operation }: Touch): Timeline => operation.timeline;
  if (touches.length === 1 && timelineOf(touches[0]!) === timelineOf(touch)) return [touch];
  return [...touches.filter((other) => timelineOf(other) !== timelineOf(touch)), touch];
}

/** Joins neighbours that were accessed by the same. */
function merged(segments: readonly Segment[]): Segment[] {
  const result: Segment[] = [];
  for (const segment of segments) {
    const last = result.at(-1);
    if (
      last !== undefined && last.end === segment.begin && last.write === segment.write &&
      isSame(last.reads, segment.reads) && isSame(last.atomics, segment.atomics)
    ) {
      result[result.length - 1] = { ...last, end: segment.end };
    } else {
      result.push(segment);
    }
  }
  return result;
}

function isSame(a: readonly Touch[], b: readonly Touch[]): boolean {
  return a.length === b.length && a.every((touch, index) => touch === b[index]);
}
