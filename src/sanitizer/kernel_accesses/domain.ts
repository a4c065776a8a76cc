/**
 * Sets of threads and loop iterations that take the same path through a kernel.
 *
 * @module
 */
import { type AffineForm, formOf, noBase, productOf, sumOf } from "./affine_form.ts";

/** The points of a box for which all constraints hold. */
export interface Domain {
  /** The first and the last coordinate in each dimension. A last one may be infinite. */
  readonly low: readonly number[];
  readonly high: readonly number[];
  /** Forms of two or more dimensions that are not negative. */
  readonly constraints: readonly AffineForm[];
}

/** The known bounds of the values of a form. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

/** A condition on a point. */
export type Condition =
  /** Whether a form is at least 0, or is 0. It has no base. */
  | { readonly kind: "test"; readonly form: AffineForm; readonly relation: "notNegative" | "zero" }
  | { readonly kind: "not"; readonly of: Condition }
  | { readonly kind: "and"; readonly of: readonly [Condition, Condition] };

/** Bounds for the values of a form in a domain, its base aside. */
export function rangeOf({ terms, constant }: AffineForm, { low, high, constraints }: Domain): Range {
  let least = constant, most = constant;
  for (let index = 0; index < terms.length; index++) {
    const term = terms[index]!;
    if (term === 0) continue;
    least += term * (term > 0 ? low : high)[index]!;
    most += term * (term > 0 ? high : low)[index]!;
  }
  for (const constraint of constraints) {
    const ratio = ratioOf(constraint.terms, terms);
    if (ratio === undefined) continue;
    // The constraint is ratio * (form - constant) + constraint.constant >= 0.
    const bound = constant - constraint.constant / ratio;
    if (ratio > 0) least = Math.max(least, Math.ceil(bound));
    else most = Math.min(most, Math.floor(bound));
  }
  return { low: least, high: most };
}

/** The ratio of the terms `a` to `b`. Undefined if they are not proportional. */
function ratioOf(a: readonly number[], b: readonly number[]): number | undefined {
  if (a.length !== b.length || a.length === 0) return undefined;
  const last = a.length - 1;
  for (let index = 0; index < last; index++) {
    const left = a[index]! * b[last]!, right = b[index]! * a[last]!;
    if (left !== right || !Number.isSafeInteger(left)) return undefined;
  }
  return a[last]! / b[last]!;
}

/** A form, with the coordinates that are the same in all of a domain as constants. */
export function simplified(form: AffineForm, { low, high }: Domain): AffineForm {
  const { terms, constant, base } = form;
  let found = false;
  for (let index = 0; index < terms.length; index++) {
    if (terms[index] !== 0 && low[index] === high[index]) found = true;
  }
  if (!found) return form;
  let sum = constant;
  const others = terms.map((term, index) => {
    if (low[index] !== high[index]) return term;
    sum += term * low[index]!;
    return 0;
  });
  return formOf(others, sum, base) ?? form;
}

/** Whether a condition holds everywhere or nowhere in a domain. Undefined if that is not known. */
export function decide(domain: Domain, condition: Condition): boolean | undefined {
  switch (condition.kind) {
    case "test": {
      const { low, high } = rangeOf(condition.form, domain);
      if (condition.relation === "notNegative") return low >= 0 ? true : high < 0 ? false : undefined;
      return low > 0 || high < 0 || isNeverZero(condition.form) ? false : low === 0 && high === 0 ? true : undefined;
    }
    case "not": {
      const decided = decide(domain, condition.of);
      return decided === undefined ? undefined : !decided;
    }
    case "and": {
      const [a, b] = condition.of.map((part) => decide(domain, part));
      return a === false || b === false ? false : a === true && b === true ? true : undefined;
    }
  }
}

function isNeverZero({ terms, constant }: AffineForm): boolean {
  const divisor = terms.reduce(greatestDivisor, 0);
  return divisor > 1 && constant % divisor !== 0;
}

/** The greatest common divisor. */
export function greatestDivisor(a: number, b: number): number {
  [a, b] = [Math.abs(a), Math.abs(b)];
  while (b !== 0) [a, b] = [b, a % b];
  return a;
}

/** The parts of a domain where a condition holds or does not hold. They do not overlap. */
export function assume(domain: Domain, condition: Condition, truth: boolean): Domain[] {
  switch (condition.kind) {
    case "test": {
      const { form, relation } = condition;
      if (relation === "notNegative") return listed(constrain(domain, truth ? form : lessThanZero(form)));
      const negative = productOf(form, -1);
      if (truth) {
        const part = isNeverZero(form) ? undefined : constrain(domain, form);
        return listed(part && constrain(part, negative));
      }
      if (isNeverZero(form)) return [domain];
      return [lessThanZero(form), lessThanZero(negative)].flatMap((half) => listed(constrain(domain, half)));
    }
    case "not":
      return assume(domain, condition.of, !truth);
    case "and": {
      const [a, b] = condition.of;
      const both = assume(domain, a, true).flatMap((part) => assume(part, b, truth));
      return truth ? both : [...assume(domain, a, false), ...both];
    }
  }
}

function listed(part: Domain | undefined): Domain[] {
  return part === undefined ? [] : [part];
}

function lessThanZero(form: AffineForm | undefined): AffineForm | undefined {
  const negative = form && productOf(form, -1);
  return negative && sumOf(negative, { kind: "affine", base: noBase, constant: -1, terms: [] });
}

/** Thrown if numbers get too large to continue. */
export class TooComplex extends Error {}

/** The part of a domain where a form is not negative. Undefined if that is empty. */
export function constrain(domain: Domain, wanted: AffineForm | undefined): Domain | undefined {
  if (wanted === undefined) throw new TooComplex();
  const form = simplified(wanted, domain);
  const range = rangeOf(form, domain);
  if (range.low >= 0) return domain;
  if (range.high < 0) return undefined;
  const { terms, constant } = form;
  const dimensions = [...terms.keys()].filter((index) => terms[index] !== 0);
  const low = [...domain.low], high = [...domain.high];
  if (dimensions.length === 1) {
    const index = dimensions[0]!, term = terms[index]!;
    if (term > 0) low[index] = Math.max(low[index]!, Math.ceil(-constant / term));
    else high[index] = Math.min(high[index]!, Math.floor(constant / -term));
    return low[index]! > high[index]! ? undefined : { low, high, constraints: domain.constraints };
  }
  // Iterations of a loop are bounded by the constraint alone.
  for (const index of dimensions) {
    const term = terms[index]!;
    if (high[index] !== Infinity || term > 0) continue;
    const others = terms.map((other, at) => at === index ? 0 : other);
    const most = rangeOf({ ...form, terms: others }, domain).high;
    high[index] = Math.floor(most / -term);
    if (high[index]! < low[index]!) return undefined;
  }
  return { low, high, constraints: [...domain.constraints, form] };
}
