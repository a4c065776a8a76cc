/**
 * What rows of several families have in common: how a row is written, alternatives of modifiers, and traits.
 *
 * @module
 */
import { type InstructionForm, instructionForm, type Lowering, type LoweringTraits } from "../instruction_form.ts";
import { pure } from "../../../../ptx/instructions/instruction_traits.ts";

export const signed = "<type:s16|s32|s64>";
export const bits = "<type:b16|b32|b64>";
export const wideBits = "<type:b32|b64>";
export const selected = "<type:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>";
export const scope = "<scope:cta|cluster|gpu|sys>?";
export const atomicSpace = "<space:global|shared|shared::cta|shared::cluster>?";
export const ordering: string = `<semantics:relaxed|acquire|release|acq_rel>?.${scope}.${atomicSpace}`;
export const orderingFence: LoweringTraits = { ...pure, effects: ["orders"] };
export const returningAtomic: LoweringTraits = {
  effects: ["reads", "observes", "writes"],
  validity: "emitted",
  runsInGangs: true,
};

/** A hint to what the device does not have, such as caches. */
export const hint: LoweringTraits = { ...pure, hasNoEffect: true };

/** A row: syntax, section of the manual, meaning, and traits. */
export function form(syntax: string, section: string, lowering: Lowering, traits: LoweringTraits): InstructionForm {
  return instructionForm(syntax, section, { lowering, traits });
}
