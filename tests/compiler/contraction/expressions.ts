/**
 * Expressions of products, sums and fused multiply-adds in one form, whichever way they are written: factors and terms in
 * order, and signs outside.
 *
 * @module
 */

/** A number as an expression of what a program loads. */
export interface Expression {
  readonly isNegated: boolean;
  readonly text: string;
}

/** A variable. */
export function variable(text: string): Expression {
  return { isNegated: false, text };
}

/** The negation of a number. */
export function negated({ isNegated, text }: Expression): Expression {
  return { isNegated: !isNegated, text };
}

function inOrder(one: Expression, other: Expression): readonly [Expression, Expression] {
  return one.text <= other.text ? [one, other] : [other, one];
}

/** A product that is rounded. */
export function product(one: Expression, other: Expression): Expression {
  const [first, second] = inOrder(one, other);
  return { isNegated: one.isNegated !== other.isNegated, text: `(${first.text} * ${second.text})` };
}

/** A sum that is rounded. */
export function sum(one: Expression, other: Expression): Expression {
  // Of two equal terms, the negated one is second.
  const [first, second] = one.text === other.text && one.isNegated ? [other, one] : inOrder(one, other);
  const sign = first.isNegated === second.isNegated ? "+" : "-";
  return { isNegated: first.isNegated, text: `(${first.text} ${sign} ${second.text})` };
}

/** A product and a sum that are rounded once. */
export function fused(one: Expression, other: Expression, addend: Expression): Expression {
  const [first, second] = inOrder(one, other);
  const isNegated = one.isNegated !== other.isNegated;
  const sign = isNegated === addend.isNegated ? "" : "-";
  return { isNegated: addend.isNegated, text: `fma(${sign}${first.text}, ${second.text}, ${addend.text})` };
}

/** An expression as text. */
export function textOf({ isNegated, text }: Expression): string {
  return isNegated ? `-${text}` : text;
}
