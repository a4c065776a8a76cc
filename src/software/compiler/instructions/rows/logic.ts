import {
  conjunction,
  disjunction,
  logicOfThree as validityOfThree,
  movesBits,
  union,
} from "../../checks/shadow_rules.ts";
import { integerGangForms } from "../gangs/gang_lowering.ts";
import type { InstructionForm } from "../instruction_form.ts";
import { pure } from "../../../../ptx/instructions/instruction_traits.ts";
import { integer } from "../integers/integer_instructions.ts";
import { funnelShift, logicalNot, logicOfThree, not, shift } from "../integers/logic_instructions.ts";
import { bits, form } from "./row.ts";

const bitsOrPredicate = "<type:pred|b16|b32|b64>";

/** Logic and shifts. */
export const logicForms: readonly InstructionForm[] = [
  form(`and.${bitsOrPredicate} d, a, b`, "9.7.8.1", integer("And"), {
    ...pure,
    validity: conjunction,
    gangForm: integerGangForms.and,
  }),
  form(`or.${bitsOrPredicate} d, a, b`, "9.7.8.2", integer("Or"), {
    ...pure,
    validity: disjunction,
    gangForm: integerGangForms.or,
  }),
  form(`xor.${bitsOrPredicate} d, a, b`, "9.7.8.3", integer("Xor"), {
    ...pure,
    validity: union,
    gangForm: integerGangForms.xor,
  }),
  form(`not.${bitsOrPredicate} d, a`, "9.7.8.4", not, { ...pure, validity: union, gangForm: integerGangForms.not }),
  form(`cnot.${bits} d, a`, "9.7.8.5", logicalNot, pure),
  form("lop3.<type:b32> d, a, b, c, immLut", "9.7.8.6", logicOfThree, {
    ...pure,
    validity: validityOfThree,
    gangForm: integerGangForms.logicOfThree,
  }),
  form("lop3.<combine:or|and>.<type:b32> d, a, b, c, immLut, q", "9.7.8.6", logicOfThree, pure),
  form("shf.<direction:l|r>.<mode:clamp|wrap>.b32 d, a, b, c", "9.7.8.7", funnelShift, {
    ...pure,
    validity: movesBits(1, 2),
    gangForm: integerGangForms.funnelShift,
  }),
  form(`shl.${bits} d, a, b`, "9.7.8.8", shift("left"), {
    ...pure,
    validity: movesBits(1),
    arithmetic: "shift",
    gangForm: integerGangForms.shiftLeft,
  }),
  form("shr.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b", "9.7.8.9", shift("right"), {
    ...pure,
    validity: movesBits(1),
    gangForm: integerGangForms.shiftRight,
  }),
];
