/**
 * Finds the form of an instruction in an instruction set.
 *
 * @module
 */
import type { InstructionForm } from "../instructions/instruction_form.ts";
import { didYouMean } from "../../../support/validation.ts";
import { type Instruction, PtxError } from "../../../ptx/syntax.ts";
import { hasModifier, matchForm } from "../../../ptx/instructions/form_syntax.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";
import type { ResolvedForm } from "../../../ptx/instructions/resolved_instruction.ts";

/** Resolves an instruction, except for its operands and its predicate. */
export function resolveForm(instruction: Instruction, instructions: InstructionSet): ResolvedForm<InstructionForm> {
  const { opcode, modifiers, line } = instruction;
  const text = [opcode, ...modifiers].join(".");
  const { form, choices } = findForm(instruction, { text, instructions });
  const type = typeNamed(choices.get("type") ?? "b32");
  const from = choices.get("from");
  return {
    kind: "instruction",
    form,
    text,
    choices,
    type,
    sourceType: from === undefined ? type : typeNamed(from),
    line,
  };
}

/** Finds the form that matches an instruction's modifiers and number of operands. */
function findForm(
  { opcode, modifiers, operands, line }: Instruction,
  { text, instructions }: { text: string; instructions: InstructionSet },
): { form: InstructionForm; choices: ReadonlyMap<string, string> } {
  const forms = instructions.forms.get(opcode);
  if (forms === undefined) {
    const refusal = instructions.refusals.get(opcode);
    if (refusal !== undefined) throw UnsupportedPtxError.ofInstruction(line, { text, ...refusal });
    const nearest = didYouMean(opcode, [...instructions.forms.keys()]);
    throw new PtxError(line, `cannot compile "${text}": the instruction "${opcode}" is not known${nearest}`);
  }
  let furthest = 0;
  let nearest: InstructionForm | undefined;
  let wrongCount: InstructionForm | undefined;
  for (const form of forms) {
    const match = matchForm(form, modifiers);
    if (!match.matched) {
      if (form.refusedFor !== undefined || (nearest !== undefined && match.at <= furthest)) continue;
      furthest = match.at;
      nearest = form;
    } else if (operands.length < form.operands[0] || operands.length > form.operands[1]) {
      wrongCount = form;
    } else if (form.refusal !== undefined) {
      throw UnsupportedPtxError.ofInstruction(line, { text, section: form.section, reason: form.refusal });
    } else {
      return { form, choices: match.choices };
    }
  }
  if (wrongCount !== undefined) {
    throw new PtxError(
      line,
      `cannot compile "${text}": it has ${operands.length} operands, which does not match "${wrongCount.syntax}"`,
    );
  }
  const modifier = modifiers[furthest];
  if (modifier === undefined) {
    const reason = `a modifier or a type is missing at its end, which does not match "${nearest?.syntax}"`;
    throw new PtxError(line, `cannot compile "${text}": ${reason}`);
  }
  if (!forms.some((form) => hasModifier(form, modifier))) {
    throw new PtxError(line, `cannot compile "${text}": the modifier ".${modifier}" is not known here`);
  }
  // The modifier is known for this opcode, but not in this combination with others. Report the combination as
  // unsupported, because it may be valid PTX.
  const section = nearest?.section;
  throw UnsupportedPtxError.ofInstruction(line, { text, section, reason: `".${modifier}" is not supported here` });
}

/** The reason why an opcode is not supported, and its section in the PTX ISA manual. */
export interface RefusalReason {
  /** The section of the PTX ISA manual. */
  readonly section: string;
  readonly reason: string;
}

/** The supported instructions and the names of special registers. Used to resolve the names in PTX code. */
export interface InstructionSet {
  /** The forms of each instruction, by opcode. */
  readonly forms: ReadonlyMap<string, readonly InstructionForm[]>;
  /** Known opcodes that are not supported in any form, with the reasons. */
  readonly refusals: ReadonlyMap<string, RefusalReason>;
  /** Whether PTX defines a special register or a constant with the given name. The device need not support it. */
  isSpecialRegister(name: string): boolean;
}
