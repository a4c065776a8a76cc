/**
 * The shadow state of allocations: which operations have accessed which bytes, as far as later operations can conflict
 * with them.
 *
 * Each byte has its last write, and for each timeline the last read and the last atomic access since that write. As in
 * FastTrack, that is enough: an access ordered after a timeline's last access is also ordered after its earlier ones.
 * Neighbouring bytes with the same accesses form one segment. Interleaved accesses of several instructions, as to the
 * fields of structs in an array, are one access here, which is split into parts for reports.
 *
 * @see Cormac Flanagan and Stephen N. Freund, "FastTrack: Efficient and Precise Dynamic Race Detection" (2009)
 *
 * @module
 */
import type { AccessParts, ThreadIndex } from "../kernel_checker.ts";
import { isBefore, type Operation, type Timeline } from "./order/timelines.ts";

/** An access to some bytes of an allocation. */
export interface TrackedAccess {
  readonly operation: Operation;
  readonly kind: "read" | "write" | "atomic";
  /** The first accessed byte, as an offset in the allocation. */
  readonly begin: number;
  /** The end of the last accessed byte, as an offset in the allocation. */
  readonly end: number;
  /** The line of the kernel's source that makes the access. */
  readonly source?: string | undefined;
  /** The thread that accesses the byte at `begin`. */
  readonly first?: ThreadIndex | undefined;
  /**
   * If several source lines make the access, the bytes that each of them accesses. Offsets are relative to the start of
   * the allocation.
   */
  readonly parts?: AccessParts | undefined;
  /** Whether the accessed bytes are unknown, so that the access may be anywhere in the allocation or may not happen. */
  readonly isPossible?: true;
}

/** Two unordered accesses to the same bytes that are not both reads or both atomic. */
export interface Conflict {
  readonly later: TrackedAccess;
  readonly earlier: TrackedAccess;
  /** The first byte that both accesses have in common, as an offset in the allocation. */
  readonly begin: number;
  /** The end of the last byte that both accesses have in common, as an offset in the allocation. */
  readonly end: number;
}

/** A range of bytes that have the same history: the last write, and the reads and atomic accesses since then. */
interface Segment {
  readonly begin: number;
  readonly end: number;
  readonly write: TrackedAccess | undefined;
  /** For each timeline, the last read since `write`. */
  readonly reads: readonly TrackedAccess[];
  /** For each timeline, the last atomic access since `write`. */
  readonly atomics: readonly TrackedAccess[];
}

/** The maximum number of segments passed to `splice` as arguments: JavaScript engines limit the number of arguments. */
const maximumArguments = 1000;
const none: readonly TrackedAccess[] = [];

/** The shadow state of one allocation: the latest accesses to each byte. */
export class MemoryHistory {
  /** The segments, sorted by offset and contiguous. */
  #segments: Segment[];

  /** @param byteLength the size of the allocation in bytes */
  constructor(byteLength: number) {
    this.#segments = [{ begin: 0, end: byteLength, write: undefined, reads: none, atomics: none }];
  }

  /** Returns an independent copy. */
  copy(): MemoryHistory {
    const copy = new MemoryHistory(0);
    copy.#segments = [...this.#segments];
    return copy;
  }

  /** Adds an access. Returns the access's conflicts with earlier accesses. */
  add(access: TrackedAccess): Conflict[] {
    const first = this.#indexOf(access.begin);
    const conflicts: Conflict[] = [];
    const { begin, end } = access;
    const same = this.#segments[first]!;
    // Fast path: the access covers exactly one segment, since programs mostly repeat accesses to the same ranges.
    if (same.begin === begin && same.end === end && begin < end) {
      for (const earlier of conflicting(same, access)) conflicts.push({ later: access, earlier, begin, end });
      this.#segments[first] = after(same, access);
      return conflicts;
    }
    const replaced: Segment[] = [];
    let index = first;
    for (; index < this.#segments.length && this.#segments[index]!.begin < access.end; index++) {
      const segment = this.#segments[index]!;
      const begin = Math.max(segment.begin, access.begin), end = Math.min(segment.end, access.end);
      if (segment.begin < begin) replaced.push({ ...segment, end: begin });
      for (const earlier of conflicting(segment, access)) conflicts.push({ later: access, earlier, begin, end });
      replaced.push({ ...after(segment, access), begin, end });
      if (end < segment.end) replaced.push({ ...segment, begin: end });
    }
    const inserted = mergeNeighbours(replaced);
    // A kernel may produce too many segments to pass them to `splice` as arguments.
    if (inserted.length <= maximumArguments) this.#segments.splice(first, index - first, ...inserted);
    else this.#segments = this.#segments.slice(0, first).concat(inserted, this.#segments.slice(index));
    return conflicts;
  }

