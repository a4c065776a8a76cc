import {
  type BranchTargets,
  type CallTargets,
  type ElementOperand,
  type FunctionDeclaration,
  type Initializer,
  type Instruction,
  type NameOperand,
  type Operand,
  PtxError,
  type Statement,
  type SumOperand,
  type VariableDeclaration,
} from "../../../ptx/syntax.ts";
import type {
  LabelName,
  Prototype,
  Register,
  ResolvedOperand,
  Variable,
} from "../../../ptx/instructions/resolved_instruction.ts";
import { InsertedInstructions, resolveForm } from "./find_form.ts";
import type { CompiledInstruction, InstructionForm } from "../instructions/instruction_form.ts";
import { operandOf } from "./module_image.ts";
import type { CallLayout, CallVariable } from "./call_layout.ts";
import {
  elementLayout,
  type Named,
  registerNamed,
  Scope,
  type SpaceLayout,
  type VectorRegister,
} from "../../../ptx/instructions/names.ts";
import type { ModuleScope } from "./module_scope.ts";

import type { SharedLayout } from "./shared_layout.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";

/** The scope and the line of an operand, and the form of its instruction. */
interface OperandContext {
  readonly scope: Scope;
  readonly line: number;
  readonly form: InstructionForm;
}

/** Maps color names of vector components to coordinate names. */
const coordinates: ReadonlyMap<string, string> = new Map([["r", "x"], ["g", "y"], ["b", "z"], ["a", "w"]]);

function asOperand(named: Named): ResolvedOperand {
  return named.kind === "vectorRegister" ? { kind: "vector", elements: named.components } : named;
}

function componentOf(
  { name, components }: VectorRegister,
  { component, line }: { component: string; line: number },
): Register {
  const index = ["x", "y", "z", "w"].indexOf(coordinates.get(component) ?? component);
  if (index < 0) throw new PtxError(line, `cannot use "${name}.${component}": the components are x, y, z and w`);
  const register = components[index];
  if (register !== undefined) return register;
  // `ptxas` accepts a component that the vector does not have, and reads another register.
  throw new UnsupportedPtxError(line, `cannot use "${name}.${component}": it has only ${components.length} components`);
}

/**
 * The maximum alignment of a variable in a stack frame, in bytes. The size of each frame is rounded up to the alignment
 * of the frame.
 */
const maximumLocalAlignment = 65536;

/** Resolves the names and the instruction forms in the body of one function. */
export class BodyResolver {
  readonly items: (CompiledInstruction | LabelName)[] = [];
  readonly #module: ModuleScope;
  readonly #shared: SharedLayout;
  readonly #frame: SpaceLayout;
  readonly #unsupported: UnsupportedPtxError[];
  /** The results that the function declares as registers. */
  readonly #resultRegisters: { readonly variable: CallVariable; readonly operand: ResolvedOperand }[] = [];

  constructor(
    module: ModuleScope,
    { shared, frame, unsupported }: { shared: SharedLayout; frame: SpaceLayout; unsupported: UnsupportedPtxError[] },
  ) {
    this.#module = module;
    this.#shared = shared;
    this.#frame = frame;
    this.#unsupported = unsupported;
  }

  /**
   * Declares a function's results and parameters. For parameters in registers, adds instructions that load them from
   * the frame.
   */
  declareCall({ results, parameters }: CallLayout, { scope, line }: { scope: Scope; line: number }): void {
    for (const variable of [...results, ...parameters]) {
      const { name, type, registerCount } = variable;
      if (registerCount === undefined) {
        scope.declare(variable, line);
        continue;
      }
      const register = registerNamed(name, { type, vectorLength: registerCount });
      scope.declare(register, line);
      const held = { variable, operand: asOperand(register) };
      if (results.includes(variable)) this.#resultRegisters.push(held);
      else this.#inserted(line).load(held.operand, variable);
    }
  }

