/**
 * Cache hints. PTX ISA, sections 9.7.9.15 to 9.7.9.18.
 *
 * There are no caches, so hints do nothing.
 *
 * @module
 */
import { addressOperand } from "./address_checks.ts";
import { type Emit, type InstructionForm, instructionForm } from "../instruction_form.ts";
import { pure } from "../../../../ptx/instructions/instruction_traits.ts";
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
const createPolicy: Emit = (e, i) => {
  const [destination, ...operands] = i.operands;
  for (const operand of operands) {
    if (operand.kind === "address" || operand.kind === "float") continue;
    e.push(operand, i.choices.has("fractional") ? typeNamed("f32") : i.choices.has("cvt") ? u64 : u32);
    e.code.ops("drop");
  }
  e.assign(destination, u64, () => e.code.i64(0n));
};

const primary = "<primary:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged>";
const secondary = "<secondary:L2::evict_first|L2::evict_unchanged>?";

/** The forms of `createpolicy`. */
export const policyForms: readonly InstructionForm[] = [
  `createpolicy.fractional.${primary}.${secondary}.b64 d [, fraction]`,
  `createpolicy.range.global?.${primary}.${secondary}.b64 d, [a], size, total`,
  "createpolicy.cvt.L2.b64 d, property",
].map((syntax) =>
  instructionForm(syntax, "9.7.9.18", { lowering: createPolicy, traits: { ...pure, hasNoEffect: true } })
);

/** A form with a cache policy as its last operand. Gangs execute it member by member. */
export function withPolicy({ syntax, section, emit, traits }: InstructionForm): InstructionForm {
  const space = syntax.indexOf(" ");
  const hinted = `${syntax.slice(0, space)}.L2::cache_hint${syntax.slice(space)}, policy`;
  const lowering: Emit = (e, i) => {
    e.push(i.operands.at(-1), u64);
    e.code.ops("drop");
    emit!(e, { ...i, operands: i.operands.slice(0, -1) });
  };
  const { gangForm: _, ...others } = traits;
  return instructionForm(hinted, section, { lowering, traits: others });
}
