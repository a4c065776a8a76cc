/**
 * Domains, which are sets of threads and loop iterations that take the same path through a kernel, and affine forms,
 * which are linear combinations of a thread's coordinates plus a constant.
 *
 * @module
 */

/**
 * A set of threads and loop iterations: the points of a box that satisfy all constraints. A dimension is (a part of) a
 * block or thread index, or the iteration number of a loop.
 */
export interface Domain {
  /** The first coordinate in each dimension. */
  readonly low: readonly number[];
  /** The last coordinate in each dimension, which may be infinite. */
  readonly high: readonly number[];
  /** The affine forms of two or more dimensions whose values must not be negative. */
  readonly constraints: readonly AffineForm[];
}

/** Bounds for the values of a form, both inclusive. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

/** A condition on the coordinates of a thread or loop iteration. */
export type Condition =
  /** A test of the value of a form without base: whether it is at least 0 (`notNegative`) or equal to 0 (`zero`). */
  | { readonly kind: "test"; readonly form: AffineForm; readonly relation: "notNegative" | "zero" }
  | { readonly kind: "not"; readonly of: Condition }
  | { readonly kind: "and"; readonly of: readonly [Condition, Condition] };

/** Returns bounds for the values of a form in a domain, not counting the value of the form's base. */
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

/** Returns the ratio of the terms `a` to the terms `b`. Undefined if they are not proportional. */
function ratioOf(a: readonly number[], b: readonly number[]): number | undefined {
  if (a.length !== b.length || a.length === 0) return undefined;
  const last = a.length - 1;
  for (let index = 0; index < last; index++) {
    const left = a[index]! * b[last]!, right = b[index]! * a[last]!;
    if (left !== right || !Number.isSafeInteger(left)) return undefined;
  }
  return a[last]! / b[last]!;
}

/** Folds the terms of dimensions in which a domain has a single coordinate into the constant of a form. */
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

/** Returns whether a condition is true or false in all points of a domain. Undefined if it is neither, or unknown. */
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

/** Returns the greatest common divisor of two integers. */
export function greatestDivisor(a: number, b: number): number {
  [a, b] = [Math.abs(a), Math.abs(b)];
  while (b !== 0) [a, b] = [b, a % b];
  return a;
}

/** Returns the parts of a domain in which a condition has the value `truth`. They do not overlap. */
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

/** Thrown if an analysis exceeds its limits, or if numbers exceed the range of exact integers. */
export class TooComplex extends Error {}

/**
 * Returns the part of a domain in which a form is not negative. Undefined if that part is empty.
 *
 * @throws {TooComplex} If the form is undefined
 */
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
  // An infinite dimension (the iterations of a loop) gets a finite bound from the constraint.
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

/**
 * A value: `constant`, plus the coordinate in each dimension times its term, plus the value of the base. A register
 * holds the value modulo two to the power of its width.
 */
export interface AffineForm {
  readonly kind: "affine";
  /**
   * What the value is relative to: the parameter at this offset in the packed parameters, {@linkcode noBase},
   * {@linkcode elsewhere}, or a shared variable (a smaller number).
   */
  readonly base: number;
  readonly constant: number;
  /** The factor of the coordinate in each dimension. Trailing zeros may be omitted. */
  readonly terms: readonly number[];
}

/** The base of a number that is not derived from a pointer. */
export const noBase = -1;
/** The base of addresses of local memory and of variables other than shared ones. */
export const elsewhere = -2;
/** The base of dynamic shared memory. The bases of other shared variables are smaller. */
export const dynamicShared = -3;

const noTerms: readonly number[] = [];

/** Returns the form of a constant. */
export function constantForm(constant: number): AffineForm {
  return { kind: "affine", base: noBase, constant, terms: noTerms };
}

/** Returns the form of a base alone: the value of a parameter, or the address of a variable. */
export function baseForm(base: number): AffineForm {
  return { kind: "affine", base, constant: 0, terms: noTerms };
}

/** Returns a form. Undefined if its numbers exceed the range of exact integers. */
export function formOf(terms: readonly number[], constant = 0, base: number = noBase): AffineForm | undefined {
  let length = terms.length;
  while (length > 0 && terms[length - 1] === 0) length--;
  for (let index = 0; index < length; index++) if (!Number.isSafeInteger(terms[index])) return undefined;
  if (!Number.isSafeInteger(constant)) return undefined;
  return { kind: "affine", base, constant, terms: length === terms.length ? terms : terms.slice(0, length) };
}

/** Returns whether a form has the same value in all threads. */
export function isUniform({ terms }: AffineForm): boolean {
  return terms.length === 0;
}

/** Returns `a + factor * b`. Undefined if that is not an affine form, or exceeds the range of exact integers. */
export function sumOf(a: AffineForm, b: AffineForm, factor = 1): AffineForm | undefined {
  let base = a.base;
  if (b.base !== noBase) {
    // Equal bases cancel only if they are parameters: a variable may have a different address in another state space.
    if (factor === -1 && a.base === b.base && a.base > elsewhere) base = noBase;
    else if (factor === 1 && a.base === noBase) base = b.base;
    else return undefined;
  }
  const constant = a.constant + factor * b.constant;
  if (b.terms.length === 0) return formOf(a.terms, constant, base);
  const terms: number[] = [];
  for (let index = 0; index < Math.max(a.terms.length, b.terms.length); index++) {
    terms.push((a.terms[index] ?? 0) + factor * (b.terms[index] ?? 0));
  }
  return formOf(terms, constant, base);
}

/** Returns `form * factor`. Undefined if the form has a base, or if the result exceeds the range of exact integers. */
export function productOf(form: AffineForm, factor: number): AffineForm | undefined {
  if (form.base !== noBase) return undefined;
  return formOf(form.terms.map((term) => term * factor + 0), form.constant * factor);
}

/** Returns whether two forms have the same terms and base, so that they differ by a constant. */
export function areParallel(a: AffineForm, b: AffineForm): boolean {
  return a.base === b.base && a.terms.length === b.terms.length &&
    a.terms.every((term, index) => term === b.terms[index]);
}
