import type { InstructionForm } from "../instructions/instruction_form.ts";

/** The instructions and special registers that PTX is resolved against. */
export interface InstructionSet {
  /** The forms of an instruction by its opcode. */
  readonly forms: ReadonlyMap<string, readonly InstructionForm[]>;
  /** Why instructions that no form has are refused, by their opcodes, where more can be said than that they are not known. */
  readonly refusals: ReadonlyMap<string, string>;
  /** Whether a name is that of a special register or a predefined constant, supported or not. */
  isSpecialRegister(name: string): boolean;
}
