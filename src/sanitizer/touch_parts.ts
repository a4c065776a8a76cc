/**
 * The parts of accesses in which several instructions take turns, for reports, which name one each.
 *
 * @module
 */
import type { AccessParts } from "../driver.ts";
import type { Conflict, Touch } from "./memory_history.ts";

/** More parts than these are not looked at: they are mostly by the same instructions again. */
const mostParts = 1024;

/** Parts that are counted from elsewhere: by so much further on. */
export function movedParts({ period, of }: AccessParts, by: number): AccessParts {
  return {
    period,
    *of(begin, end) {
      for (const part of of(begin - by, end - by)) yield { ...part, begin: part.begin + by, end: part.end + by };
    },
  };
}

/** An access, or its parts that have any of some bytes, each instruction's first. */
export function* partsOfTouch(
  touch: Touch,
  { begin, end }: { readonly begin: number; readonly end: number } = firstPeriod(touch),
): Generator<Touch> {
  const { parts } = touch;
  if (parts === undefined) return yield touch;
  let left = mostParts;
  for (const { source, first, ...bytes } of parts.of(begin, end)) {
    if (left-- === 0) return;
    const isWhole = bytes.begin >= touch.begin;
    yield {
      ...touch,
      begin: Math.max(bytes.begin, touch.begin),
      end: Math.min(bytes.end, touch.end),
      source,
      first: isWhole ? first : undefined,
      parts: undefined,
    };
  }
}

function firstPeriod({ begin, end, parts }: Touch): { begin: number; end: number } {
  return { begin, end: Math.min(end, begin + (parts?.period ?? Infinity)) };
}

/** A conflict, or those of the parts of its accesses: the first of each two instructions. */
export function* partsOfConflict({ later, earlier, begin, end }: Conflict): Generator<Conflict> {
  // What follows is by the same instructions again.
  const last = Math.min(end, begin + leastMultiple(later.parts?.period ?? 1, earlier.parts?.period ?? 1));
  const bytes = later.parts === undefined && earlier.parts === undefined ? { begin, end } : { begin, end: last };
  for (const one of partsOfTouch(later, bytes)) {
    const common = { begin: Math.max(begin, one.begin), end: Math.min(end, one.end) };
    for (const other of partsOfTouch(earlier, common)) {
      const from = Math.max(common.begin, other.begin), to = Math.min(common.end, other.end);
      if (from < to) yield { later: one, earlier: other, begin: from, end: to };
    }
  }
}

function leastMultiple(a: number, b: number): number {
  let [divisor, rest] = [a, b];
  while (rest !== 0) [divisor, rest] = [rest, divisor % rest];
  return a / divisor * b;
}
