/**
 * Computes the exact bytes that all threads of a domain access at an affine address.
 *
 * @module
 */
import { type AffineForm, type Domain, greatestDivisor, simplified } from "./domain.ts";

/** A byte range, from `begin` up to, but not including, `end`. */
export interface ByteRange {
  readonly begin: number;
  readonly end: number;
}

/** An arithmetic progression of `count` values, from `first` in steps of `step`, which may be negative. */
interface Progression {
  readonly first: number;
  readonly step: number;
  readonly count: number;
}

/**
 * A group of dimensions with a common weighted sum: each affine form depends on the coordinates in these dimensions
 * only through a multiple of that sum.
 */
interface Group {
  /** The dimensions of the group, and the weight (`factor`) of each dimension's coordinate in the weighted sum. */
  readonly members: { readonly dimension: number; readonly factor: number }[];
  /** For each affine form, the factor by which the form multiplies the weighted sum. */
  readonly factors: readonly number[];
}

/** Thrown if listing ranges exceeds the budget of an analysis. */
export class TooManyRanges extends Error {}

/** A limit on the number of steps that an analysis may take. */
export class Budget {
  #left: number;

  constructor(steps: number) {
    this.#left = steps;
  }

  /**
   * Subtracts steps from the budget.
   *
   * @throws {TooManyRanges} If fewer steps are left
   */
  spend(steps: number): void {
    if (!(steps <= this.#left)) throw new TooManyRanges();
    this.#left -= steps;
  }
}

/**
 * Returns the bytes that an access covers over all points of a domain, as offsets from the access's base. The returned
 * ranges may overlap.
 *
 * @throws {TooManyRanges} If there are more ranges than the budget allows
 */
export function coveredBytes(
  { form, byteLength, domain }: { form: AffineForm; byteLength: number; domain: Domain },
  budget: Budget,
): ByteRange[] {
  budget.spend(1);
  const [address, ...constraints] = [form, ...domain.constraints].map((each) => simplified(each, domain));
  for (const { terms, constant } of constraints) if (terms.length === 0 && constant < 0) return [];
  const forms = [address!, ...constraints.filter(({ terms }) => terms.length > 0)];
  const groups = groupsOf(forms);
  const steps: Progression[] = [];
  for (const group of groups) {
    const inConstraints = forms.keys().filter((index) => index > 0 && group.factors[index] !== 0).toArray();
    if (inConstraints.length === 0) {
      for (const { dimension, factor } of group.members) {
        steps.push(scaled(coordinates(domain, dimension), factor * group.factors[0]!));
      }
      continue;
    }
    const sum = inConstraints.every((index) => isAlone(group, forms[index]!)) ? sumOf(group, domain) : undefined;
    if (sum === undefined) {
      const dimension = smallest(groups, forms, domain);
      return eachValue(domain, dimension).flatMap((part) => coveredBytes({ form, byteLength, domain: part }, budget));
    }
    const cut = inConstraints.reduce((sum, index) => cutBy(sum, group.factors[index]!, forms[index]!.constant), sum);
    if (cut.count <= 0) return [];
    steps.push(scaled(cut, group.factors[0]!));
  }
  return blocksOf(address!.constant, byteLength, steps, budget);
}

/**
 * Groups the dimensions whose terms have the same ratios in all affine forms, so that a single weighted sum of their
 * coordinates can replace them.
 */
function groupsOf(forms: readonly AffineForm[]): Group[] {
  const groups: Group[] = [];
  const count = Math.max(...forms.map(({ terms }) => terms.length));
  for (let dimension = 0; dimension < count; dimension++) {
    const column = forms.map(({ terms }) => terms[dimension] ?? 0);
    const divisor = column.reduce(greatestDivisor, 0);
    if (divisor === 0) continue;
    const sign = column.find((term) => term !== 0)! < 0 ? -1 : 1;
    const factors = column.map((term) => term / (divisor * sign));
    const known = groups.find((group) => group.factors.every((factor, index) => factor === factors[index]));
    const member = { dimension, factor: divisor * sign };
    if (known === undefined) groups.push({ members: [member], factors });
    else known.members.push(member);
  }
  return groups;
}

/** Returns whether an affine form depends only on dimensions of the given group. */
function isAlone({ members }: Group, { terms }: AffineForm): boolean {
  return terms.every((term, index) => term === 0 || members.some(({ dimension }) => dimension === index));
}

function coordinates({ low, high }: Domain, dimension: number): Progression {
  const first = low[dimension]!;
  return { first, step: 1, count: high[dimension]! - first + 1 };
}

function scaled({ first, step, count }: Progression, factor: number): Progression {
  return { first: first * factor, step: step * factor, count };
}

/** Returns the values of a group's weighted sum over a domain. Undefined if they are not an arithmetic progression. */
function sumOf({ members }: Group, domain: Domain): Progression | undefined {
  const parts = members.map(({ dimension, factor }) => ascending(scaled(coordinates(domain, dimension), factor)));
  if (parts.some((part) => part === undefined)) return undefined;
  const [smallest, ...others] = (parts as Progression[]).sort((a, b) => a.step - b.step);
  let { first, step, count } = smallest!;
  for (const other of others) {
    if (other.step % step !== 0 || other.step > step * count) return undefined;
    first += other.first;
    count += other.step / step * (other.count - 1);
  }
  return { first, step, count };
}

/** Returns a progression's values in ascending order. Undefined if the progression has no smallest value. */
function ascending({ first, step, count }: Progression): Progression | undefined {
  if (step >= 0) return { first, step, count };
  return count === Infinity ? undefined : { first: first + step * (count - 1), step: -step, count };
}

/** Returns the part of an ascending progression whose values satisfy `factor * value + constant >= 0`. */
function cutBy({ first, step, count }: Progression, factor: number, constant: number): Progression {
  if (factor < 0) {
    const most = Math.floor(constant / -factor);
    return { first, step, count: Math.min(count, Math.floor((most - first) / step) + 1) };
  }
  const least = Math.ceil(-constant / factor);
  const skipped = Math.max(0, Math.ceil((least - first) / step));
  return { first: first + skipped * step, step, count: count - skipped };
}

/** Returns the dimension with the fewest coordinates among those on which constraints depend. */
function smallest(groups: readonly Group[], forms: readonly AffineForm[], { low, high }: Domain): number {
  const shared = groups.filter(({ factors }) => forms.some((_, index) => index > 0 && factors[index] !== 0));
  const dimensions = shared.flatMap(({ members }) => members.map(({ dimension }) => dimension));
  const sizeOf = (dimension: number) => high[dimension]! - low[dimension]!;
  return dimensions.reduce((best, dimension) => sizeOf(dimension) < sizeOf(best) ? dimension : best);
}

/** Splits a domain into one domain for each coordinate of a dimension. */
function eachValue(domain: Domain, dimension: number): Domain[] {
  const { low, high, constraints } = domain;
  const count = high[dimension]! - low[dimension]! + 1;
  if (count > mostValues) throw new TooManyRanges();
  return Array.from({ length: count }, (_, index) => {
    const value = low[dimension]! + index;
    return { low: low.with(dimension, value), high: high.with(dimension, value), constraints };
  });
}

/** The maximum number of domains into which `eachValue` splits a domain. */
const mostValues = 4096;

/**
 * Returns a range of `byteLength` bytes for each sum of `start` and one value from every progression. Merges the ranges
 * of a progression whose steps produce contiguous ranges.
 */
function blocksOf(
  start: number,
  byteLength: number,
  progressions: readonly Progression[],
  budget: Budget,
): ByteRange[] {
  let begin = start, length = byteLength, first: ByteRange[] = [];
  const ordered: Progression[] = [];
  for (const progression of progressions) {
    if (progression.count === Infinity) throw new TooManyRanges();
    const { step, count, first } = ascending(progression)!;
    if (count <= 0) return [];
    begin += first;
    if (step > 0 && count > 1) ordered.push({ first: 0, step, count });
  }
  ordered.sort((a, b) => a.step - b.step);
  const apart = ordered.filter(({ step, count }) => {
    if (step > length) return true;
    length += step * (count - 1);
    return false;
  });
  first = [{ begin, end: begin + length }];
  for (const { step, count } of apart) {
    budget.spend(count * first.length);
    const ranges = first;
    first = Array.from({ length: count }, (_, index) => index * step).flatMap((offset) =>
      ranges.map(({ begin, end }) => ({ begin: begin + offset, end: end + offset }))
    );
  }
  return first;
}

/** Returns the ranges in sorted order, with overlapping and adjacent ranges merged. */
export function mergedRanges(ranges: readonly ByteRange[]): ByteRange[] {
  const ordered = [...ranges].sort((a, b) => a.begin - b.begin);
  const result: { begin: number; end: number }[] = [];
  for (const { begin, end } of ordered) {
    const last = result.at(-1);
    if (last !== undefined && begin <= last.end) last.end = Math.max(last.end, end);
    else result.push({ begin, end });
  }
  return result;
}

/** Returns the parts of `ranges` outside of `others`. Both lists must be sorted and free of overlaps. */
export function without(ranges: readonly ByteRange[], others: readonly ByteRange[]): ByteRange[] {
  const result: ByteRange[] = [];
  let index = 0;
  for (const { begin, end } of ranges) {
    let from = begin;
    while (index < others.length && others[index]!.end <= from) index++;
    for (let at = index; at < others.length && others[at]!.begin < end; at++) {
      const other = others[at]!;
      if (other.begin > from) result.push({ begin: from, end: other.begin });
      from = Math.max(from, other.end);
    }
    if (from < end) result.push({ begin: from, end });
  }
  return result;
}
