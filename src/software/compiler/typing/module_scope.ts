/**
 * Collects the declarations of a module: its variables, its functions, and the functions that may be called indirectly.
 *
 * @module
 */
import {
  type FunctionAlias,
  type FunctionDeclaration,
  type Initializer,
  type NameOperand,
  type Operand,
  PtxError,
  type PtxHeader,
  type RegisterDeclaration,
  type Statement,
  type VariableDeclaration,
} from "../../../ptx/syntax.ts";
import type { InstructionSet } from "./find_form.ts";
import { layOutImage, type ModuleImage, variablesByName } from "./module_image.ts";
import { dialectOf, type PtxDialect } from "./supported_ptx.ts";
import type { FunctionName } from "../../../ptx/instructions/resolved_instruction.ts";

/** The declarations of a module, and the instruction set to resolve its code against. */
export interface ModuleScope {
  readonly instructions: InstructionSet;
  readonly dialect: PtxDialect;
  readonly image: ModuleImage;
  readonly functions: ReadonlyMap<string, FunctionName>;
  /** The functions whose address is taken, so that they may be called indirectly. */
  readonly addressed: ReadonlySet<FunctionName>;
  /** The variables at module scope by name: those in the image, those in `.shared`, and `.extern` declarations. */
  readonly variables: ReadonlyMap<string, VariableDeclaration>;
  /** The registers that the module declares outside functions. */
  readonly registers: readonly RegisterDeclaration[];
  /**
   * Maps `.global` and `.const` variables that functions declare to copies with unique names, which are in the image.
   */
  readonly ofFunctions: ReadonlyMap<VariableDeclaration, VariableDeclaration>;
}

/**
 * Collects a module's declarations, and lays out its variables. Throws `PtxError` if a declaration is not valid PTX.
 */
export function moduleScope(
  { functions: declarations, variables: declared, registers, aliases, ...header }: PtxHeader & {
    readonly functions: readonly FunctionDeclaration[];
    readonly variables: readonly VariableDeclaration[];
    readonly registers: readonly RegisterDeclaration[];
    readonly aliases: readonly FunctionAlias[];
  },
  instructions: InstructionSet,
): ModuleScope {
  // Since PTX 3.0, functions follow an ABI, which does not allow registers or `.local` variables at module scope.
  const dialect = dialectOf(header);
  const hasThreadState = dialect.version < 3;
  if (!hasThreadState && registers[0] !== undefined) {
    throw new PtxError(registers[0].line, "cannot declare registers outside a function: only PTX before 3.0 can");
  }
  const variables = variablesByName(declared, { allowsLocal: hasThreadState });
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
  return { image, variables, registers, ofFunctions, functions, addressed, instructions, dialect };
}

/**
 * Maps the `.global` and `.const` variables that functions declare to copies with unique names. The copies have the
 * same lifetime as the module's variables.
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

/**
 * Returns the functions of a module by name, including kernels and functions that are only declared. Throws `PtxError`
 * if a function is defined twice or the target of an alias is not declared.
 */
function functionsByName(
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

/** Returns the functions with a body whose address is taken, so that they may be called indirectly. */
function addressedFunctions(
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
  if (!declarations.some(({ kind, body }) => kind === "func" && body !== undefined)) return addressed;
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
    case "coordinates":
      return [operand.base, ...operand.parts.flatMap(namesOf)];
    default:
      return [];
  }
}
