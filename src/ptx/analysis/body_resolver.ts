/**
 * Resolves the names and the instructions in the body of a function.
 *
 * @module
 */
import {
  type BranchTargets,
  type CallTargets,
  type ElementOperand,
  type Instruction,
  type NameOperand,
  type Operand,
  PtxError,
  type Statement,
  type SumOperand,
  type UnknownDirective,
  type VariableDeclaration,
} from "../syntax.ts";
import type {
  LabelName,
  Prototype,
  Register,
  ResolvedForm,
  ResolvedInstruction,
  ResolvedOperand,
  Variable,
} from "../instructions/resolved_instruction.ts";
import type { InstructionRow } from "../instructions/instruction_traits.ts";
import { type Named, Scope, type VectorRegister } from "../instructions/names.ts";
import { UnsupportedPtxError } from "../instruction_support.ts";
import { InsertedInstructions } from "./inserted_instructions.ts";

/** The scope and the line of an operand, and the form of its instruction. */
export interface OperandContext<Form extends InstructionRow = InstructionRow> {
  readonly scope: Scope;
  readonly line: number;
  readonly form: Form;
}

/** Maps color names of vector components to coordinate names. */
const coordinates: ReadonlyMap<string, string> = new Map([["r", "x"], ["g", "y"], ["b", "z"], ["a", "w"]]);

