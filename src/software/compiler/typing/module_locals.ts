/**
 * The `.local` variables and the registers that modules declare outside functions. Only PTX before 3.0 has them. Each
 * thread has one of each, which all functions that it executes share.
 *
 * @module
 */
import { registersOf, registersOfInstruction } from "../../../ptx/analysis/definitions_and_uses.ts";
import { InsertedInstructions } from "../../../ptx/analysis/inserted_instructions.ts";
import { Scope, SpaceLayout } from "../../../ptx/instructions/names.ts";
import type { LabelName, Register, Variable } from "../../../ptx/instructions/resolved_instruction.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import type { Instruction, RegisterDeclaration, VariableDeclaration } from "../../../ptx/syntax.ts";
import { roundUp } from "../../../support/rounding.ts";
import type { CompiledInstruction, InstructionForm } from "../instructions/instruction_form.ts";
import { passedOperands } from "./call_layout.ts";
import { type InstructionSet, resolveForm } from "./find_form.ts";
import { numberOfPredicate, predicateOf, registerTypeName } from "./passed_registers.ts";
import type { ResolvedFunction } from "./resolver.ts";

type MovableVariable = Variable & { offset: number };

/**
 * Lays out the `.local` variables of a module that a kernel and its functions use, at the end of the kernel's frame.
 */
export class ModuleLocalLayout {
  readonly #layout = new SpaceLayout("local", { isInFrame: true });
  readonly #placed = new Map<string, MovableVariable>();

  /** The largest alignment of the variables, in bytes. */
  get alignment(): number {
    return this.#layout.alignment;
  }

  /** Returns a variable of the module. Its offset is not final until {@linkcode placeAfter}. */
  place(declaration: VariableDeclaration): Variable {
    const { name } = declaration;
    let variable = this.#placed.get(name);
    if (variable === undefined) {
      variable = { ...this.#layout.place(declaration), isInKernelFrame: true };
      this.#placed.set(name, variable);
    }
    return variable;
  }

  /**
   * Places all variables after the first `byteLength` bytes of the kernel's frame. Returns the size of the frame in
   * bytes, including the variables.
   */
  placeAfter(byteLength: number): number {
    if (this.#placed.size === 0) return byteLength;
    const begin = roundUp(byteLength, this.alignment);
    for (const variable of this.#placed.values()) variable.offset += begin;
    return begin + this.#layout.byteLength;
  }
}

/** Returns a scope with the registers of a module, for one function. */
export function registerScope(declarations: readonly RegisterDeclaration[]): Scope {
  const scope = new Scope();
  for (const declaration of declarations) scope.declareRegisters(declaration);
  return scope;
}

/** A function, and its own copies of the module's registers. */
export interface RegisterUser {
  readonly resolved: ResolvedFunction;
  readonly registers: Scope;
}

/**
 * Makes functions share the module's registers: the registers that a callee uses are stored to `.local` memory where
 * control leaves a function, and loaded where control enters the function again. Returns the functions with these
 * instructions.
 */
export function shareRegisters(
  users: readonly RegisterUser[],
  { locals, instructions }: { locals: ModuleLocalLayout; instructions: InstructionSet },
): ResolvedFunction[] {
  if (users.every(({ registers }) => registers.registers().length === 0)) return users.map(({ resolved }) => resolved);
  const used = users.map(usedRegisters);
  const names = new Set(users.flatMap(({ resolved }, index) => {
    return resolved.call === undefined ? [] : used[index]!.map(({ name }) => name);
  }));
  return users.map(({ resolved }, index) => {
    const shared = used[index]!.filter(({ name }) => names.has(name));
    return shared.length === 0 ? resolved : withAccesses(resolved, { shared, locals, instructions });
  });
}

function usedRegisters({ resolved: { items }, registers }: RegisterUser): Register[] {
  const used = new Set(items.flatMap((item) => item.kind === "label" ? [] : registersOfInstruction(item)));
  return registers.registers().filter((register) => used.has(register));
}

function withAccesses(
  resolved: ResolvedFunction,
  { shared, locals, instructions }: {
    shared: readonly Register[];
    locals: ModuleLocalLayout;
    instructions: InstructionSet;
  },
): ResolvedFunction {
  const items: (CompiledInstruction | LabelName)[] = [];
  const isCallee = resolved.call !== undefined;
  const at = (line: number) =>
    new InsertedInstructions<InstructionForm>(items, {
      resolveForm: (instruction: Instruction) => resolveForm(instruction, instructions),
      line,
    });
  const addressOf = (register: Register) =>
    ({ kind: "address", base: locals.place(variableFor(register)), offset: 0n }) as const;
  const load = (line: number, results: readonly Register[] = []) => {
    for (const register of shared) {
      if (results.includes(register)) continue;
      const text = `ld.local.${registerTypeName(register.type)}`;
      if (register.type.kind === "predicate") {
        predicateOf(at(line), register, at(line).add(text, typeNamed("u32"), [addressOf(register)]));
      } else at(line).addTo(text, [register, addressOf(register)]);
    }
  };
  const store = (line: number) => {
    for (const register of shared) {
      const stored = register.type.kind === "predicate" ? numberOfPredicate(at(line), register) : register;
      at(line).addTo(`st.local.${registerTypeName(register.type)}`, [addressOf(register), stored]);
    }
  };
  if (isCallee) load(resolved.line);
  for (const item of resolved.items) {
    const flow = item.kind === "label" ? undefined : item.form.flow;
    const { line } = item.kind === "label" ? resolved : item;
    if (flow === "call" || (flow === "return" && isCallee)) store(line);
    items.push(item);
    // The results of a call are newer than what the callee has stored.
    if (item.kind !== "label" && flow === "call") load(line, passedOperands(item).results.flatMap(registersOf));
  }
  if (isCallee) store(resolved.line);
  return { ...resolved, items };
}

/** Returns the declaration of the variable that holds a register while other functions run. */
function variableFor({ name, type }: Register): VariableDeclaration {
  return {
    kind: "variable",
    name: `the register ${name}`,
    space: "local",
    linkage: undefined,
    type: registerTypeName(type),
    vectorLength: 1,
    dimensions: [],
    elementCount: undefined,
    alignment: undefined,
    initializer: undefined,
    line: 0,
  };
}
