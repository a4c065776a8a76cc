import {
  type BranchTargets,
  type FunctionDeclaration,
  type Instruction,
  type NameOperand,
  type Operand,
  PtxError,
  type Statement,
  type SumOperand,
  type VariableDeclaration,
} from "../../ptx/syntax.ts";
import { type InstructionForm, matchForm } from "./instruction_form.ts";
import { formsByOpcode, refusalOf } from "./instructions.ts";
import { type ModuleImage, operandOf } from "./module_image.ts";
import { elementLayout, type LabelName, type Register, Scope, SpaceLayout, type Variable } from "./names.ts";
import { isSpecialRegister } from "./function_emitter.ts";
import { typeNamed } from "./scalar_types.ts";
import type { ResolvedOperand, TypedInstruction } from "./typed_instruction.ts";

/** A kernel's body as a line of instructions and the labels among them. */
export interface TypedBody {
  readonly items: readonly (TypedInstruction | LabelName)[];
  readonly sharedBytes: number;
  readonly localBytes: number;
  /** Whether it uses the shared memory that a launch adds behind its own. */
  readonly usesDynamicShared: boolean;
}

/** What a module declares beside a kernel. */
export interface ModuleScope {
  readonly image: ModuleImage;
  readonly functions: ReadonlySet<string>;
  /** Those in the image, in `.shared`, and those that this module does not define. */
  readonly variables: ReadonlyMap<string, VariableDeclaration>;
}

/** Where the parameters lie, and what is declared around the kernel. */
export interface BodyContext {
  readonly parameters: readonly Variable[];
  readonly module: ModuleScope;
}

/**
 * Resolves the names in a kernel's body and finds each instruction's form. Throws `PtxError` for names that nothing
 * declares and instructions that are not known.
 */
export function typeBody(kernel: FunctionDeclaration, { parameters, module }: BodyContext): TypedBody {
  const scope = new Scope();
  for (const parameter of parameters) scope.declare(parameter, kernel.line);
  const typist = new BodyTypist(module);
  typist.statements(kernel.body!, scope);
  const usesDynamicShared = typist.placeDynamicShared();
  const { items, shared, local } = typist;
  return { items, sharedBytes: shared.byteLength, localBytes: local.byteLength, usesDynamicShared };
}

/** Where shared memory that a launch adds begins at least: an H100 aligns it so, whatever lies there. */
const dynamicSharedAlignment = 16;

class BodyTypist {
  readonly items: (TypedInstruction | LabelName)[] = [];
  readonly shared = new SpaceLayout("shared");
  readonly local = new SpaceLayout("local");
  readonly #module: ModuleScope;
  /** The module's variables that the kernel has named so far. */
  readonly #used = new Map<string, Variable>();
  /** Those of them that lie in shared memory that a launch adds, all at the same place. */
  readonly #dynamic: { variable: Variable & { offset: number }; alignment: number }[] = [];

  constructor(module: ModuleScope) {
    this.#module = module;
  }