  /**
   * Returns the conflicts of an access with earlier accesses, at most one for each earlier access. Does not add the
   * access.
   */
  conflictsWith(access: TrackedAccess): Conflict[] {
    const found = new Map<TrackedAccess, Conflict>();
    for (const segment of this.#segments) {
      const begin = Math.max(segment.begin, access.begin), end = Math.min(segment.end, access.end);
      if (begin >= end) continue;
      for (const earlier of conflicting(segment, access)) found.set(earlier, { later: access, earlier, begin, end });
    }
    return [...found.values()];
  }

  /** Returns, for all bytes of a range, the last writes and the accesses since the last write, clipped to the range. */
  accessesIn(begin: number, end: number): TrackedAccess[] {
    const found: TrackedAccess[] = [];
    for (let index = this.#indexOf(begin); index < this.#segments.length; index++) {
      const segment = this.#segments[index]!;
      if (segment.begin >= end) break;
      const bytes = { begin: Math.max(begin, segment.begin), end: Math.min(end, segment.end) };
      const { write, reads, atomics } = segment;
      for (const access of [...write === undefined ? [] : [write], ...reads, ...atomics]) {
        const last = found.findLast(({ operation, kind }) => operation === access.operation && kind === access.kind);
        // Merge adjacent accesses of the same operation: a kernel that accesses every other byte splits the segments.
        if (last?.end === bytes.begin) found[found.indexOf(last)] = { ...last, end: bytes.end };
        else found.push({ ...access, ...bytes });
      }
    }
    return found;
  }

