/**
 * The parts of interleaved accesses, for reports, which name one instruction each.
 *
 * @module
 */
import type { AccessParts } from "../kernel_checker.ts";
import type { Conflict, Touch } from "./memory_history.ts";

interface Bytes {
  readonly begin: number;
  readonly end: number;
}

/** The parts of an access that are looked at. With more instructions than that, some are left out of the reports. */
const mostParts = 1024;

/** The same parts, with all offsets shifted. */
export function shiftedParts({ period, of }: AccessParts, by: number): AccessParts {
  return {
    period,
    *of(begin, end) {
      for (const part of of(begin - by, end - by)) yield { ...part, begin: part.begin + by, end: part.end + by };
    },
  };
}

/** An access, or its parts that overlap a range: by default, as many as each instruction has one. */
export function* partsOfTouch(touch: Touch, { begin, end }: Bytes = firstPeriod(touch)): Generator<Touch> {
  const { parts } = touch;
  if (parts === undefined) return yield touch;
  let left = mostParts;
  for (const { source, first, ...bytes } of parts.of(begin, end)) {
    if (left-- === 0) return;
    yield {
      ...touch,
      begin: Math.max(bytes.begin, touch.begin),
      end: Math.min(bytes.end, touch.end),
      source,
      first: bytes.begin >= touch.begin ? first : undefined,
      parts: undefined,
    };
  }
}

/** A conflict, or a conflict for each two instructions whose parts overlap. */
export function* partsOfConflict(conflict: Conflict): Generator<Conflict> {
  const { later, earlier, begin, end } = conflict;
  if (later.parts === undefined && earlier.parts === undefined) return yield conflict;
  // Behind that, the same instructions meet again.
  const last = Math.min(end, begin + leastCommonMultiple(later.parts?.period ?? 1, earlier.parts?.period ?? 1));
  for (const one of partsOfTouch(later, { begin, end: last })) {
    const common = {
      begin: Math.max(begin, one.begin),
      end: Math.min(later.parts === undefined ? last : end, one.end),
    };
    for (const other of partsOfTouch(earlier, common)) {
      const from = Math.max(common.begin, other.begin), to = Math.min(common.end, other.end);
      if (from < to) yield { later: one, earlier: other, begin: from, end: to };
    }
  }
}

/** The place in the source of an access, if all of its parts have the same. */
export function sourceOfAll(touch: Pick<Touch, "begin" | "end" | "source" | "parts">): string | undefined {
  const { source, parts } = touch;
  if (parts === undefined) return source;
  const { begin, end } = firstPeriod(touch);
  for (const part of parts.of(begin, end)) if (part.source !== source) return undefined;
  return source;
}

function firstPeriod({ begin, end, parts }: Pick<Touch, "begin" | "end" | "parts">): Bytes {
  return { begin, end: Math.min(end, begin + (parts?.period ?? Infinity)) };
}

function leastCommonMultiple(a: number, b: number): number {
  let [divisor, rest] = [a, b];
  while (rest !== 0) [divisor, rest] = [rest, divisor % rest];
  return a / divisor * b;
}
