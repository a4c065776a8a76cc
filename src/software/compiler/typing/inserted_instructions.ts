import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { type Operand, PtxError } from "../../../ptx/syntax.ts";
import { type InstructionSet, resolveForm } from "./find_form.ts";
import type { CallVariable } from "./call_layout.ts";
import type { LabelName, Register, ResolvedOperand, Variable } from "../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, typeNamed } from "../../../ptx/instructions/scalar_types.ts";

/**
 * Instructions that compute what PTX has in place of an operand: a sum with a register, and the address of an element
 * whose index is in a register. As `ptxas` does, they are inserted in front of the instruction.
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

  /** The sum of a register and a number, in the register's width. */
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

  /** The address of an element of a variable. As `ptxas` does, the index is unsigned, whatever its register's type. */
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

  /** Loads a register, or a vector of them, from a variable of the frame. */
  load(operand: ResolvedOperand, variable: CallVariable): void {
    this.addTo(`ld.param${accessType(variable)}`, [operand, { kind: "address", base: variable, offset: 0n }]);
  }

  store(variable: CallVariable, operand: ResolvedOperand): void {
    this.addTo(`st.param${accessType(variable)}`, [{ kind: "address", base: variable, offset: 0n }, operand]);
  }

  /** Adds an instruction that sets a new register. */
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

/** The modifiers of an access to all of a variable. */
function accessType({ type, registerCount = 1 }: CallVariable): string {
  const name = type.kind === "float" && type.value === "i32" ? `b${type.bits}` : type.name;
  return `${registerCount > 1 ? `.v${registerCount}` : ""}.${name}`;
}
