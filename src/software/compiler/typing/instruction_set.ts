import type { InstructionForm } from "../instructions/instruction_form.ts";

/** The instructions and special registers that PTX is resolved against. */
export interface InstructionSet {
  /** The forms of each instruction, by opcode. */
  readonly forms: ReadonlyMap<string, readonly InstructionForm[]>;
  /** Why opcodes without a form are refused, if there is more to say than that they are unknown. */
  readonly refusals: ReadonlyMap<string, string>;
  /** Whether a name is that of a special register or a predefined constant, supported or not. */
  isSpecialRegister(name: string): boolean;
}
