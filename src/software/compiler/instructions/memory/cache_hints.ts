/**
 * Cache hints. PTX ISA, sections 9.7.9.15 to 9.7.9.18.
 *
 * There are no caches, so hints do nothing.
 *
 * @module
 */
import { addressOperand } from "./address_checks.ts";
import type { Emit } from "../instruction_form.ts";
import { constantOf, u32 } from "../integers/integer_lowering.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const u64 = typeNamed("u64");

/**
 * `prefetch`, `prefetchu`, `applypriority` and `discard`. PTX leaves the value of discarded memory undefined, so it may
 * keep its old value.
 */
export const cacheHint: Emit = (e, i) => {
  addressOperand(e, i.operands[0]);
  const size = i.operands[1];
  if (size !== undefined && constantOf(size) !== 128n) e.fail("its size must be 128");
};

/** `createpolicy`. What a policy holds is not specified; all of them are 0 here. */
export const createPolicy: Emit = (e, i) => {
  const [destination, ...operands] = i.operands;
  for (const operand of operands) {
    if (operand.kind === "address" || operand.kind === "float") continue;
    e.push(operand, i.choices.has("fractional") ? typeNamed("f32") : i.choices.has("cvt") ? u64 : u32);
    e.code.ops("drop");
  }
  e.assign(destination, u64, () => e.code.i64(0n));
};
