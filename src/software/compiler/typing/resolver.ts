import { didYouMean } from "../../../support/nearest_name.ts";
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
} from "../../../ptx/syntax.ts";
import { hasModifier, matchForm } from "./form_syntax.ts";
import type { InstructionForm } from "../instructions/instruction_form.ts";
import type { InstructionSet } from "./instruction_set.ts";
import { type ModuleImage, operandOf } from "./module_image.ts";
import { type CallLayout, callTarget, frameAlignment, layOutCall } from "./call_layout.ts";
import {
  elementLayout,
  type FunctionName,
  type LabelName,
  type Register,
  Scope,
  SpaceLayout,
  type Variable,
} from "./names.ts";
import { typeNamed } from "./scalar_types.ts";
import { refuseWide, withSelectors } from "./selected_operands.ts";
import { UnsupportedPtxError } from "./supported_ptx.ts";
import type { ResolvedInstruction, ResolvedOperand } from "./resolved_instruction.ts";

/** A function's body as a sequence of instructions and labels. */
export interface ResolvedFunction {
  readonly name: string;
  readonly line: number;
  /** The layout of its results and parameters. Undefined for a kernel. */
  readonly call: CallLayout | undefined;
  readonly items: readonly (ResolvedInstruction | LabelName)[];
  /** The bytes of its variables in `.local`, and of the parameters and results in its frame. */
  readonly variableBytes: number;
  /** The same, rounded up to the alignment of frames. */
  readonly frameBytes: number;
}

/** A function's instructions, without its labels. */
export function instructionsOf({ items }: ResolvedFunction): ResolvedInstruction[] {
  return items.filter((item) => item.kind === "instruction");
}

/** A kernel, and the functions that it may call, directly or not. */
export interface ResolvedKernel {
  readonly kernel: ResolvedFunction;
  readonly callees: ReadonlyMap<FunctionName, ResolvedFunction>;
  readonly sharedBytes: number;
  /** Whether it uses dynamic shared memory. */
  readonly usesDynamicShared: boolean;
}

/** What a module declares. */
export interface ModuleScope {
  readonly instructions: InstructionSet;
  readonly image: ModuleImage;
  readonly functions: ReadonlyMap<string, FunctionName>;
  /** The functions that can be called by address. */
  readonly addressed: ReadonlySet<FunctionName>;
  /** All variables: those in the image, those in `.shared`, and those that the module only declares. */
  readonly variables: ReadonlyMap<string, VariableDeclaration>;
}

/** The layout of a kernel's parameters, and the module around the kernel. */
export interface KernelContext {
  readonly parameters: readonly Variable[];
  readonly module: ModuleScope;
}

/**
 * Resolves a kernel's body and those of the functions that it may call: their names, and each instruction's form.
 * Throws `PtxError` for an undeclared name or an unknown instruction, and `UnsupportedPtxError` for what the device does
 * not support.
 */
export function resolveKernel(declaration: FunctionDeclaration, context: KernelContext): ResolvedKernel {
  const { resolved, unsupported } = surveyKernel(declaration, context);
  if (unsupported[0] !== undefined) throw unsupported[0];
  return resolved;
}

/**
 * Resolves a kernel as far as it is supported, and lists what is not: `resolved` lacks these instructions. Throws
 * `PtxError` as `resolveKernel` does.
 */
export function surveyKernel(
  declaration: FunctionDeclaration,
  { parameters, module }: KernelContext,
): { readonly resolved: ResolvedKernel; readonly unsupported: readonly UnsupportedPtxError[] } {
  const shared = new SharedLayout();
  const unsupported: UnsupportedPtxError[] = [];
  const scope = new Scope();
  for (const parameter of parameters) scope.declare(parameter, declaration.line);
  const kernel = resolveFunction(declaration, { scope, module, shared, unsupported, call: undefined });
  const callees = new Map<FunctionName, ResolvedFunction>();
  const waiting = calledBy(kernel, module);
  for (let callee = waiting.pop(); callee !== undefined; callee = waiting.pop()) {
    if (callees.has(callee)) continue;
    const call = layOutCall(callee.declaration);
    const scope = new Scope();
    for (const variable of [...call.results, ...call.parameters]) scope.declare(variable, callee.declaration.line);
    const resolved = resolveFunction(callee.declaration, { scope, module, shared, unsupported, call });
    callees.set(callee, resolved);
    waiting.push(...calledBy(resolved, module));
  }
  const usesDynamicShared = shared.placeDynamic();
  return { resolved: { kernel, callees, sharedBytes: shared.byteLength, usesDynamicShared }, unsupported };
}

