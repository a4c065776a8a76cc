/**
 * Resolves the names and the instruction forms in the bodies of functions, and places their variables.
 *
 * @module
 */
import {
  type CallTargets,
  type FunctionDeclaration,
  type Initializer,
  type Instruction,
  PtxError,
  type UnknownDirective,
  type VariableDeclaration,
} from "../../../ptx/syntax.ts";
import type {
  Prototype,
  Register,
  ResolvedForm,
  ResolvedOperand,
  Variable,
} from "../../../ptx/instructions/resolved_instruction.ts";
import { asOperand, BodyResolver, type OperandContext } from "../../../ptx/analysis/body_resolver.ts";
import { InsertedInstructions } from "../../../ptx/analysis/inserted_instructions.ts";
import { resolveForm } from "./find_form.ts";
import type { CompiledInstruction, InstructionForm } from "../instructions/instruction_form.ts";
import { operandOf } from "./module_image.ts";
import { type CallLayout, type CallVariable, isPredicateRegister, passedBy, passedOperands } from "./call_layout.ts";
import { elementLayout, registerNamed, type Scope, type SpaceLayout } from "../../../ptx/instructions/names.ts";
import type { ModuleScope } from "./module_scope.ts";
import type { ModuleLocalLayout } from "./module_locals.ts";
import { isPredicate, numberOfPredicate, predicateNumber, predicateOf, registerTypeName } from "./passed_registers.ts";
import type { SharedLayout } from "./shared_layout.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";

/**
 * The maximum alignment of a variable in a stack frame, in bytes. The size of each frame is rounded up to the alignment
 * of the frame.
 */
const maximumLocalAlignment = 65536;

/** Resolves the names and the instruction forms in the body of one function. */
export class CompiledBodyResolver extends BodyResolver<InstructionForm> {
  readonly #module: ModuleScope;
  readonly #shared: SharedLayout;
  readonly #moduleLocals: ModuleLocalLayout;
  readonly #frame: SpaceLayout;
  readonly #unsupported: UnsupportedPtxError[];
  /** The results that the function declares as registers. */
  readonly #resultRegisters: { readonly variable: CallVariable; readonly operand: ResolvedOperand }[] = [];

  constructor(
    module: ModuleScope,
    { shared, moduleLocals, frame, unsupported }: {
      shared: SharedLayout;
      moduleLocals: ModuleLocalLayout;
      frame: SpaceLayout;
      unsupported: UnsupportedPtxError[];
    },
  ) {
    super();
    this.#module = module;
    this.#shared = shared;
    this.#moduleLocals = moduleLocals;
    this.#frame = frame;
    this.#unsupported = unsupported;
  }

  /**
   * Declares a function's results and parameters. For parameters in registers, adds instructions that load them from
   * the frame.
   */
  declareCall({ results, parameters }: CallLayout, { scope, line }: { scope: Scope; line: number }): void {
    for (const variable of [...results, ...parameters]) {
      const { name, registers } = variable;
      if (registers === undefined) {
        scope.declare(variable, line);
        continue;
      }
      const register = registerNamed(name, registers);
      scope.declare(register, line);
      const operand = asOperand(register);
      if (results.includes(variable)) this.#resultRegisters.push({ variable, operand });
      else this.#loadParameter(variable, { operand, line });
    }
  }

