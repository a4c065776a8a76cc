/**
 * What an uninitialized value may decide, as the check `initialization` reports it. Compiled kernels report indices.
 *
 * @module
 */

/** What a value decides, in the order of the numbers that stand for it. */
export const decisions = [
  "branch",
  "predicate",
  "address",
  "call target",
  "atomic operand",
  "atomic memory",
  "lane mask",
  "barrier",
  "size",
] as const;

/** Something that a value decides. */
export type Decision = typeof decisions[number];
