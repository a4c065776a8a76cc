/**
 * Finds the first thread of a launch that accesses given bytes.
 *
 * @module
 */
import { type AffineForm, constantForm, productOf, sumOf } from "./domain.ts";
import { type Budget, TooManyRanges } from "./covered_bytes.ts";
import type { CertainAccess } from "./thread_state.ts";

/** The part of the search space that is left: inclusive bounds in each dimension. */
interface Box {
  readonly low: number[];
  readonly high: number[];
}

/** The maximum number of passes over all constraints in a call of `tighten`. */
const mostRounds = 8;

/**
 * Returns the lexicographically first point of an access's domain at which the access touches a byte of a range.
 * Undefined if there is no such point.
 *
 * @param order the dimensions, most significant first; unlisted dimensions are the least significant ones
 * @throws {TooManyRanges} If the search exceeds the budget
 */
export function firstPoint(
  { form, byteLength, domain }: Pick<CertainAccess, "form" | "byteLength" | "domain">,
  { begin, end }: { readonly begin: number; readonly end: number },
  { order, budget }: { order: readonly number[]; budget: Budget },
): readonly number[] | undefined {
  const plain: AffineForm = { ...form, base: -1 };
  const from = sumOf(plain, constantForm(byteLength - 1 - begin));
  const negative = productOf(plain, -1);
  const to = negative && sumOf(negative, constantForm(end - 1));
  if (from === undefined || to === undefined) throw new TooManyRanges();
  const constraints = [from, to, ...domain.constraints];
  const all = [...order, ...domain.low.keys().filter((dimension) => !order.includes(dimension))];
  return search({ low: [...domain.low], high: [...domain.high] }, constraints, { order: all, budget });
}

function search(
  box: Box,
  constraints: readonly AffineForm[],
  { order, budget }: { order: readonly number[]; budget: Budget },
): readonly number[] | undefined {
  for (;;) {
    budget.spend(1);
    if (!tighten(box, constraints)) return undefined;
    const open = order.find((dimension) => box.low[dimension]! < box.high[dimension]!);
    if (open === undefined) return box.low;
    const value = box.low[open]!;
    if (!Number.isFinite(value)) throw new TooManyRanges();
    const part: Box = { low: [...box.low], high: box.high.with(open, value) };
    const found = search(part, constraints, { order, budget });
    if (found !== undefined) return found;
    box.low[open] = value + 1;
  }
}

/**
 * Tightens the bounds of a box by applying each constraint on its own. Returns false if no point of the box satisfies
 * them.
 */
function tighten({ low, high }: Box, constraints: readonly AffineForm[]): boolean {
  for (let round = 0, changed = true; changed && round < mostRounds; round++) {
    changed = false;
    for (const { terms, constant } of constraints) {
      let most = constant;
      for (let index = 0; index < terms.length; index++) {
        const term = terms[index]!;
        if (term !== 0) most += term * (term > 0 ? high : low)[index]!;
      }
      if (most < 0) return false;
      if (most === Infinity) continue;
      for (let index = 0; index < terms.length; index++) {
        const term = terms[index]!;
        if (term === 0) continue;
        // The maximum distance of this coordinate from its most favorable bound, if all other coordinates are at their
        // most favorable bounds.
        const slack = Math.floor(most / Math.abs(term));
        if (term > 0 && high[index]! - low[index]! > slack) {
          low[index] = high[index]! - slack;
          changed = true;
        } else if (term < 0 && high[index]! - low[index]! > slack) {
          high[index] = low[index]! + slack;
          changed = true;
        }
      }
    }
  }
  return low.every((value, index) => value <= high[index]!);
}
