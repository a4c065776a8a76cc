import type { InstructionForm } from "../instructions/instruction_form.ts";

/** Why an opcode is refused. */
export interface Refusal {
  /** The section of the PTX ISA manual. */
  readonly section: string;
  readonly reason: string;
}

/** The instructions and special registers that PTX is resolved against. */
export interface InstructionSet {
  /** The forms of each instruction, by opcode. */
  readonly forms: ReadonlyMap<string, readonly InstructionForm[]>;
  /** Opcodes without a form that are refused, and not unknown. */
  readonly refusals: ReadonlyMap<string, Refusal>;
  /** Whether a name is that of a special register or a predefined constant, supported or not. */
  isSpecialRegister(name: string): boolean;
}
