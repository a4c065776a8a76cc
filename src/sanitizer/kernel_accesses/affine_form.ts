/**
 * Affine forms: values that are a sum of a thread's coordinates, each times a constant.
 *
 * @module
 */

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