  /** Places what lies behind all other shared memory. False where there is nothing. */
  placeDynamicShared(): boolean {
    if (this.#dynamic.length === 0) return false;
    const begin = this.shared.align(
      Math.max(dynamicSharedAlignment, ...this.#dynamic.map(({ alignment }) => alignment)),
    );
    for (const { variable } of this.#dynamic) variable.offset = begin;
    return true;
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
      else if (statement.kind === "instruction") this.items.push(this.#instruction(statement, scope));
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
        if (statement.space !== "shared" && statement.space !== "local") {
          throw new PtxError(statement.line, `cannot declare "${statement.name}" in ".${statement.space}" in a kernel`);
        }
        scope.declare(this[statement.space].place(statement), statement.line);
        break;
      case "directive":
        throw new PtxError(
          statement.line,
          `cannot take the directive ".${statement.name}" in a kernel: it is not known`,
        );
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

  #instruction(instruction: Instruction, scope: Scope): TypedInstruction {
    const { opcode, modifiers, line, predicate } = instruction;
    const text = [opcode, ...modifiers].join(".");
    const { form, choices } = findForm(instruction, text);
    const typeName = choices.get("type");
    return {
      kind: "instruction",
      form,
      text,
      choices,
      type: typeNamed(typeName ?? "b32"),
      operands: instruction.operands.map((operand) => this.#operand(operand, { scope, line })),
      predicate: predicate === undefined ? undefined : {
        register: this.#predicate({ kind: "name", name: predicate.name, component: undefined }, { scope, line }),
        negated: predicate.negated,
      },
      line,
    };
  }

  #operand(operand: Operand, place: { scope: Scope; line: number }): ResolvedOperand {
    switch (operand.kind) {
      case "name":
        return this.#name(operand, place);
      case "integer":
      case "float":
        return operand;
      case "vector":
        return { kind: "vector", elements: operand.elements.map((element) => this.#operand(element, place)) };
      case "not":
        return { kind: "not", register: this.#predicate(operand.operand, place) };
      case "pair":
        return {
          kind: "pair",
          first: this.#name(operand.first, place),
          second: this.#name(operand.second, place),
        };
      case "sum":
        return this.#sum(operand, place);
      case "address": {
        const base = operand.base === undefined ? undefined : this.#name(operand.base, place);
        if (base !== undefined && base.kind !== "register" && base.kind !== "variable") {
          throw new PtxError(place.line, `cannot take "${operand.base!.name}" as an address`);
        }
        return { kind: "address", base, offset: operand.offset };
      }
      case "list":
        throw new PtxError(place.line, "cannot take a list in parentheses: functions cannot be called yet");
    }
  }

  #name({ name, component }: NameOperand, { scope, line }: { scope: Scope; line: number }): ResolvedOperand {
    if (component !== undefined) return { kind: "special", name: `${name}.${component}` };
    if (name === "_") return { kind: "sink" };
    const named = scope.find(name);
    if (named !== undefined) return named;
    if (isSpecialRegister(name)) return { kind: "special", name };
    const declaration = this.#module.variables.get(name);
    if (declaration !== undefined) return this.#moduleVariable(declaration, line);
    if (this.#module.functions.has(name)) {
      throw new PtxError(line, `cannot use "${name}": functions of a module are not supported yet`);
    }
    throw new PtxError(line, `cannot find "${name}": nothing declares it`);
  }

  #sum({ name, offset }: SumOperand, place: { scope: Scope; line: number }): ResolvedOperand {
    const variable = this.#name(name, place);
    if (variable.kind === "variable") return { kind: "sum", variable, offset };
    throw new PtxError(place.line, `cannot add to "${name.name}": only the address of a variable takes an offset`);
  }

  #moduleVariable(declaration: VariableDeclaration, line: number): Variable {
    const { name } = declaration;
    const variable = this.#used.get(name) ?? this.#placeModuleVariable(declaration, line);
    this.#used.set(name, variable);
    return variable;
  }

  #placeModuleVariable(declaration: VariableDeclaration, line: number): Variable {
    const { name, space, linkage, elementCount } = declaration;
    const placed = this.#module.image.variables.get(name);
    if (placed !== undefined) return operandOf(name, placed);
    if (space !== "shared") {
      throw new PtxError(line, `cannot use "${name}": this module declares it and does not define it`);
    }
    if (linkage !== "extern" || elementCount !== 0) return this.shared.place(declaration);
    const variable: Variable & { offset: number } = { kind: "variable", name, space, offset: 0, byteLength: 0 };
    this.#dynamic.push({ variable, alignment: elementLayout(declaration).alignment });
    return variable;
  }

  #predicate(operand: NameOperand, place: { scope: Scope; line: number }): Register {
    const register = this.#name(operand, place);
    if (register.kind !== "register" || register.type.kind !== "predicate") {
      throw new PtxError(place.line, `cannot take "${operand.name}" as a predicate`);
    }
    return register;
  }
}

/** Finds the form that an instruction's modifiers and number of operands fit. */
function findForm(
  { opcode, modifiers, operands, line, predicate }: Instruction,
  text: string,
): { form: InstructionForm; choices: ReadonlyMap<string, string> } {
  const forms = formsByOpcode.get(opcode);
  if (forms === undefined) {
    throw new PtxError(
      line,
      `cannot compile "${text}": ${refusalOf(opcode) ?? `the instruction "${opcode}" is not known`}`,
    );
  }
  let furthest = 0;
  let wrongCount: InstructionForm | undefined;
  for (const form of forms) {
    const match = matchForm(form, modifiers);
    if (!match.matched) {
      furthest = Math.max(furthest, match.at);
    } else if (operands.length < form.operands[0] || operands.length > form.operands[1]) {
      wrongCount = form;
    } else {
      if (predicate !== undefined && form.flow === "switch") {
        throw new PtxError(line, `cannot compile "${text}": it cannot depend on a predicate here`);
      }
      return { form, choices: match.choices };
    }
  }
  if (wrongCount !== undefined) {
    throw new PtxError(
      line,
      `cannot compile "${text}": it has ${operands.length} operands, not as in "${wrongCount.syntax}"`,
    );
  }
  const modifier = modifiers[furthest];
  const reason = modifier === undefined
    ? "a modifier or a type is missing at its end"
    : `".${modifier}" is not supported there`;
  throw new PtxError(line, `cannot compile "${text}": ${reason}`);
}
