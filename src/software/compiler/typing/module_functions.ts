import {
  type FunctionAlias,
  type FunctionDeclaration,
  type Initializer,
  type NameOperand,
  type Operand,
  PtxError,
  type Statement,
  type VariableDeclaration,
} from "../../../ptx/syntax.ts";
import type { InstructionSet } from "./find_form.ts";
import type { FunctionName } from "../../../ptx/instructions/resolved_instruction.ts";

/**
 * The functions of a module by name, including kernels and functions that are only declared. Throws `PtxError` if a
 * function is defined twice or an alias has no target.
 */
export function functionsByName(
  declarations: readonly FunctionDeclaration[],
  aliases: readonly FunctionAlias[],
): ReadonlyMap<string, FunctionName> {
  const functions = new Map<string, FunctionName>();
  for (const declaration of declarations) {
    const { name, body, line, kind } = declaration;
    const other = functions.get(name);
    if (other?.declaration.body !== undefined && body !== undefined && kind === "func") {
      throw new PtxError(line, `cannot define the function "${name}" twice`);
    }
    if (other !== undefined && body === undefined) continue;
    functions.set(name, { kind: "function", name, declaration, index: other?.index ?? functions.size });
  }
  for (const { name, target, line } of aliases) {
    const meant = functions.get(target);
    if (meant === undefined) throw new PtxError(line, `cannot find "${target}": it is not declared`);
    functions.set(name, meant);
  }
  return functions;
}

/** The functions with a body whose address is taken, so that they may be called indirectly. */
export function addressedFunctions(
  { declarations, variables }: {
    readonly declarations: readonly FunctionDeclaration[];
    readonly variables: readonly VariableDeclaration[];
  },
  { functions, instructions }: {
    readonly functions: ReadonlyMap<string, FunctionName>;
    readonly instructions: InstructionSet;
  },
): ReadonlySet<FunctionName> {
  const addressed = new Set<FunctionName>();
  const add = (name: string) => {
    const named = functions.get(name);
    if (named?.declaration.kind === "func" && named.declaration.body !== undefined) addressed.add(named);
  };
  for (const { initializer } of variables) if (initializer !== undefined) addInitializer(initializer, add);
  for (const { body } of declarations) if (body !== undefined) addStatements(body, { add, instructions });
  return addressed;
}

function addInitializer(initializer: Initializer, add: (name: string) => void): void {
  if (initializer.kind === "addressOf") add(initializer.name);
  if (initializer.kind === "elements") { for (const element of initializer.elements) addInitializer(element, add); }
}

function addStatements(
  statements: readonly Statement[],
  { add, instructions }: { add: (name: string) => void; instructions: InstructionSet },
): void {
  for (const statement of statements) {
    if (statement.kind === "block") addStatements(statement.statements, { add, instructions });
    if (statement.kind !== "instruction") continue;
    const forms = instructions.forms.get(statement.opcode) ?? [];
    // A call names its target without taking its address.
    if (forms.length > 0 && forms.every(({ flow }) => flow === "call")) continue;
    for (const operand of statement.operands) for (const { name } of namesOf(operand)) add(name);
  }
}

function namesOf(operand: Operand): readonly NameOperand[] {
  switch (operand.kind) {
    case "name":
      return [operand];
    case "sum":
      return [operand.name];
    case "element":
      return [operand.array];
    case "vector":
    case "list":
      return operand.elements.flatMap(namesOf);
    default:
      return [];
  }
}
