/**
 * What linked modules refer to and none of them defines.
 *
 * @module
 */
import type {
  FunctionAlias,
  FunctionDeclaration,
  Initializer,
  Operand,
  PtxModule,
  Statement,
  VariableDeclaration,
} from "../../../ptx/syntax.ts";
import type { Owned } from "./symbols.ts";

/** Functions that the device itself has, or would have: a kernel that calls one is refused later, by name. */
const systemFunctions: ReadonlySet<string> = new Set([
  "vprintf",
  "__assertfail",
  "malloc",
  "__cuda_syscall_aligned_malloc",
  "free",
]);

/** Linked functions and variables. */
export interface LinkedSymbols {
  readonly functions: readonly Owned<FunctionDeclaration>[];
  readonly variables: readonly Owned<VariableDeclaration>[];
  readonly aliases: readonly FunctionAlias[];
}

/**
 * The names in a module of functions that it uses and declares without `.extern`, but does not define. ptxas refuses such
 * a module before it is linked.
 */
export function unresolvedFunctions({ functions, variables, aliases }: PtxModule): string[] {
  const names = new Set(functions.filter(({ linkage }) => linkage !== "extern").map(({ name }) => name));
  for (const { name, body } of functions) if (body !== undefined) names.delete(name);
  for (const { name } of aliases) names.delete(name);
  const used = new Set<string>();
  if (names.size > 0) visitAll({ functions, variables }, (name) => names.has(name) && used.add(name));
  return [...used];
}

function visitAll(
  { functions, variables }: Pick<PtxModule, "functions" | "variables">,
  visit: (name: string) => void,
): void {
  for (const { body } of functions) if (body !== undefined) visitStatements(body, visit);
  for (const { initializer } of variables) if (initializer !== undefined) visitInitializer(initializer, visit);
}

/**
 * A message for each function that is used, and each variable that is declared, and that no module defines. A function
 * that is only declared does no harm, as with nvlink.
 */
export function findUndefined({ functions, variables, aliases }: LinkedSymbols): string[] {
  const missing = new Map<string, string>();
  for (const { value: { name, linkage, space, elementCount }, owner } of variables) {
    const isDynamicShared = space === "shared" && elementCount === 0;
    if (linkage === "extern" && !isDynamicShared) missing.set(name, owner);
  }
  const defined = new Set(aliases.map(({ name }) => name));
  for (const { value: { name, body } } of functions) if (body !== undefined) defined.add(name);
  const declared = functions.filter(({ value: { name } }) => !defined.has(name) && !systemFunctions.has(name));
  const undefinedNames = new Set(declared.map(({ value }) => value.name));
  if (undefinedNames.size > 0) {
    const use = (owner: string) => (name: string) => {
      if (undefinedNames.has(name) && !missing.has(name)) missing.set(name, owner);
    };
    for (const { value: { body }, owner } of functions) if (body !== undefined) visitStatements(body, use(owner));
    for (const { value: { initializer }, owner } of variables) {
      if (initializer !== undefined) visitInitializer(initializer, use(owner));
    }
  }
  return [...missing].map(([name, owner]) => `Undefined reference to '${name}' in '${owner}'`);
}

function visitStatements(statements: readonly Statement[], visit: (name: string) => void): void {
  for (const statement of statements) {
    if (statement.kind === "block") visitStatements(statement.statements, visit);
    else if (statement.kind === "callTargets") statement.targets.forEach(visit);
    else if (statement.kind === "instruction") {
      for (const operand of statement.operands) visitOperand(operand, visit);
    }
  }
}

function visitOperand(operand: Operand, visit: (name: string) => void): void {
  if (operand.kind === "name") visit(operand.name);
  else if (operand.kind === "sum") visit(operand.name.name);
  else if (operand.kind === "element") visit(operand.array.name);
  else if (operand.kind === "vector" || operand.kind === "list") {
    for (const element of operand.elements) visitOperand(element, visit);
  }
}

function visitInitializer(initializer: Initializer, visit: (name: string) => void): void {
  if (initializer.kind === "addressOf") visit(initializer.name);
  else if (initializer.kind === "elements") {
    for (const element of initializer.elements) visitInitializer(element, visit);
  }
}
