/**
 * Sets of threads and loop iterations that take the same path through a kernel, and affine forms: values that are a sum
 * of a thread's coordinates, each times a constant.
 *
 * @module
 */

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

/**
 * `constant`, plus for each dimension of the launch its coordinate times its term, plus the value of a parameter. A
 * register has the value modulo two to the power of its bits.
 */
export interface AffineForm {
  readonly kind: "affine";
  /** The offset of a kernel's parameter among the packed ones, {@linkcode noBase}, {@linkcode elsewhere}, or less. */
  readonly base: number;
  readonly constant: number;
  /** By dimension. The terms of the last dimensions may be omitted if they are 0. */
  readonly terms: readonly number[];
}

/** The base of a value that is derived neither from a parameter nor from an address. */
export const noBase = -1;
/** The base of addresses of local memory, and of variables. Smaller numbers are the bases of shared variables. */
export const elsewhere = -2;
/** The base of dynamic shared memory. The bases of other shared variables are smaller. */
export const dynamicShared = -3;

const noTerms: readonly number[] = [];

/** A constant. */
export function constantForm(constant: number): AffineForm {
  return { kind: "affine", base: noBase, constant, terms: noTerms };
}

/** The value of a parameter, or an address elsewhere. */
export function baseForm(base: number): AffineForm {
  return { kind: "affine", base, constant: 0, terms: noTerms };
}

/** A sum of coordinates, each times its term. */
export function formOf(terms: readonly number[], constant = 0, base: number = noBase): AffineForm | undefined {
  let length = terms.length;
  while (length > 0 && terms[length - 1] === 0) length--;
  for (let index = 0; index < length; index++) if (!Number.isSafeInteger(terms[index])) return undefined;
  if (!Number.isSafeInteger(constant)) return undefined;
  return { kind: "affine", base, constant, terms: length === terms.length ? terms : terms.slice(0, length) };
}

/** Whether a form has the same value in all threads, a base aside. */
export function isUniform({ terms }: AffineForm): boolean {
  return terms.length === 0;
}

/** `a + factor * b`. Undefined if it is not an affine form, or too large. */
export function sumOf(a: AffineForm, b: AffineForm, factor = 1): AffineForm | undefined {
  let base = a.base;
  if (b.base !== noBase) {
    // The same variable has other addresses in another space.
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

/** A form times a constant. Undefined if it has a base, or is too large. */
export function productOf(form: AffineForm, factor: number): AffineForm | undefined {
  if (form.base !== noBase) return undefined;
  return formOf(form.terms.map((term) => term * factor + 0), form.constant * factor);
}

/** Whether two forms have the same terms and base, so that they differ by a constant. */
export function areParallel(a: AffineForm, b: AffineForm): boolean {
  return a.base === b.base && a.terms.length === b.terms.length &&
    a.terms.every((term, index) => term === b.terms[index]);
}
