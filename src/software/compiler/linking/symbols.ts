/**
 * What becomes of the functions and variables that several modules declare. Where nvlink refuses, so does this, in
 * nvlink's words.
 *
 * @module
 */
import type { FunctionDeclaration, VariableDeclaration } from "../../../ptx/syntax.ts";
import { byteLengthOf } from "../../../ptx/instructions/names.ts";
import { scalarTypes } from "../../../ptx/instructions/scalar_types.ts";

/** Modules do not fit together. */
export class LinkError extends Error {
  override readonly name = "LinkError";
}

/** A declaration, and the name of the module that it stands in. */
export interface Owned<T> {
  readonly value: T;
  readonly owner: string;
}

/** One declaration of each function: its definition if there is one. */
export function mergeFunctions(
  declarations: readonly Owned<FunctionDeclaration>[],
  problems: string[],
): Owned<FunctionDeclaration>[] {
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

/** One declaration of each variable: its definition if there is one. */
export function mergeVariables(
  declarations: readonly Owned<VariableDeclaration>[],
  problems: string[],
): Owned<VariableDeclaration>[] {
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

function groupByName<T extends { readonly name: string }>(declarations: readonly Owned<T>[]): Map<string, Owned<T>[]> {
  const groups = new Map<string, Owned<T>[]>();
  for (const owned of declarations) {
    const group = groups.get(owned.value.name);
    if (group === undefined) groups.set(owned.value.name, [owned]);
    else group.push(owned);
  }
  return groups;
}

/** The definition that is not weak, or else the first. */
function chooseDefinition<T extends { readonly name: string; readonly linkage: string | undefined }>(
  definitions: readonly Owned<T>[],
  problems: string[],
): Owned<T> | undefined {
  const strong = definitions.filter(({ value }) => value.linkage !== "weak");
  for (const { value, owner } of strong.slice(1)) {
    problems.push(`Multiple definition of '${value.name}' in '${owner}', first defined in '${strong[0]!.owner}'`);
  }
  return strong[0] ?? definitions[0];
}

/** Common variables are merged to one that has room for each. So are declarations of dynamic shared memory. */
function largest(declarations: readonly Owned<VariableDeclaration>[]): Owned<VariableDeclaration> {
  const key = ({ value }: Owned<VariableDeclaration>) => [sizeOf(value) ?? 0, value.alignment ?? 0] as const;
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
 * Undefined if a declaration leaves it to the definition, or to the launch, or if the device does not know the type, such
 * as a texture's.
 */
function sizeOf(declaration: VariableDeclaration): number | undefined {
  return declaration.elementCount === 0 || !scalarTypes.has(declaration.type) ? undefined : byteLengthOf(declaration);
}

/** Whether calls pass the same: as many values of the same sizes, each a float, an array or neither. */
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
