/**
 * The table of instructions: everything that the compiler knows of a PTX instruction stands in its row.
 *
 * To add an instruction, write the function that emits it in a file of this folder, and add a row to its family in
 * `rows/`, with its syntax, its section in the manual, that function and its traits (`instruction_traits.ts`). A trait
 * that is left out takes the conservative value, so state only what is certain. CONTRIBUTING.md lists the other steps;
 * tests fail until they are done. Section numbers are those of PTX ISA 9.0.
 *
 * @module
 */
import type { InstructionSet } from "../typing/instruction_set.ts";
import type { InstructionForm, LoweringTraits } from "./instruction_form.ts";
import { pure } from "../../../ptx/instructions/instruction_traits.ts";
import { performanceEvent, redistributeRegisters, trap } from "./miscellaneous_instructions.ts";
import { packedVideoForms } from "./integers/packed_video_instructions.ts";
import { refusedForms, refusedOpcodes } from "./refused_instructions.ts";
import { form, hint } from "./rows/row.ts";
import { isSpecialRegister } from "./special_registers.ts";
import { videoForms } from "./integers/video_instructions.ts";
import { atomicForms } from "./rows/atomics.ts";
import { comparisonForms } from "./rows/comparisons.ts";
import { controlFlowForms, stackForms } from "./rows/control_flow.ts";
import { dataMovementForms } from "./rows/data_movement.ts";
import { floatForms } from "./rows/floats.ts";
import { integerForms } from "./rows/integers.ts";
import { logicForms } from "./rows/logic.ts";
import { synchronizationForms } from "./rows/synchronization.ts";

const dividingHint: LoweringTraits = { ...hint, dividesBlock: () => true };

/**
 * All supported instructions: their syntax, the section of the PTX ISA manual (version 9.0) that defines them, what
 * they compile to, and their traits. All others are refused.
 */
export const instructions: readonly InstructionForm[] = [
  ...integerForms,
  ...floatForms,
  ...comparisonForms,
  ...logicForms,
  ...dataMovementForms,
  ...controlFlowForms,
  ...synchronizationForms,
  ...stackForms,
  ...atomicForms,
  ...videoForms,
  ...packedVideoForms,
  form("pmevent a", "9.7.19.3", performanceEvent, dividingHint),
  form("pmevent.mask a", "9.7.19.3", performanceEvent, dividingHint),
  form("trap", "9.7.19.4", trap, { ...pure, effects: ["traps"], dividesBlock: () => true }),
  form("setmaxnreg.<action:inc|dec>.sync.aligned.u32 n", "9.7.19.5", redistributeRegisters, hint),
  ...refusedForms,
];

/** The instruction set that consists of the given forms. */
export function instructionSetOf(forms: readonly InstructionForm[]): InstructionSet {
  return { forms: Map.groupBy(forms, ({ opcode }) => opcode), refusals: refusedOpcodes, isSpecialRegister };
}

/** The instruction set of the software device. */
export const instructionSet: InstructionSet = instructionSetOf(instructions);
