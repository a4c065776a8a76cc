/**
 * Cache hints. PTX ISA, sections 9.7.9.15 to 9.7.9.17.
 *
 * @module
 */
import { addressOperand } from "./address_checks.ts";
import type { Emit } from "./instruction_form.ts";
import { constantOf } from "./integer_lowering.ts";

/**
 * `prefetch`, `prefetchu`, `applypriority` and `discard`. There are no caches, so they do nothing. PTX leaves the value
 * of discarded memory undefined, so it may keep its old value.
 */
export const cacheHint: Emit = (e, i) => {
  addressOperand(e, i.operands[0]);
  const size = i.operands[1];
  if (size !== undefined && constantOf(size) !== 128n) e.fail("its size must be 128");
};
