/**
 * Instructions that tell caches what will be used. PTX ISA, sections 9.7.9.15 to 9.7.9.17.
 *
 * @module
 */
import { addressOperand } from "./address_checks.ts";
import type { Emit } from "./instruction_form.ts";
import { constantOf } from "./integer_operations.ts";

/**
 * `prefetch`, `prefetchu`, `applypriority` and `discard`: there are no caches. What is discarded has no value that PTX
 * defines, so that its old one is as good as any.
 */
export const cacheHint: Emit = (e, i) => {
  addressOperand(e, i.operands[0]);
  const size = i.operands[1];
  if (size !== undefined && constantOf(size) !== 128n) e.fail("its size must be 128");
};
