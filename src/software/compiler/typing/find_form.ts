/**
 * Finds the form of an instruction in an instruction set.
 *
 * @module
 */
import type { InstructionForm } from "../instructions/instruction_form.ts";
import { didYouMean } from "../../../support/validation.ts";
import { type Instruction, PtxError } from "../../../ptx/syntax.ts";
import { hasModifier, matchForm } from "../../../ptx/instructions/form_syntax.ts";
import { newestDialect, type PtxDialect } from "./supported_ptx.ts";
import { scalarTypes, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";
import type { ResolvedForm } from "../../../ptx/instructions/resolved_instruction.ts";

/**
 * Resolves an instruction, except for its operands and its predicate.
 *
 * @param dialect the dialect that determines the instruction's meaning. Default: the newest supported PTX
 */
export function resolveForm(
  instruction: Instruction,
  instructions: InstructionSet,
  dialect: PtxDialect = newestDialect,
): ResolvedForm<InstructionForm> {
  const { opcode, modifiers, line } = instruction;
  const forms = knownForms(instructions, dialect);
  let known = forms.get(opcode);
  for (const modifier of modifiers) known = known.get(modifier);
  let resolved = known.byOperands[instruction.operands.length];
  if (resolved === undefined) {
    const text = [opcode, ...modifiers].join(".");
    const { form, choices } = findForm(instruction, { text, instructions, dialect });
    const type = typeNamed(choices.get("type") ?? "b32");
    const from = choices.get("from");
    resolved = {
      kind: "instruction",
      form,
      text,
      choices: dialect.flushesSubnormals && computesFloats(form, choices)
        ? new Map([...choices, ["ftz", "ftz"]])
        : choices,
      type,
      sourceType: from === undefined ? type : typeNamed(from),
    };
    known.byOperands[instruction.operands.length] = resolved;
  }
  return { ...resolved, line };
}

/** The forms that were found so far: a tree by opcode and modifiers. */
class KnownForms {
  /** The form of an instruction that has no more modifiers, by its number of operands. */
  readonly byOperands: Omit<ResolvedForm<InstructionForm>, "line">[] = [];
  readonly #next = new Map<string, KnownForms>();

  get(word: string): KnownForms {
    let next = this.#next.get(word);
    if (next === undefined) this.#next.set(word, next = new KnownForms());
    return next;
  }
}

const formsOfSets = new WeakMap<InstructionSet, WeakMap<PtxDialect, KnownForms>>();

/** Returns the forms that were found so far. A module repeats few instructions many times. */
function knownForms(instructions: InstructionSet, dialect: PtxDialect): KnownForms {
  let ofSet = formsOfSets.get(instructions);
  if (ofSet === undefined) formsOfSets.set(instructions, ofSet = new WeakMap());
  let known = ofSet.get(dialect);
  if (known === undefined) ofSet.set(dialect, known = new KnownForms());
  return known;
}

/** Whether an instruction may have `.ftz`, and `float` is its only type of floating-point numbers. */
function computesFloats({ slots }: InstructionForm, choices: ReadonlyMap<string, string>): boolean {
  const floats = [...choices.values()].filter((choice) => scalarTypes.get(choice)?.kind === "float");
  return floats.length > 0 && floats.every((name) => name === "f32") && slots.some(({ name }) => name === "ftz");
}

/** Finds the form that matches an instruction's modifiers and number of operands. */
function findForm(
  { opcode, modifiers, operands, line }: Instruction,
  { text, instructions, dialect }: { text: string; instructions: InstructionSet; dialect: PtxDialect },
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
    const { removedIn = Infinity } = form.traits;
    if (dialect.version >= removedIn && !dialect.flushesSubnormals) continue;
    const match = matchForm(form, modifiers);
    if (!match.matched) {
      if (form.refusedFor !== undefined || (nearest !== undefined && match.at <= furthest)) continue;
      furthest = match.at;
      nearest = form;
    } else if (operands.length < form.operands[0] || operands.length > form.operands[1]) {
      wrongCount = form;
    } else if (form.isInvalid) {
      throw new PtxError(line, `cannot compile "${text}": ${form.refusal}`);
    } else if (form.refusal !== undefined) {
      throw UnsupportedPtxError.ofInstruction(line, { text, section: form.section, reason: form.refusal });
    } else if (form.traits.isOfSm90a === true && !dialect.isOfSm90a) {
      throw new PtxError(line, `cannot compile "${text}": it needs .target sm_90a, for which -arch=sm_90a compiles`);
    } else if (form.traits.ofActiveLanes === true && !dialect.hasWarpsInLockstep) {
      const reason = "since PTX 6.4 it is only for devices before sm_70, whose warps run in lockstep: use " +
        `${text.split(".")[0]}.sync, with the mask of the participating lanes as its last operand`;
      throw UnsupportedPtxError.ofInstruction(line, { text, section: form.section, reason });
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
  // The modifier is known for this opcode, but not in this combination with other modifiers. Report the combination as
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