  /** Adds instructions that store results from registers to the frame. Called before every return. */
  storeResults(line: number): void {
    for (const { operand, variable } of this.#resultRegisters) this.#inserted(line).store(variable, operand);
  }

  statements(statements: readonly Statement[], scope: Scope): void {
    const labels = new Map<Statement, LabelName>();
    for (const statement of statements) this.#declare(statement, { scope, labels });
    for (const statement of statements) {
      if (statement.kind === "branchTargets") this.#declareTargets(statement, scope);
    }
    for (const statement of statements) {
      if (statement.kind === "label") this.items.push(labels.get(statement)!);
      else if (statement.kind === "block") this.statements(statement.statements, new Scope(scope));
      else if (statement.kind === "instruction") this.#addInstruction(statement, scope);
    }
  }

  /**
   * Resolves an instruction. If the instruction is not supported, records the error and continues, because an error for
   * invalid PTX in a later statement takes precedence.
   */
  #addInstruction(instruction: Instruction, scope: Scope): void {
    try {
      this.items.push(this.#instruction(instruction, scope));
    } catch (error) {
      if (!(error instanceof UnsupportedPtxError)) throw error;
      this.#unsupported.push(error);
    }
  }

  #declare(statement: Statement, { scope, labels }: { scope: Scope; labels: Map<Statement, LabelName> }): void {
    switch (statement.kind) {
      case "label": {
        const label: LabelName = { kind: "label", name: statement.name };
        labels.set(statement, label);
        scope.declare(label, statement.line);
        break;
      }
      case "registers":
        scope.declareRegisters(statement);
        break;
      case "variable":
        scope.declare(this.#placeVariable(statement), statement.line);
        break;
      case "callPrototype":
        scope.declare({ kind: "prototype", name: statement.name, declaration: statement }, statement.line);
        break;
      case "callTargets":
        scope.declare(this.#prototypeOf(statement), statement.line);
        break;
      case "directive":
        throw new PtxError(
          statement.line,
          `cannot use the directive ".${statement.name}" in a function: it is not known`,
        );
    }
  }

  /**
   * Returns the prototype of the functions in a `.calltargets` list: the first function's declaration, because all have
   * the same parameters.
   */
  #prototypeOf({ name, targets, line }: CallTargets): Prototype {
    const [declaration] = targets.map((target) => {
      const called = this.#module.functions.get(target);
      if (called === undefined) throw new PtxError(line, `cannot find "${target}": it is not declared`);
      return called.declaration;
    });
    return { kind: "prototype", name, declaration: declaration! };
  }

  #placeVariable(declaration: VariableDeclaration): Variable {
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

  #declareTargets({ name, targets, line }: BranchTargets, scope: Scope): void {
    const labels = targets.map((target) => {
      const label = scope.find(target);
      if (label?.kind !== "label") throw new PtxError(line, `cannot find the label "${target}"`);
      return label;
    });
    scope.declare({ kind: "labels", name, labels }, line);
  }

