/**
 * Finds the form of an instruction in an instruction set, and inserts instructions that compute operands which are
 * expressions.
 *
 * @module
 */
import type { CompiledInstruction, InstructionForm } from "../instructions/instruction_form.ts";
import { didYouMean } from "../../../support/validation.ts";
import { type Instruction, type Operand, PtxError } from "../../../ptx/syntax.ts";
import { hasModifier, matchForm } from "../../../ptx/instructions/form_syntax.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";
import type { CallVariable } from "./call_layout.ts";
import type { LabelName, Register, ResolvedOperand, Variable } from "../../../ptx/instructions/resolved_instruction.ts";

/** Resolves an instruction, except for its operands and its predicate. */
export function resolveForm(
  instruction: Instruction,
  instructions: InstructionSet,
): Omit<CompiledInstruction, "operands" | "predicate"> {
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
  // Some form has the modifier, but no form has this combination of modifiers, which may be valid PTX that is not
  // supported.
  const section = nearest?.section;
  throw UnsupportedPtxError.ofInstruction(line, { text, section, reason: `".${modifier}" is not supported here` });
}

/** The reason why an opcode is not supported, and its section in the PTX ISA manual. */
export interface UnsupportedOpcode {
  /** The section of the PTX ISA manual. */
  readonly section: string;
  readonly reason: string;
}

/** The supported instructions and the names of special registers, by which names in PTX are resolved. */
export interface InstructionSet {
  /** The forms of each instruction, by opcode. */
  readonly forms: ReadonlyMap<string, readonly InstructionForm[]>;
  /** Known opcodes that are not supported in any form, with the reasons. */
  readonly refusals: ReadonlyMap<string, UnsupportedOpcode>;
  /** Whether PTX defines a special register or a constant with the given name. The device need not support it. */
  isSpecialRegister(name: string): boolean;
}

/**
 * Inserts instructions before an instruction with an operand that is an expression, as `ptxas` does. The inserted
 * instructions compute the operand: the sum of a register and a constant, or the address of an array element whose
 * index is in a register.
 */
export class InsertedInstructions {
  readonly #items: (CompiledInstruction | LabelName)[];
  readonly #instructions: InstructionSet;
  readonly #line: number;

  constructor(
    items: (CompiledInstruction | LabelName)[],
    { instructions, line }: { instructions: InstructionSet; line: number },
  ) {
    this.#items = items;
    this.#instructions = instructions;
    this.#line = line;
  }

  /**
   * Inserts an instruction that computes the sum of a register and a constant, in the register's width. Returns the
   * register with the sum.
   */
  sum(operand: ResolvedOperand, offset: bigint): Register {
    const register = operand.kind === "special"
      ? this.add("mov.u32", typeNamed("u32"), [operand])
      : operand.kind === "register"
      ? operand
      : undefined;
    const { type } = register ?? {};
    if (register === undefined || type === undefined || type.kind === "float" || type.bits < 16) {
      throw new PtxError(
        this.#line,
        "cannot add to this operand: only integer registers and the addresses of variables can have an offset",
      );
    }
    return this.add(`add.s${type.bits}`, type, [register, { kind: "integer", value: offset }]);
  }

  /**
   * Inserts instructions that compute the address of an array element, and returns the register with the address. As in
   * `ptxas`, the index is unsigned, even if its register is signed.
   */
  element(array: Variable & { readonly elementBytes: number }, index: ResolvedOperand): Register {
    const type = index.kind === "register" ? index.type : undefined;
    if (type === undefined || type.kind === "float" || type.bits < 16) {
      throw new PtxError(this.#line, `cannot take an element of "${array.name}": its index must be an integer`);
    }
    const wide = typeNamed("u64");
    const begin = this.add("mov.u64", wide, [array]);
    const extended = type.bits === 64 ? index : this.add(`cvt.u64.u${type.bits}`, wide, [index]);
    const factor = { kind: "integer", value: BigInt(array.elementBytes) } as const;
    return this.add("mad.lo.u64", wide, [extended, factor, begin], { isElement: true });
  }

  /** Inserts an instruction that loads a register or a vector of registers from a variable in the frame. */
  load(operand: ResolvedOperand, variable: CallVariable): void {
    this.addTo(`ld.param${accessType(variable)}`, [operand, { kind: "address", base: variable, offset: 0n }]);
  }

  store(variable: CallVariable, operand: ResolvedOperand): void {
    this.addTo(`st.param${accessType(variable)}`, [{ kind: "address", base: variable, offset: 0n }, operand]);
  }

  /** Adds an instruction with a new register as its result, and returns the register. */
  add(
    text: string,
    type: ScalarType,
    sources: readonly ResolvedOperand[],
    traits: Pick<Register, "isElement"> = {},
  ): Register {
    const register: Register = { kind: "register", name: `the operand of line ${this.#line}`, type, ...traits };
    this.addTo(text, [register, ...sources]);
    return register;
  }

  addTo(text: string, operands: readonly ResolvedOperand[]): void {
    const [opcode = "", ...modifiers] = text.split(".");
    const unread: Operand = { kind: "integer", value: 0n };
    const instruction = { opcode, modifiers, operands: operands.map(() => unread), line: this.#line };
    const resolved = resolveForm({ kind: "instruction", predicate: undefined, ...instruction }, this.#instructions);
    this.#items.push({ ...resolved, operands, predicate: undefined });
  }
}

/** Returns the vector and type modifiers of a load or store of an entire variable. */
function accessType({ type, registerCount = 1 }: CallVariable): string {
  const name = type.kind === "float" && type.value === "i32" ? `b${type.bits}` : type.name;
  return `${registerCount > 1 ? `.v${registerCount}` : ""}.${name}`;
}
