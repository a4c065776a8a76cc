import { type Instruction, type Operand, PtxError } from "../syntax.ts";
import type { InstructionRow } from "../instructions/instruction_traits.ts";
import { type ScalarType, typeNamed } from "../instructions/scalar_types.ts";
import type {
  LabelName,
  Register,
  ResolvedForm,
  ResolvedInstruction,
  ResolvedOperand,
  Variable,
} from "../instructions/resolved_instruction.ts";

/** Resolves an instruction, except for its operands and its predicate. */
export type FormResolver<Form extends InstructionRow> = (instruction: Instruction) => ResolvedForm<Form>;

/**
 * Like `ptxas`, inserts instructions before an instruction that has an expression as an operand. The inserted
 * instructions compute the operand: the sum of a register and a constant, or the address of an array element whose
 * index is in a register.
 */
export class InsertedInstructions<Form extends InstructionRow> {
  readonly #items: (ResolvedInstruction<Form> | LabelName)[];
  readonly #resolveForm: FormResolver<Form>;
  readonly #line: number;
  readonly #predicate: ResolvedInstruction["predicate"];

  /** @param predicate the guard predicate of the inserted instructions */
  constructor(
    items: (ResolvedInstruction<Form> | LabelName)[],
    { resolveForm, line, predicate }: {
      resolveForm: FormResolver<Form>;
      line: number;
      predicate?: ResolvedInstruction["predicate"];
    },
  ) {
    this.#predicate = predicate;
    this.#items = items;
    this.#resolveForm = resolveForm;
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
  element(array: Variable, index: ResolvedOperand, elementBytes: number): Register {
    const type = index.kind === "register" ? index.type : undefined;
    if (type === undefined || type.kind === "float" || type.bits < 16) {
      throw new PtxError(this.#line, `cannot take an element of "${array.name}": its index must be an integer`);
    }
    const wide = typeNamed("u64");
    const begin = this.add("mov.u64", wide, [array]);
    const extended = type.bits === 64 ? index : this.add(`cvt.u64.u${type.bits}`, wide, [index]);
    const factor = { kind: "integer", value: BigInt(elementBytes) } as const;
    return this.add("mad.lo.u64", wide, [extended, factor, begin], { isElement: true });
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

  /** Adds an instruction with the given operands. */
  addTo(text: string, operands: readonly ResolvedOperand[]): void {
    const [opcode = "", ...modifiers] = text.split(".");
    const notRead: Operand = { kind: "integer", value: 0n };
    const instruction = { opcode, modifiers, operands: operands.map(() => notRead), line: this.#line };
    const resolved = this.#resolveForm({ kind: "instruction", predicate: undefined, ...instruction });
    this.#items.push({ ...resolved, operands, predicate: this.#predicate });
  }
}
