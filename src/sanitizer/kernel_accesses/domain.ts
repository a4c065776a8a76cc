/**
 * Domains, which are sets of threads and loop iterations that take the same path through a kernel, and affine forms,
 * which are linear combinations of a thread's coordinates plus a constant.
 *
 * @module
 */

/**
 * A set of threads and loop iterations: the points of a box that satisfy all constraints. Each dimension is a block or
 * thread index, a part of one, or the iteration number of a loop.
 */
export interface Domain {
  /** The smallest coordinate in each dimension. */
  readonly low: readonly number[];
  /** The largest coordinate in each dimension, which may be infinite. */
  readonly high: readonly number[];
  /**
   * Affine forms of two or more dimensions. A point belongs to the domain only if every form's value there is at least
   * 0.
   */
  readonly constraints: readonly AffineForm[];
}

/** Inclusive bounds for the values of an affine form. */
export interface Bounds {
  readonly low: number;
  readonly high: number;
}

/** A condition on the coordinates of a point: a thread, or a loop iteration of a thread. */
export type Condition =
  /** Tests whether the value of an affine form without a base is at least 0 (`notNegative`) or equal to 0 (`zero`). */
  | { readonly kind: "test"; readonly form: AffineForm; readonly relation: "notNegative" | "zero" }
  | { readonly kind: "not"; readonly of: Condition }
  | { readonly kind: "and"; readonly of: readonly [Condition, Condition] };

/** Returns bounds for the values of an affine form in a domain. The value of the form's base is not included. */
export function rangeOf({ terms, constant }: AffineForm, { low, high, constraints }: Domain): Bounds {
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
    // For a value of the form, the constraint is equivalent to ratio * (value - constant) + constraint.constant >= 0.
    const bound = constant - constraint.constant / ratio;
    if (ratio > 0) least = Math.max(least, Math.ceil(bound));
    else most = Math.min(most, Math.floor(bound));
  }
  return { low: least, high: most };
}

/** Returns the ratio of the terms `a` to the terms `b`. Undefined if the terms are not proportional. */
function ratioOf(a: readonly number[], b: readonly number[]): number | undefined {
  if (a.length !== b.length || a.length === 0) return undefined;
  const last = a.length - 1;
  for (let index = 0; index < last; index++) {
    const left = a[index]! * b[last]!, right = b[index]! * a[last]!;
    if (left !== right || !Number.isSafeInteger(left)) return undefined;
  }
  return a[last]! / b[last]!;
}

/** Moves the terms of dimensions in which the domain has only one coordinate into the constant of an affine form. */
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

/**
 * Returns the truth value of a condition if it is the same at all points of a domain. Undefined if it varies or is
 * unknown.
 */
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

/** Returns the parts of a domain in which a condition has the value `truth`. The parts do not overlap. */
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
 * Returns the part of a domain in which an affine form is not negative. Undefined if that part is empty.
 *
 * @throws {TooComplex} If `wanted` is undefined, which means that the form could not be computed
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
  // A dimension without an upper bound counts the iterations of a loop. Derive a bound for it from the constraint.
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
 * An affine form: the sum of `constant`, the coordinate in each dimension times the dimension's term, and the value of
 * the base. A register of n bits holds the value modulo 2 ** n.
 */
export interface AffineForm {
  readonly kind: "affine";
  /**
   * The base that the value is relative to. A non-negative number is the offset of a kernel parameter in the packed
   * parameters; otherwise {@linkcode noBase}, {@linkcode untrackedBase}, or a smaller number, which stands for a shared
   * variable.
   */
  readonly base: number;
  readonly constant: number;
  /** The factor of each dimension's coordinate. Trailing zeros may be omitted. */
  readonly terms: readonly number[];
}

/** The base of a value that is not derived from a pointer. */
export const noBase = -1;
/** The base of an address in local memory, or of a variable that is not in shared memory. */
export const untrackedBase = -2;
/** The base of dynamic shared memory. The bases of other shared variables are smaller numbers. */
export const dynamicShared = -3;

const noTerms: readonly number[] = [];

/** Returns the affine form of a constant value. */
export function constantForm(constant: number): AffineForm {
  return { kind: "affine", base: noBase, constant, terms: noTerms };
}

/** Returns the affine form whose value is its base: the value of a parameter, or the address of a variable. */
export function baseForm(base: number): AffineForm {
  return { kind: "affine", base, constant: 0, terms: noTerms };
}

/** Returns an affine form with the given terms, constant and base. Undefined if a number is not an exact integer. */
export function formOf(terms: readonly number[], constant = 0, base: number = noBase): AffineForm | undefined {
  let length = terms.length;
  while (length > 0 && terms[length - 1] === 0) length--;
  for (let index = 0; index < length; index++) if (!Number.isSafeInteger(terms[index])) return undefined;
  if (!Number.isSafeInteger(constant)) return undefined;
  return { kind: "affine", base, constant, terms: length === terms.length ? terms : terms.slice(0, length) };
}

/** Returns whether an affine form has the same value in all threads and loop iterations. */
export function isUniform({ terms }: AffineForm): boolean {
  return terms.length === 0;
}

/**
 * Returns the affine form `a + factor * b`. Undefined if the result has no single base, or if a number is not an exact
 * integer.
 */
export function sumOf(a: AffineForm, b: AffineForm, factor = 1): AffineForm | undefined {
  let base = a.base;
  if (b.base !== noBase) {
    // Equal bases cancel only if they are parameters: the address that a variable's base stands for depends on the
    // state space.
    if (factor === -1 && a.base === b.base && a.base > untrackedBase) base = noBase;
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

/** Returns the affine form `form * factor`. Undefined if `form` has a base, or if a number is not an exact integer. */
export function productOf(form: AffineForm, factor: number): AffineForm | undefined {
  if (form.base !== noBase) return undefined;
  return formOf(form.terms.map((term) => term * factor + 0), form.constant * factor);
}

/** Returns whether two affine forms have the same terms and base, so that their values differ by a constant. */
export function areParallel(a: AffineForm, b: AffineForm): boolean {
  return a.base === b.base && a.terms.length === b.terms.length &&
    a.terms.every((term, index) => term === b.terms[index]);
}
