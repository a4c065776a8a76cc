/**
 * Which operations have accessed which bytes of an allocation, as far as later operations may conflict with them.
 *
 * @module
 */
import type { AccessParts, ThreadIndex } from "../kernel_checker.ts";
import { isBefore, type Operation, type Timeline } from "./order/timelines.ts";

/** An access to some bytes of an allocation. */
export interface Touch {
  readonly operation: Operation;
  readonly access: "read" | "write" | "atomic";
  /** Offsets in the allocation, in bytes. */
  readonly begin: number;
  readonly end: number;
  /** Where in the kernel. */
  readonly source?: string | undefined;
  /** Who accesses the first of the bytes. */
  readonly first?: ThreadIndex | undefined;
  /** Which instruction accesses which of the bytes, if there are several. Offsets are in the allocation, too. */
  readonly parts?: AccessParts | undefined;
  /** Whether it may be elsewhere in the allocation, or not be at all. */
  readonly isPossible?: true;
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
const nothing: readonly Touch[] = [];

/** The accesses to an allocation. */
export class MemoryHistory {
  /** In the order of their offsets, without gaps. */
  #segments: Segment[];

  /** @param byteLength of the allocation */
  constructor(byteLength: number) {
    this.#segments = [{ begin: 0, end: byteLength, write: undefined, reads: nothing, atomics: nothing }];
  }

  /** The same accesses. What is added to either later is not in the other. */
  copy(): MemoryHistory {
    const copy = new MemoryHistory(0);
    copy.#segments = [...this.#segments];
    return copy;
  }

  /** Adds an access, and returns its conflicts with those before. */
  add(touch: Touch): Conflict[] {
    const first = this.#indexOf(touch.begin);
    const conflicts: Conflict[] = [];
    const { begin, end } = touch;
    const same = this.#segments[first]!;
    // The same pieces are accessed again and again, which does not divide them.
    if (same.begin === begin && same.end === end && begin < end) {
      for (const earlier of conflicting(same, touch)) conflicts.push({ later: touch, earlier, begin, end });
      this.#segments[first] = after(same, touch);
      return conflicts;
    }
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

  /** The conflicts of an access with those before. Each two accesses are listed once. */
  conflictsWith(touch: Touch): Conflict[] {
    const found = new Map<Touch, Conflict>();
    for (const segment of this.#segments) {
      const begin = Math.max(segment.begin, touch.begin), end = Math.min(segment.end, touch.end);
      if (begin >= end) continue;
      for (const earlier of conflicting(segment, touch)) found.set(earlier, { later: touch, earlier, begin, end });
    }
    return [...found.values()];
  }

  /** The accesses to some bytes since their last write, each with those of its bytes that are among them. */
  touches(begin: number, end: number): Touch[] {
    const found: Touch[] = [];
    for (let index = this.#indexOf(begin); index < this.#segments.length; index++) {
      const segment = this.#segments[index]!;
      if (segment.begin >= end) break;
      const bytes = { begin: Math.max(begin, segment.begin), end: Math.min(end, segment.end) };
      const { write, reads, atomics } = segment;
      for (const touch of [...write === undefined ? [] : [write], ...reads, ...atomics]) {
        const last = found.findLast(({ operation, access }) =>
          operation === touch.operation && access === touch.access
        );
        // A kernel that accesses every other byte leaves many.
        if (last?.end === bytes.begin) found[found.indexOf(last)] = { ...last, end: bytes.end };
        else found.push({ ...touch, ...bytes });
      }
    }
    return found;
  }

  /** All accesses that are not known to come before an operation. */
  unfinished(operation: Operation): readonly Touch[] {
    const write = { operation, access: "write" } as const;
    // Most memory is accessed as a whole.
    if (this.#segments.length === 1) return conflicting(this.#segments[0]!, write);
    return [...new Set(this.#segments.flatMap((segment) => conflicting(segment, write)))];
  }

  /** The last accesses to some bytes. */
  within(begin: number, end: number): Touch[] {
    const overlapping = this.#segments.filter((segment) => segment.begin < end && begin < segment.end);
    return overlapping.flatMap(({ write, reads, atomics }) => [
      ...write === undefined ? [] : [write],
      ...reads,
      ...atomics,
    ]);
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

/** Whether two accesses to the same bytes may happen at the same time, and must not. */
export function isConflict(earlier: Touch, later: Touch): boolean {
  const isHarmless = earlier.access === later.access && earlier.access !== "write";
  return !isHarmless && !isBefore(earlier.operation, later.operation);
}

/** The accesses that may happen at the same time as a later one, and must not. */
function conflicting(
  { write, reads, atomics }: Segment,
  { operation, access }: Pick<Touch, "operation" | "access">,
): readonly Touch[] {
  const found: Touch[] = [];
  if (write !== undefined && !isBefore(write.operation, operation)) found.push(write);
  if (access !== "read") addUnordered(reads, operation, found);
  if (access !== "atomic") addUnordered(atomics, operation, found);
  return found;
}

function addUnordered(touches: readonly Touch[], operation: Operation, found: Touch[]): void {
  for (const touch of touches) if (!isBefore(touch.operation, operation)) found.push(touch);
}

/** A segment after an access to all of it. */
function after({ begin, end, write, reads, atomics }: Segment, touch: Touch): Segment {
  switch (touch.access) {
    case "write":
      return { begin, end, write: touch, reads: nothing, atomics: nothing };
    case "read":
      return { begin, end, write, reads: withLast(reads, touch), atomics };
    case "atomic":
      return { begin, end, write, reads, atomics: withLast(atomics, touch) };
  }
}

/** The last touches of each timeline, and one more. */
function withLast(touches: readonly Touch[], touch: Touch): readonly Touch[] {
  if (touches.length === 0) return [touch];
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

/** Accesses that may be anywhere in an allocation, or nowhere. */
export class PossibleTouches {
  /** The last of each timeline and kind. */
  #touches: Touch[] = [];

  /** The same accesses. What is added to either later is not in the other. */
  copy(): PossibleTouches {
    const copy = new PossibleTouches();
    copy.#touches = [...this.#touches];
    return copy;
  }

  /** Adds one, and returns its conflicts with those before, the certain ones of the history included. */
  add(touch: Touch, history: MemoryHistory): Conflict[] {
    const conflicts = [...history.conflictsWith(touch), ...this.conflictsWith(touch)];
    this.#touches = this.#touches.filter(({ access, operation }) =>
      access !== touch.access || operation.timeline !== touch.operation.timeline
    );
    this.#touches.push(touch);
    return conflicts;
  }

  /** The conflicts of a later access with these. */
  conflictsWith(later: Touch): Conflict[] {
    return this.#touches.filter((earlier) => isConflict(earlier, later)).map((earlier) => {
      return { later, earlier, begin: later.begin, end: later.end };
    });
  }

  /** Those that are not known to come before an operation. */
  unfinished(operation: Operation): Touch[] {
    return this.#touches.filter((touch) => !isBefore(touch.operation, operation));
  }
}