/** Converts a named declaration to an operand. */
export function asOperand(named: Named): ResolvedOperand {
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
 * Resolves the names and the instructions in the body of one function. Subclasses look up instructions and the names
 * that the module declares, and assign addresses to variables.
 */
export abstract class BodyResolver<Form extends InstructionRow> {
  /** The instructions and labels so far, in program order. */
  readonly items: (ResolvedInstruction<Form> | LabelName)[] = [];

  /** Resolves an instruction, except for its operands and its predicate. Throws `PtxError` if that is not possible. */
  protected abstract resolveForm(instruction: Instruction): ResolvedForm<Form>;

  /** Returns the operand for a name that the function does not declare. Throws `PtxError` if there is none. */
  protected abstract outerName(name: string, where: OperandContext<Form>): ResolvedOperand;

  /** Returns the prototype of the functions in a `.calltargets` list. */
  protected abstract prototypeOf(targets: CallTargets): Prototype;

  /** Assigns an address to a variable that the function declares. */
  protected abstract placeVariable(declaration: VariableDeclaration): Variable;

  /** Called for a directive that the parser does not know. */
  protected abstract acceptDirective(directive: UnknownDirective): void;

  /** Called if an instruction is not supported. The instruction is not added to `items`. */
  protected abstract leaveOut(error: UnsupportedPtxError): void;

  /** Resolves statements, including nested blocks. Adds their declarations to the scope. */
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
   * Resolves an instruction. If the instruction is not supported, omits it instead of throwing: an error for invalid
   * PTX in a later statement takes precedence.
   */
  #addInstruction(instruction: Instruction, scope: Scope): void {
    try {
      this.addInstruction(this.instruction(instruction, scope));
    } catch (error) {
      if (!(error instanceof UnsupportedPtxError)) throw error;
      this.leaveOut(error);
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
        scope.declare(this.placeVariable(statement), statement.line);
        break;
      case "callPrototype":
        scope.declare({ kind: "prototype", name: statement.name, declaration: statement }, statement.line);
        break;
      case "callTargets":
        scope.declare(this.prototypeOf(statement), statement.line);
        break;
      case "directive":
        this.acceptDirective(statement);
    }
  }

  #declareTargets({ name, targets, line }: BranchTargets, scope: Scope): void {
    const labels = targets.map((target) => {
      const label = scope.find(target);
      if (label?.kind !== "label") throw new PtxError(line, `cannot find the label "${target}"`);
      return label;
    });
    scope.declare({ kind: "labels", name, labels }, line);
  }

  /** Adds a resolved instruction to `items`. Subclasses may add other instructions before and after it. */
  protected addInstruction(instruction: ResolvedInstruction<Form>): void {
    this.items.push(instruction);
  }

  /** Resolves an instruction. Adds the instructions that compute its operands to `items`. */
  protected instruction(instruction: Instruction, scope: Scope): ResolvedInstruction<Form> {
    const { line, predicate } = instruction;
    const resolved = this.resolveForm(instruction);
    const [destination] = instruction.operands;
    if (resolved.form.hasResult && (destination?.kind === "sum" || destination?.kind === "element")) {
      throw new PtxError(line, `cannot compile "${resolved.text}": its result must be a register`);
    }
    const { form } = resolved;
    const { choices, operands: written } = form.takesSelectors
      ? withSelectors(instruction, resolved.choices)
      : { choices: resolved.choices, operands: instruction.operands };
    const where = { scope, line, form };
    const operands = written.map((operand) => this.operand(operand, where));
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

  /** Resolves an operand. Throws `PtxError` if that is not possible. */
  protected operand(operand: Operand, where: OperandContext<Form>): ResolvedOperand {
    switch (operand.kind) {
      case "name":
        return this.#name(operand, where);
      case "integer":
      case "float":
        return operand;
      case "vector":
        if (operand.elements.length === 1 && where.form.traits.takesVectorOfOne === true) {
          return this.operand(operand.elements[0]!, where);
        }
        return { kind: "vector", elements: operand.elements.map((element) => this.operand(element, where)) };
      case "not":
        return { kind: "not", register: this.#predicate(operand.operand, where) };
      case "pair":
        return {
          kind: "pair",
          first: this.operand(operand.first, where),
          second: this.operand(operand.second, where),
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
        return { kind: "list", elements: operand.elements.map((element) => this.operand(element, where)) };
      case "coordinates": {
        if (where.form.traits.takesCoordinates !== true) this.#refuseCoordinates(where);
        const base = this.#name(operand.base, where);
        return { kind: "list", elements: [base, ...operand.parts.map((part) => this.operand(part, where))] };
      }
    }
  }

  #name({ name, component, negated }: NameOperand, where: OperandContext<Form>): ResolvedOperand {
    const { scope, line, form: { syntax } } = where;
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
    return named === undefined ? this.outerName(name, where) : asOperand(named);
  }

  #refuseCoordinates({ line, form: { syntax } }: OperandContext<Form>): never {
    throw new PtxError(
      line,
      `cannot pass coordinates to "${syntax}": only instructions on textures, surfaces and tensors have them`,
    );
  }

  #sum({ name, offset }: SumOperand, where: OperandContext<Form>): ResolvedOperand {
    const operand = this.#name(name, where);
    if (operand.kind === "variable") return { kind: "sum", variable: operand, offset };
    return this.#inserted(where.line).sum(operand, offset);
  }

  #element({ array, index }: ElementOperand, where: OperandContext<Form>): ResolvedOperand {
    const variable = this.#name(array, where);
    if (variable.kind !== "variable" || variable.elementBytes === undefined) {
      throw new PtxError(where.line, `cannot take an element of "${array.name}": it is not an array`);
    }
    if (typeof index === "bigint") {
      const offset = BigInt.asIntN(64, index * BigInt(variable.elementBytes));
      return { kind: "sum", variable, offset, isElement: true };
    }
    const register = index.kind === "sum" ? this.#sum(index, where) : this.#name(index, where);
    return this.#inserted(where.line).element(variable, register, variable.elementBytes);
  }

  /**
   * Returns an object that inserts instructions to compute an operand, before the instruction that is being resolved.
   */
  #inserted(line: number): InsertedInstructions<Form> {
    return new InsertedInstructions(this.items, { resolveForm: (instruction) => this.resolveForm(instruction), line });
  }

  #predicate(operand: NameOperand, where: OperandContext<Form>): Register {
    const register = this.#name(operand, where);
    if (register.kind !== "register" || register.type.kind !== "predicate") {
      throw new PtxError(where.line, `cannot use "${operand.name}" as a predicate`);
    }
    return register;
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
