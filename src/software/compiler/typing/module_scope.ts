import {
  type FunctionAlias,
  type FunctionDeclaration,
  PtxError,
  type Statement,
  type VariableDeclaration,
} from "../../../ptx/syntax.ts";
import type { InstructionSet } from "./find_form.ts";
import { addressedFunctions, functionsByName } from "./module_functions.ts";
import { layOutImage, type ModuleImage, variablesByName } from "./module_image.ts";
import type { FunctionName } from "../../../ptx/instructions/resolved_instruction.ts";

/** What a module declares. */
export interface ModuleScope {
  readonly instructions: InstructionSet;
  readonly image: ModuleImage;
  readonly functions: ReadonlyMap<string, FunctionName>;
  /** The functions that can be called by address. */
  readonly addressed: ReadonlySet<FunctionName>;
  /** All variables: those in the image, those in `.shared`, and those that the module only declares. */
  readonly variables: ReadonlyMap<string, VariableDeclaration>;
  /** The variables in `.global` and `.const` that functions declare, as they are declared in the image. */
  readonly ofFunctions: ReadonlyMap<VariableDeclaration, VariableDeclaration>;
}

/** What a module declares, with the places of its variables. Throws `PtxError` for a declaration that is not PTX. */
export function moduleScope(
  { functions: declarations, variables: declared, aliases }: {
    readonly functions: readonly FunctionDeclaration[];
    readonly variables: readonly VariableDeclaration[];
    readonly aliases: readonly FunctionAlias[];
  },
  instructions: InstructionSet,
): ModuleScope {
  const variables = variablesByName(declared);
  const functions = functionsByName(declarations, aliases);
  for (const [name, { line }] of variables) {
    if (functions.has(name)) throw new PtxError(line, `cannot declare both a variable and a function "${name}"`);
  }
  const ofFunctions = variablesOfFunctions(declarations);
  const image = layOutImage([...variables.values(), ...ofFunctions.values()], functions);
  const addressed = addressedFunctions({ declarations, variables: [...declared, ...ofFunctions.values()] }, {
    functions,
    instructions,
  });
  return { image, variables, ofFunctions, functions, addressed, instructions };
}

/**
 * The variables in `.global` and `.const` that functions declare, each with a name that no other has. They live as long
 * as those of the module.
 */
function variablesOfFunctions(
  declarations: readonly FunctionDeclaration[],
): ReadonlyMap<VariableDeclaration, VariableDeclaration> {
  const found = new Map<VariableDeclaration, VariableDeclaration>();
  const visit = (statements: readonly Statement[], owner: string): void => {
    for (const statement of statements) {
      if (statement.kind === "block") visit(statement.statements, owner);
      if (statement.kind !== "variable" || (statement.space !== "global" && statement.space !== "const")) continue;
      found.set(statement, { ...statement, name: `${owner}.${statement.name}.${found.size}` });
    }
  };
  for (const { name, body } of declarations) if (body !== undefined) visit(body, name);
  return found;
}
