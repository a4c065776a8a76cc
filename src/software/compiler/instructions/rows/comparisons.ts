import { setPredicate, setValue } from "../floats/comparison_instructions.ts";
import { selects, setsPredicate } from "../../checks/shadow_comparisons.ts";
import { movesBits } from "../../checks/shadow_rules.ts";
import { gangComparison, gangSelection } from "../gangs/gang_lowering.ts";
import type { InstructionForm } from "../instruction_form.ts";
import { pure } from "../../../../ptx/instructions/instruction_traits.ts";
import { selectByPredicate, selectBySign } from "../move_instructions.ts";
import { bits, form, selected, signed } from "./row.ts";

const integerComparison = "<compare:eq|ne|lt|le|gt|ge|lo|ls|hi|hs>";
const floatComparison = "<compare:eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>";
const combined = "<combine:and|or|xor>?";

/** Comparisons and selections. */
export const comparisonForms: readonly InstructionForm[] = [
  // Comparisons and selections.
  form(
    `set.${integerComparison}.${combined}.<result:u32|s32|f32>.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b [, c]`,
    "9.7.6.1",
    setValue,
    pure,
  ),
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:u32|s32|f32>.<type:f32> d, a, b [, c]`,
    "9.7.6.1",
    setValue,
    pure,
  ),
  form(`set.${floatComparison}.${combined}.<result:u32|s32|f32>.<type:f64> d, a, b [, c]`, "9.7.6.1", setValue, pure),
  form(`setp.<compare:eq|ne>.${combined}.${bits} p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    validity: setsPredicate,
    gangForm: gangComparison,
  }),
  form(`setp.<compare:eq|ne|lt|le|gt|ge>.${combined}.${signed} p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    validity: setsPredicate,
    gangForm: gangComparison,
  }),
  form(`setp.${integerComparison}.${combined}.<type:u16|u32|u64> p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    validity: setsPredicate,
    gangForm: gangComparison,
  }),
  form(`setp.${floatComparison}.${combined}.ftz?.<type:f32> p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    validity: setsPredicate,
    gangForm: gangComparison,
  }),
  form(`setp.${floatComparison}.${combined}.<type:f64> p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    validity: setsPredicate,
    ignoresNaNBits: true,
    gangForm: gangComparison,
  }),
  form(`selp.${selected} d, a, b, c`, "9.7.6.3", selectByPredicate, {
    ...pure,
    validity: selects,
    copies: 2,
    pointer: "derived",
    gangForm: gangSelection,
  }),
  form(`slct.${selected}.<by:s32> d, a, b, c`, "9.7.6.4", selectBySign, {
    ...pure,
    copies: 2,
    validity: movesBits(1, 2),
  }),
  form(`slct.ftz?.${selected}.<by:f32> d, a, b, c`, "9.7.6.4", selectBySign, {
    ...pure,
    copies: 2,
    validity: movesBits(1, 2),
  }),

  // Comparisons of 16-bit floats, or with a 16-bit result.
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:f16|u16|s16|u32|s32>.<type:f16> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(
    `set.${floatComparison}.${combined}.<result:bf16|u16|s16|u32|s32>.<type:bf16> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(
    `set.${integerComparison}.${combined}.<result:f16|bf16>.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:f16|bf16>.<type:f16|f32> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(`set.${floatComparison}.${combined}.<result:f16|bf16>.<type:f64> d, a, b [, c]`, "9.7.7.1", setValue, pure),
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:f16x2|u32|s32>.<type:f16x2> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(
    `set.${floatComparison}.${combined}.<result:bf16x2|u32|s32>.<type:bf16x2> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(`setp.${floatComparison}.${combined}.ftz?.<type:f16|f16x2> p, a, b [, c]`, "9.7.7.2", setPredicate, {
    ...pure,
    validity: setsPredicate,
  }),
  form(`setp.${floatComparison}.${combined}.<type:bf16|bf16x2> p, a, b [, c]`, "9.7.7.2", setPredicate, {
    ...pure,
    validity: setsPredicate,
  }),
];
