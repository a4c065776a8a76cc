/**
 * Splits interleaved accesses, which several instructions make, into parts for reports, which name one instruction each.
 *
 * @module
 */
import type { AccessParts } from "../kernel_checker.ts";
import type { Conflict, TrackedAccess } from "./memory_history.ts";

interface Bytes {
  readonly begin: number;
  readonly end: number;
}

/** The most parts of an access that are reported. */
const maximumParts = 1024;

/** The same parts, with all offsets shifted. */
export function shiftedParts({ period, of }: AccessParts, by: number): AccessParts {
  return {
    period,
    *of(begin, end) {
      for (const part of of(begin - by, end - by)) yield { ...part, begin: part.begin + by, end: part.end + by };
    },
  };
}

/** The parts of an access that overlap a range, by default the first part of each instruction; or the access itself. */
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

/** A conflict of each pair of instructions whose parts overlap; or the conflict itself. */
export function* partsOfConflict(conflict: Conflict): Generator<Conflict> {
  const { later, earlier, begin, end } = conflict;
  if (later.parts === undefined && earlier.parts === undefined) return yield conflict;
  // The pattern of instructions repeats after the least common multiple of the periods.
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

/** The source line of an access, if all of its parts have the same. */
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