function resolveFunction(
  { name, line, body, directives }: FunctionDeclaration,
  { scope, module, shared, unsupported, call }: {
    scope: Scope;
    module: ModuleScope;
    shared: SharedLayout;
    /** Where what is not supported is added. */
    unsupported: UnsupportedPtxError[];
    call: CallLayout | undefined;
  },
): ResolvedFunction {
  for (const directive of directives) {
    if (call !== undefined && !functionDirectives.has(directive.name)) {
      throw new PtxError(directive.line, `cannot use the directive ".${directive.name}": it is not known`);
    }
  }
  const frame = new SpaceLayout("local", { isInFrame: true, begin: call?.byteLength ?? 0 });
  const resolver = new BodyResolver(module, { shared, frame, unsupported });
  resolver.statements(body!, scope);
  const variableBytes = frame.byteLength;
  return { name, line, call, items: resolver.items, variableBytes, frameBytes: frame.align(frameAlignment) };
}

/** Directives on a function that do not change what it does. */
const functionDirectives: ReadonlySet<string> = new Set([
  "noreturn",
  "noinline",
  "unified",
  "pragma",
  "maxnreg",
  "abi_preserve",
  "abi_preserve_control",
]);

/** The scope and the line of an operand, and the form of its instruction. */
interface OperandContext {
  readonly scope: Scope;
  readonly line: number;
  readonly form: InstructionForm;
}

/** The functions with a body that a function may call. */
function calledBy({ items }: ResolvedFunction, { addressed }: ModuleScope): FunctionName[] {
  const called: FunctionName[] = [];
  for (const item of items) {
    if (item.kind === "label" || item.form.flow !== "call") continue;
    const target = callTarget(item);
    if (target.kind !== "function") called.push(...addressed);
    else if (target.declaration.body !== undefined) called.push(target);
  }
  return called;
}

/** The minimum alignment of dynamic shared memory, as measured on an H100. */
const dynamicSharedAlignment = 16;

/** The shared memory of a kernel and of the functions that it may call. */
class SharedLayout {
  readonly #layout = new SpaceLayout("shared");
  /** The module's variables that have been placed, by name. */
  readonly #placed = new Map<string, Variable>();
  /** Variables in dynamic shared memory, which all have the same offset. */
  readonly #dynamic: { variable: Variable & { offset: number }; alignment: number }[] = [];

  get byteLength(): number {
    return this.#layout.byteLength;
  }

  /** Places a variable that a function declares. */
  place(declaration: VariableDeclaration): Variable {
    return this.#layout.place(declaration);
  }

  /** Places a variable that the module declares, unless it has been placed already. */
  placeOfModule(declaration: VariableDeclaration): Variable {
    const { name } = declaration;
    const variable = this.#placed.get(name) ?? this.#placeNew(declaration);
    this.#placed.set(name, variable);
    return variable;
  }

