/**
 * Resolves functions and variables that several modules declare, and reports references to symbols that no module
 * defines. Reports the errors that nvlink reports, with nvlink's messages.
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
import { byteLengthOfVariable } from "../../../ptx/instructions/names.ts";
import { scalarTypes } from "../../../ptx/instructions/scalar_types.ts";

/** Thrown if modules cannot be linked, for example because of an undefined symbol. */
export class LinkError extends Error {
  override readonly name = "LinkError";
}

/** A declaration, and the name of the module that contains it. */
export interface OwnedDeclaration<T> {
  readonly value: T;
  readonly owner: string;
}

/** Returns one declaration of each function: its definition, if there is one. Appends conflicts to `problems`. */
export function mergeFunctions(
  declarations: readonly OwnedDeclaration<FunctionDeclaration>[],
  problems: string[],
): OwnedDeclaration<FunctionDeclaration>[] {
  return [...groupByName(declarations).values()].map((group) => {
    const [first] = group;
    for (const other of group) {
      if (samePrototype(first!.value, other.value)) continue;
      problems.push(
        `Prototype doesn't match for '${first!.value.name}' in '${other.owner}', first in '${first!.owner}'`,
      );
    }
    return chooseDefinition(group.filter(({ value }) => value.body !== undefined), problems) ?? first!;
  });
}

/** Returns one declaration of each variable: its definition, if there is one. Appends conflicts to `problems`. */
export function mergeVariables(
  declarations: readonly OwnedDeclaration<VariableDeclaration>[],
  problems: string[],
): OwnedDeclaration<VariableDeclaration>[] {
  return [...groupByName(declarations).values()].map((group) => {
    const [first] = group;
    for (const other of group) {
      const difference = differenceOf(first!.value, other.value);
      if (difference === undefined) continue;
      const { name } = other.value;
      problems.push(
        `${difference} doesn't match for '${name}' in '${other.owner}', first specified in '${first!.owner}'`,
      );
    }
    const definitions = group.filter(({ value }) => value.linkage !== "extern");
    return chooseDefinition(definitions.filter(({ value }) => value.linkage !== "common"), problems) ??
      largest(definitions.length > 0 ? definitions : group);
  });
}

function groupByName<T extends { readonly name: string }>(
  declarations: readonly OwnedDeclaration<T>[],
): Map<string, OwnedDeclaration<T>[]> {
  const groups = new Map<string, OwnedDeclaration<T>[]>();
  for (const owned of declarations) {
    const group = groups.get(owned.value.name);
    if (group === undefined) groups.set(owned.value.name, [owned]);
    else group.push(owned);
  }
  return groups;
}

/**
 * Returns the strong definition, or the first weak one if there is none. Appends an error to `problems` for each
 * further strong definition.
 */
function chooseDefinition<T extends { readonly name: string; readonly linkage: string | undefined }>(
  definitions: readonly OwnedDeclaration<T>[],
  problems: string[],
): OwnedDeclaration<T> | undefined {
  const strong = definitions.filter(({ value }) => value.linkage !== "weak");
  for (const { value, owner } of strong.slice(1)) {
    problems.push(`Multiple definition of '${value.name}' in '${owner}', first defined in '${strong[0]!.owner}'`);
  }
  return strong[0] ?? definitions[0];
}

/**
 * Returns the largest of several declarations that are merged, which declare a common variable or dynamic shared
 * memory.
 */
function largest(
  declarations: readonly OwnedDeclaration<VariableDeclaration>[],
): OwnedDeclaration<VariableDeclaration> {
  const key = ({ value }: OwnedDeclaration<VariableDeclaration>) => [sizeOf(value) ?? 0, value.alignment ?? 0] as const;
  return declarations.reduce((best, other) => {
    const [[bestSize, bestAlignment], [size, alignment]] = [key(best), key(other)];
    return size > bestSize || (size === bestSize && alignment > bestAlignment) ? other : best;
  });
}

function differenceOf(one: VariableDeclaration, other: VariableDeclaration): string | undefined {
  if (one.space !== other.space) return "Memory space";
  if (one.linkage === "common" && other.linkage === "common") return undefined;
  const [size, otherSize] = [sizeOf(one), sizeOf(other)];
  return size === undefined || otherSize === undefined || size === otherSize ? undefined : "Size";
}

/**
 * Returns the size of a variable, in bytes. Undefined for an array without a length, whose size the definition or the
 * launch determines, for a predicate, and for a type that the device does not support, such as a texture.
 */
function sizeOf(declaration: VariableDeclaration): number | undefined {
  return declaration.elementCount === 0 || !scalarTypes.has(declaration.type) || declaration.type === "pred"
    ? undefined
    : byteLengthOfVariable(declaration);
}

/**
 * Whether two prototypes are compatible: they have the same number of values, and values in the same position have the
 * same size and kind (float, array, or other).
 */
function samePrototype(one: FunctionDeclaration, other: FunctionDeclaration): boolean {
  const [first, second] = [one, other].map(({ kind, results, parameters }) =>
    [kind, results.map(passedAs).join(), parameters.map(passedAs).join()].join(";")
  );
  return first === second;
}

function passedAs(variable: VariableDeclaration): string {
  const kind = variable.elementCount !== undefined ? "array" : /^b?f/.test(variable.type) ? "float" : "bits";
  return `${kind} ${sizeOf(variable)}`;
}

/**
 * Functions that CUDA's device runtime defines, so that linking does not require a definition. If the software device
 * lacks one of them, kernels that call the function fail to compile after linking.
 */
const systemFunctions: ReadonlySet<string> = new Set([
  "vprintf",
  "__assertfail",
  "malloc",
  "__cuda_syscall_aligned_malloc",
  "free",
  "cudaGraphSetConditional",
]);

/** Linked functions and variables. */
export interface LinkedSymbols {
  readonly functions: readonly OwnedDeclaration<FunctionDeclaration>[];
  readonly variables: readonly OwnedDeclaration<VariableDeclaration>[];
  readonly aliases: readonly FunctionAlias[];
}

/**
 * Returns the names of the functions that a module uses and declares without `.extern`, but does not define. ptxas
 * reports an error for such a module before it is linked.
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
 * Returns an error message for each undefined symbol: a function that is used, or a variable that is declared, but that
 * no module defines. As in nvlink, an unused function may be undefined.
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
  } else if (operand.kind === "coordinates") {
    for (const part of [operand.base, ...operand.parts]) visitOperand(part, visit);
  }
}

function visitInitializer(initializer: Initializer, visit: (name: string) => void): void {
  if (initializer.kind === "addressOf") visit(initializer.name);
  else if (initializer.kind === "elements") {
    for (const element of initializer.elements) visitInitializer(element, visit);
  }
}