  #instruction(instruction: Instruction, scope: Scope): CompiledInstruction {
    const { line, predicate } = instruction;
    const resolved = resolveForm(instruction, this.#module.instructions);
    if (resolved.form.flow === "return") this.storeResults(line);
    const [destination] = instruction.operands;
    if (resolved.form.hasResult && (destination?.kind === "sum" || destination?.kind === "element")) {
      throw new PtxError(line, `cannot compile "${resolved.text}": its result must be a register`);
    }
    const { form, text } = resolved;
    const { choices, operands: written } = form.takesSelectors
      ? withSelectors(instruction, resolved.choices)
      : { choices: resolved.choices, operands: instruction.operands };
    const where = { scope, line, form };
    const operands = written.map((operand) => this.#operand(operand, where));
    if (!choices.has("b128")) refuseWide(operands, { line, text });
    return {
      ...resolved,
      choices,
      operands,
      predicate: predicate === undefined ? undefined : {
        register: this.#predicate({ kind: "name", name: predicate.name, component: undefined }, where),
        negated: predicate.negated,
      },
    };
  }

  #operand(operand: Operand, where: OperandContext): ResolvedOperand {
    switch (operand.kind) {
      case "name":
        return this.#name(operand, where);
      case "integer":
      case "float":
        return operand;
      case "vector":
        if (operand.elements.length === 1 && where.form.traits.takesVectorOfOne === true) {
          return this.#operand(operand.elements[0]!, where);
        }
        return { kind: "vector", elements: operand.elements.map((element) => this.#operand(element, where)) };
      case "not":
        return { kind: "not", register: this.#predicate(operand.operand, where) };
      case "pair":
        return {
          kind: "pair",
          first: this.#name(operand.first, where),
          second: this.#name(operand.second, where),
        };
      case "sum":
        return this.#sum(operand, where);
      case "element":
        return this.#element(operand, where);
      case "address": {
        const base = operand.base === undefined ? undefined : this.#name(operand.base, where);
        if (base !== undefined && base.kind !== "register" && base.kind !== "variable") {
          throw new PtxError(where.line, `cannot use "${operand.base!.name}" as an address`);
        }
        return { kind: "address", base, offset: operand.offset };
      }
      case "list":
        return { kind: "list", elements: operand.elements.map((element) => this.#operand(element, where)) };
      case "texture":
        return this.#refuseTexture(where);
    }
  }

  #name({ name, component, negated }: NameOperand, { scope, line, form }: OperandContext): ResolvedOperand {
    const { syntax } = form;
    if (negated) throw new PtxError(line, `cannot use "-${name}" as an operand of "${syntax}": it cannot be negated`);
    const named = scope.find(name);
    if (component !== undefined) {
      if (named?.kind === "vectorRegister") return componentOf(named, { component, line });
      if (named === undefined) return { kind: "special", name: `${name}.${coordinates.get(component) ?? component}` };
      throw new PtxError(
        line,
        `cannot use "${name}.${component}" as an operand of "${syntax}": only vectors and special registers, such as ` +
          "%tid.x, have components",
      );
    }
    if (name === "_") return { kind: "sink" };
    if (named !== undefined) return asOperand(named);
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

  #refuseTexture({ line, form: { syntax } }: OperandContext): never {
    throw new PtxError(
      line,
      `cannot pass coordinates to "${syntax}": only instructions on textures, surfaces and tensors have them`,
    );
  }

  #sum({ name, offset }: SumOperand, where: OperandContext): ResolvedOperand {
    const operand = this.#name(name, where);
    if (operand.kind === "variable") return { kind: "sum", variable: operand, offset };
    return this.#inserted(where.line).sum(operand, offset);
  }

  #element({ array, index }: ElementOperand, where: OperandContext): ResolvedOperand {
    const variable = this.#name(array, where);
    if (variable.kind !== "variable" || variable.elementBytes === undefined) {
      throw new PtxError(where.line, `cannot take an element of "${array.name}": it is not an array`);
    }
    if (typeof index === "bigint") {
      const offset = BigInt.asIntN(64, index * BigInt(variable.elementBytes));
      return { kind: "sum", variable, offset, isElement: true };
    }
    const register = index.kind === "sum" ? this.#sum(index, where) : this.#name(index, where);
    return this.#inserted(where.line).element({ ...variable, elementBytes: variable.elementBytes }, register);
  }

  /**
   * Returns an object that inserts instructions to compute an operand, before the instruction that is being resolved.
   */
  #inserted(line: number): InsertedInstructions {
    return new InsertedInstructions(this.items, { instructions: this.#module.instructions, line });
  }

  #moduleVariable(declaration: VariableDeclaration, line: number): Variable {
    const { name, space } = declaration;
    const placed = this.#module.image.variables.get(name);
    if (placed !== undefined) return operandOf(name, placed);
    if (space === "shared") return this.#shared.placeOfModule(declaration);
    const refusal = this.#module.image.refusals.get(name);
    if (refusal !== undefined) throw refusal;
    throw new UnsupportedPtxError(line, `cannot use "${name}": this module declares it but does not define it`);
  }

  #functionIn(initializer: Initializer | undefined): FunctionDeclaration | undefined {
    const first = initializer?.kind === "elements" ? initializer.elements[0] : initializer;
    return first?.kind === "addressOf" ? this.#module.functions.get(first.name)?.declaration : undefined;
  }

  #predicate(operand: NameOperand, where: OperandContext): Register {
    const register = this.#name(operand, where);
    if (register.kind !== "register" || register.type.kind !== "predicate") {
      throw new PtxError(where.line, `cannot use "${operand.name}" as a predicate`);
    }
    return register;
  }
}

/** Throws `PtxError` if an operand is a 128-bit register, for an instruction that does not accept them. */
export function refuseWide(operands: readonly ResolvedOperand[], { line, text }: { line: number; text: string }): void {
  for (const operand of operands) {
    if (operand.kind === "list") refuseWide(operand.elements, { line, text });
    if (operand.kind !== "vector") continue;
    if (operand.isWide) throw new PtxError(line, `cannot compile "${text}": it takes no register of 128 bits`);
    refuseWide(operand.elements, { line, text });
  }
}

/** Removes the selectors and signs of operands such as `-%r1.h1`, and records them as choices. */
export function withSelectors(
  { operands }: Instruction,
  chosen: ReadonlyMap<string, string>,
): { choices: ReadonlyMap<string, string>; operands: readonly Operand[] } {
  const choices = new Map(chosen);
  const whole = operands.map((operand, index) => {
    if (operand.kind !== "name") return operand;
    const { kind, name, component, negated } = operand;
    const isSelector = component !== undefined && /^[bh][0-7]+$/.test(component);
    if (isSelector) choices.set(`selector${index}`, component);
    if (negated) choices.set(`negated${index}`, "-");
    return { kind, name, component: isSelector ? undefined : component };
  });
  return { choices, operands: whole };
}