  /** Returns all recorded accesses that are not ordered before an operation. */
  unorderedWith(operation: Operation): readonly TrackedAccess[] {
    const write = { operation, kind: "write" } as const;
    // Fast path: all accesses were to the entire allocation.
    if (this.#segments.length === 1) return conflicting(this.#segments[0]!, write);
    return [...new Set(this.#segments.flatMap((segment) => conflicting(segment, write)))];
  }

  /** Returns the accesses of all segments that overlap a range, including the bytes outside of the range. */
  latestIn(begin: number, end: number): TrackedAccess[] {
    const overlapping = this.#segments.filter((segment) => segment.begin < end && begin < segment.end);
    return overlapping.flatMap(({ write, reads, atomics }) => [
      ...write === undefined ? [] : [write],
      ...reads,
      ...atomics,
    ]);
  }

  /** Returns the index of the segment that contains an offset. */
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

/**
 * Returns whether two accesses to the same bytes conflict: they are unordered, and they are not both reads or both
 * atomic.
 */
export function isConflict(earlier: TrackedAccess, later: TrackedAccess): boolean {
  const isHarmless = earlier.kind === later.kind && earlier.kind !== "write";
  return !isHarmless && !isBefore(earlier.operation, later.operation);
}

/** Returns the accesses of a segment that conflict with a later access. */
function conflicting(
  { write, reads, atomics }: Segment,
  { operation, kind }: Pick<TrackedAccess, "operation" | "kind">,
): readonly TrackedAccess[] {
  const found: TrackedAccess[] = [];
  if (write !== undefined && !isBefore(write.operation, operation)) found.push(write);
  if (kind !== "read") addUnordered(reads, operation, found);
  if (kind !== "atomic") addUnordered(atomics, operation, found);
  return found;
}

function addUnordered(accesses: readonly TrackedAccess[], operation: Operation, found: TrackedAccess[]): void {
  for (const access of accesses) if (!isBefore(access.operation, operation)) found.push(access);
}

/** Returns the new state of a segment after an access that covers the whole segment. */
function after({ begin, end, write, reads, atomics }: Segment, access: TrackedAccess): Segment {
  switch (access.kind) {
    case "write":
      return { begin, end, write: access, reads: none, atomics: none };
    case "read":
      return { begin, end, write, reads: withLatest(reads, access), atomics };
    case "atomic":
      return { begin, end, write, reads, atomics: withLatest(atomics, access) };
  }
}

/** Returns the list with an access added. The access replaces the list's last access of the same timeline. */
function withLatest(accesses: readonly TrackedAccess[], access: TrackedAccess): readonly TrackedAccess[] {
  if (accesses.length === 0) return [access];
  const timelineOf = ({ operation }: TrackedAccess): Timeline => operation.timeline;
  if (accesses.length === 1 && timelineOf(accesses[0]!) === timelineOf(access)) return [access];
  return [...accesses.filter((other) => timelineOf(other) !== timelineOf(access)), access];
}

/** Merges adjacent segments with equal lists of accesses. */
function mergeNeighbours(segments: readonly Segment[]): Segment[] {
  const result: Segment[] = [];
  for (const segment of segments) {
    const last = result.at(-1);
    if (
      last !== undefined && last.end === segment.begin && last.write === segment.write &&
      areSame(last.reads, segment.reads) && areSame(last.atomics, segment.atomics)
    ) {
      result[result.length - 1] = { ...last, end: segment.end };
    } else {
      result.push(segment);
    }
  }
  return result;
}

function areSame(a: readonly TrackedAccess[], b: readonly TrackedAccess[]): boolean {
  return a.length === b.length && a.every((access, index) => access === b[index]);
}

/** The accesses of kernel launches at unknown addresses: an access may be anywhere in its allocation, or not happen. */
export class PossibleAccesses {
  /** For each timeline and kind of access, the last possible access. */
  #accesses: TrackedAccess[] = [];

  /** Returns an independent copy. */
  copy(): PossibleAccesses {
    const copy = new PossibleAccesses();
    copy.#accesses = [...this.#accesses];
    return copy;
  }

  /**
   * Adds a possible access. Returns the conflicts with earlier possible accesses and with the accesses in `history`.
   */
  add(access: TrackedAccess, history: MemoryHistory): Conflict[] {
    const conflicts = [...history.conflictsWith(access), ...this.conflictsWith(access)];
    this.#accesses = this.#accesses.filter(({ kind, operation }) =>
      kind !== access.kind || operation.timeline !== access.operation.timeline
    );
    this.#accesses.push(access);
    return conflicts;
  }

  /** Returns the conflicts of a later access with the possible accesses. */
  conflictsWith(later: TrackedAccess): Conflict[] {
    return this.#accesses.filter((earlier) => isConflict(earlier, later)).map((earlier) => {
      return { later, earlier, begin: later.begin, end: later.end };
    });
  }

  /** Returns the possible accesses that are not ordered before an operation. */
  unorderedWith(operation: Operation): TrackedAccess[] {
    return this.#accesses.filter((access) => !isBefore(access.operation, operation));
  }
}

interface Bytes {
  readonly begin: number;
  readonly end: number;
}

/** The maximum number of parts that `partsOfAccess` yields for an access. */
const maximumParts = 1024;

/** Returns a copy of the parts with `by` bytes added to all offsets. */
export function shiftedParts({ period, of }: AccessParts, by: number): AccessParts {
  return {
    period,
    *of(begin, end) {
      for (const part of of(begin - by, end - by)) yield { ...part, begin: part.begin + by, end: part.end + by };
    },
  };
}

/**
 * Yields the parts of an access that overlap a range, or the access itself if it has no parts. By default, the range is
 * the first period of the repeating access pattern.
 */
export function* partsOfAccess(
  access: TrackedAccess,
  { begin, end }: Bytes = firstPeriod(access),
): Generator<TrackedAccess> {
  const { parts } = access;
  if (parts === undefined) return yield access;
  let left = maximumParts;
  for (const { source, first, ...bytes } of parts.of(begin, end)) {
    if (left-- === 0) return;
    yield {
      ...access,
      begin: Math.max(bytes.begin, access.begin),
      end: Math.min(bytes.end, access.end),
      source,
      first: bytes.begin >= access.begin ? first : undefined,
      parts: undefined,
    };
  }
}

/**
 * Yields a conflict for each pair of overlapping parts of the two accesses, or the conflict itself if neither has
 * parts.
 */
export function* partsOfConflict(conflict: Conflict): Generator<Conflict> {
  const { later, earlier, begin, end } = conflict;
  if (later.parts === undefined && earlier.parts === undefined) return yield conflict;
  // The combined access pattern repeats after the least common multiple of the two periods.
  const last = Math.min(end, begin + leastCommonMultiple(later.parts?.period ?? 1, earlier.parts?.period ?? 1));
  for (const one of partsOfAccess(later, { begin, end: last })) {
    const common = {
      begin: Math.max(begin, one.begin),
      end: Math.min(later.parts === undefined ? last : end, one.end),
    };
    for (const other of partsOfAccess(earlier, common)) {
      const from = Math.max(common.begin, other.begin), to = Math.min(common.end, other.end);
      if (from < to) yield { later: one, earlier: other, begin: from, end: to };
    }
  }
}

/** Returns the source line of an access, or undefined if its parts have different lines. */
export function sourceOfAll(access: Pick<TrackedAccess, "begin" | "end" | "source" | "parts">): string | undefined {
  const { source, parts } = access;
  if (parts === undefined) return source;
  const { begin, end } = firstPeriod(access);
  for (const part of parts.of(begin, end)) if (part.source !== source) return undefined;
  return source;
}

function firstPeriod({ begin, end, parts }: Pick<TrackedAccess, "begin" | "end" | "parts">): Bytes {
  return { begin, end: Math.min(end, begin + (parts?.period ?? Infinity)) };
}

function leastCommonMultiple(a: number, b: number): number {
  let [divisor, rest] = [a, b];
  while (rest !== 0) [divisor, rest] = [rest, divisor % rest];
  return a / divisor * b;
}