  #loadParameter(variable: CallVariable, { operand, line }: { operand: ResolvedOperand; line: number }): void {
    const inserted = this.#inserted(line);
    const address = { kind: "address", base: variable, offset: 0n } as const;
    if (isPredicate(operand)) predicateOf(inserted, operand, inserted.add("ld.param.u32", predicateNumber, [address]));
    else inserted.addTo(`ld.param${accessType(variable)}`, [operand, address]);
  }

  /** Adds instructions that store results from registers to the frame. Called before every return. */
  storeResults(line: number): void {
    const inserted = this.#inserted(line);
    for (const { operand, variable } of this.#resultRegisters) {
      const address = { kind: "address", base: variable, offset: 0n } as const;
      const stored = isPredicate(operand) ? numberOfPredicate(inserted, operand) : operand;
      inserted.addTo(`st.param${accessType(variable)}`, [address, stored]);
    }
  }

  #inserted(line: number, predicate?: CompiledInstruction["predicate"]): InsertedInstructions<InstructionForm> {
    const resolveForm = (instruction: Instruction) => this.resolveForm(instruction);
    return new InsertedInstructions(this.items, { resolveForm, line, predicate });
  }

  protected override addInstruction(instruction: CompiledInstruction): void {
    const { form: { flow, expansion }, line, predicate } = instruction;
    if (flow === "call") this.#addCall(instruction);
    else if (expansion !== undefined) expansion.expand(instruction, this.#inserted(line, predicate));
    else super.addInstruction(instruction);
  }

  /** Adds a call. Predicates are passed as numbers, by instructions before and after the call. */
  #addCall(call: CompiledInstruction): void {
    const { line, text, operands } = call;
    const declaration = passedBy(call);
    const { results, parameters } = passedOperands(call);
    const returned: { readonly operand: Register; readonly number: Register }[] = [];
    const replaced = new Map<readonly ResolvedOperand[], readonly ResolvedOperand[]>();
    replaced.set(
      parameters,
      parameters.map((operand, index) => {
        const parameter = declaration?.parameters[index];
        if (parameter === undefined || !isPredicateRegister(parameter)) return operand;
        if (isPredicate(operand)) return numberOfPredicate(this.#inserted(line), operand);
        throw new PtxError(line, `cannot compile "${text}": "${parameter.name}" is a predicate, and needs one`);
      }),
    );
    replaced.set(
      results,
      results.map((operand, index) => {
        const result = declaration?.results[index];
        if (result === undefined || !isPredicateRegister(result) || !isPredicate(operand)) return operand;
        // If the guard predicate is false, the call does not set the number.
        const number = numberOfPredicate(this.#inserted(line), operand);
        returned.push({ operand, number });
        return number;
      }),
    );
    const passed = operands.map((operand): ResolvedOperand =>
      operand.kind === "list" ? { kind: "list", elements: replaced.get(operand.elements)! } : operand
    );
    super.addInstruction({ ...call, operands: passed });
    for (const { operand, number } of returned) predicateOf(this.#inserted(line), operand, number);
  }

  protected override instruction(instruction: Instruction, scope: Scope): CompiledInstruction {
    const resolved = super.instruction(instruction, scope);
    const { choices, operands, line, text } = resolved;
    if (!choices.has("b128") && resolved.form.flow !== "call") refuseWide(operands, { line, text });
    if (resolved.form.flow === "return") this.storeResults(line);
    return resolved.form.traits.ofActiveLanes === true ? this.#withActiveLanes(resolved) : resolved;
  }

  /** Appends an operand to an instruction: the mask of the lanes that execute the instruction together. */
  #withActiveLanes(instruction: CompiledInstruction): CompiledInstruction {
    const { line, predicate, operands } = instruction;
    const mask = this.#inserted(line, predicate).add("activemask.b32", typeNamed("b32"), []);
    return { ...instruction, operands: [...operands, mask] };
  }

  protected override resolveForm(instruction: Instruction): ResolvedForm<InstructionForm> {
    return resolveForm(instruction, this.#module.instructions, this.#module.dialect);
  }

  protected override leaveOut(error: UnsupportedPtxError): void {
    this.#unsupported.push(error);
  }

  protected override acceptDirective({ name, line }: UnknownDirective): never {
    throw new PtxError(line, `cannot use the directive ".${name}" in a function: it is not known`);
  }

  /** The prototype is the declaration of the first function, because all have the same parameters. */
  protected override prototypeOf({ name, targets, line }: CallTargets): Prototype {
    const [declaration] = targets.map((target) => {
      const called = this.#module.functions.get(target);
      if (called === undefined) throw new PtxError(line, `cannot find "${target}": it is not declared`);
      return called.declaration;
    });
    return { kind: "prototype", name, declaration: declaration! };
  }

  protected override placeVariable(declaration: VariableDeclaration): Variable {
    const { name, space, line } = declaration;
    if (space === "shared") return this.#shared.place(declaration);
    if (space === "local" || space === "param") {
      if (elementLayout(declaration).alignment <= maximumLocalAlignment) return this.#frame.place(declaration);
      throw new UnsupportedPtxError(
        line,
        `cannot align "${name}" to more than ${maximumLocalAlignment} bytes in ".${space}"`,
      );
    }
    const inImage = this.#module.ofFunctions.get(declaration);
    if (inImage === undefined) throw new PtxError(line, `cannot declare "${name}" in ".${space}" in a function`);
    return { ...this.#moduleVariable(inImage, line), name };
  }

  protected override outerName(name: string, { line, form }: OperandContext<InstructionForm>): ResolvedOperand {
    if (this.#module.instructions.isSpecialRegister(name)) return { kind: "special", name };
    const declaration = this.#module.variables.get(name);
    if (declaration !== undefined) {
      // An indirect call may name an array of function addresses instead of a prototype.
      const target = form.flow === "call" ? this.#functionIn(declaration.initializer) : undefined;
      if (target !== undefined) return { kind: "prototype", name, declaration: target };
      return this.#moduleVariable(declaration, line);
    }
    const called = this.#module.functions.get(name);
    if (called !== undefined) {
      if (called.declaration.body !== undefined || form.flow === "call") return called;
      throw new UnsupportedPtxError(
        line,
        `cannot take the address of "${name}": this module declares the function but does not define it`,
      );
    }
    throw new PtxError(line, `cannot find "${name}": it is not declared`);
  }

  #moduleVariable(declaration: VariableDeclaration, line: number): Variable {
    const { name, space } = declaration;
    const placed = this.#module.image.variables.get(name);
    if (placed !== undefined) return operandOf(name, placed);
    if (space === "shared") return this.#shared.placeOfModule(declaration);
    if (space === "local") return this.#moduleLocals.place(declaration);
    const refusal = this.#module.image.refusals.get(name);
    if (refusal !== undefined) throw refusal;
    throw new UnsupportedPtxError(line, `cannot use "${name}": this module declares it but does not define it`);
  }

  #functionIn(initializer: Initializer | undefined): FunctionDeclaration | undefined {
    const first = initializer?.kind === "elements" ? initializer.elements[0] : initializer;
    return first?.kind === "addressOf" ? this.#module.functions.get(first.name)?.declaration : undefined;
  }
}

/** Throws `PtxError` if an operand is a 128-bit register. Called for instructions that do not accept such registers. */
function refuseWide(operands: readonly ResolvedOperand[], { line, text }: { line: number; text: string }): void {
  for (const operand of operands) {
    if (operand.kind === "list") refuseWide(operand.elements, { line, text });
    if (operand.kind !== "vector") continue;
    if (operand.isWide) throw new PtxError(line, `cannot compile "${text}": it takes no register of 128 bits`);
    refuseWide(operand.elements, { line, text });
  }
}

/**
 * Returns the vector and type modifiers of an instruction that loads or stores an entire variable through registers.
 */
function accessType({ type, registers }: CallVariable): string {
  if (registers?.type === "b128") return ".v2.b64";
  const { vectorLength = 1 } = registers ?? {};
  return `${vectorLength > 1 ? `.v${vectorLength}` : ""}.${registerTypeName(type)}`;
}