  #placeNew(declaration: VariableDeclaration): Variable {
    const { name, space, linkage, elementCount } = declaration;
    if (linkage !== "extern" || elementCount !== 0) return this.#layout.place(declaration);
    const variable: Variable & { offset: number } = { kind: "variable", name, space, offset: 0, byteLength: 0 };
    this.#dynamic.push({ variable, alignment: elementLayout(declaration).alignment });
    return variable;
  }

  /** Places dynamic shared memory behind all other. Returns whether there is any. */
  placeDynamic(): boolean {
    if (this.#dynamic.length === 0) return false;
    const begin = this.#layout.align(
      Math.max(dynamicSharedAlignment, ...this.#dynamic.map(({ alignment }) => alignment)),
    );
    for (const { variable } of this.#dynamic) variable.offset = begin;
    return true;
  }
}

class BodyResolver {
  readonly items: (ResolvedInstruction | LabelName)[] = [];
  readonly #module: ModuleScope;
  readonly #shared: SharedLayout;
  readonly #frame: SpaceLayout;
  readonly #unsupported: UnsupportedPtxError[];

  constructor(
    module: ModuleScope,
    { shared, frame, unsupported }: { shared: SharedLayout; frame: SpaceLayout; unsupported: UnsupportedPtxError[] },
  ) {
    this.#module = module;
    this.#shared = shared;
    this.#frame = frame;
    this.#unsupported = unsupported;
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

  /** Continues after an instruction that is not supported, because what is not PTX may follow. */
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
      case "callTargets":
        scope.declare({ kind: "prototype", name: statement.name, declaration: statement }, statement.line);
        break;
      case "directive":
        throw new PtxError(
          statement.line,
          `cannot use the directive ".${statement.name}" in a function: it is not known`,
        );
    }
  }

  #placeVariable(declaration: VariableDeclaration): Variable {
    const { name, space, line } = declaration;
    if (space === "shared") return this.#shared.place(declaration);
    if (space === "local" || space === "param") {
      if (elementLayout(declaration).alignment <= frameAlignment) return this.#frame.place(declaration);
      throw new UnsupportedPtxError(line, `cannot align "${name}" to more than ${frameAlignment} bytes in ".${space}"`);
    }
    throw new UnsupportedPtxError(line, `cannot declare "${name}" in ".${space}" in a function`);
  }

  #declareTargets({ name, targets, line }: BranchTargets, scope: Scope): void {
    const labels = targets.map((target) => {
      const label = scope.find(target);
      if (label?.kind !== "label") throw new PtxError(line, `cannot find the label "${target}"`);
      return label;
    });
    scope.declare({ kind: "labels", name, labels }, line);
  }

  #instruction(instruction: Instruction, scope: Scope): ResolvedInstruction {
    const { opcode, modifiers, line, predicate } = instruction;
    const text = [opcode, ...modifiers].join(".");
    const { form, choices: chosen } = findForm(instruction, { text, instructions: this.#module.instructions });
    const { choices, operands } = form.takesSelectors
      ? withSelectors(instruction, chosen)
      : { choices: chosen, operands: instruction.operands };
    const resolved = operands.map((operand) => this.#operand(operand, { scope, line, form }));
    if (!choices.has("b128")) refuseWide(resolved, { line, text });
    const type = typeNamed(choices.get("type") ?? "b32");
    const from = choices.get("from");
    return {
      kind: "instruction",
      form,
      text,
      choices,
      type,
      sourceType: from === undefined ? type : typeNamed(from),
      operands: resolved,
      predicate: predicate === undefined ? undefined : {
        register: this.#predicate({ kind: "name", name: predicate.name, component: undefined }, {
          scope,
          line,
          form,
        }),
        negated: predicate.negated,
      },
      line,
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
    if (component !== undefined) {
      if (scope.find(name) === undefined) return { kind: "special", name: `${name}.${component}` };
      throw new PtxError(
        line,
        `cannot use "${name}.${component}" as an operand of "${syntax}": only special registers, such as %tid.x, have ` +
          "components",
      );
    }
    if (name === "_") return { kind: "sink" };
    const named = scope.find(name);
    if (named !== undefined) return named;
    if (this.#module.instructions.isSpecialRegister(name)) return { kind: "special", name };
    const declaration = this.#module.variables.get(name);
    if (declaration !== undefined) return this.#moduleVariable(declaration, line);
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
    const variable = this.#name(name, where);
    if (variable.kind === "variable") return { kind: "sum", variable, offset };
    throw new UnsupportedPtxError(
      where.line,
      `cannot add to "${name.name}": only the address of a variable can have an offset`,
    );
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

  #predicate(operand: NameOperand, where: OperandContext): Register {
    const register = this.#name(operand, where);
    if (register.kind !== "register" || register.type.kind !== "predicate") {
      throw new PtxError(where.line, `cannot use "${operand.name}" as a predicate`);
    }
    return register;
  }
}

/** Finds the form that fits an instruction's modifiers and number of operands. */
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
  // The instruction has this modifier. Whether it has it together with the others cannot be told.
  const section = nearest?.section;
  throw UnsupportedPtxError.ofInstruction(line, { text, section, reason: `".${modifier}" is not supported here` });
}
