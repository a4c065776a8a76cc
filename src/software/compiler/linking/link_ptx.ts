/**
 * Links PTX modules into one, as a GPU's linker links the machine code compiled from each: a symbol with a linkage
 * directive is global, and any other symbol is local to its module.
 *
 * Every module is parsed twice. The first pass finds the global and local symbols of each module. The second pass
 * renames local symbols that conflict with those of other modules, and numbers the lines of all modules consecutively,
 * so that a line number identifies the module.
 *
 * @module
 */
import { parsePtx } from "../../../ptx/parsing/parser.ts";
import { PtxError, type PtxModule } from "../../../ptx/syntax.ts";
import { checkHeader } from "../typing/supported_ptx.ts";
import { type CompiledModule, compilePtx, type DeferredKernel } from "../compile.ts";
import {
  findUndefined,
  LinkError,
  mergeFunctions,
  mergeVariables,
  type OwnedDeclaration,
  unresolvedFunctions,
} from "./symbols.ts";
import { LineInfo } from "../../../ptx/line_info.ts";

export { LinkError } from "./symbols.ts";

/** A PTX module, and the name by which messages refer to it. */
export interface NamedPtx {
  readonly name: string;
  readonly ptx: string;
}

/**
 * Links modules and compiles the result, with the options of `compilePtx`. Line numbers in errors refer to the module
 * that the error names.
 *
 * @throws {PtxError} If a module is not valid PTX
 * @throws {LinkError} If the modules cannot be linked
 */
export function compileLinked(
  images: readonly NamedPtx[],
  options: Parameters<typeof compilePtx>[1],
): CompiledModule {
  const { modules, lines } = parseTogether(images);
  try {
    const compiled = compilePtx({ ...merge(modules, images), lineInfo: lines }, options);
    for (const refusals of [compiled.refusals, compiled.image.refusals]) {
      for (const refusal of refusals.values()) lines.locate(refusal);
    }
    const deferred = [...compiled.deferred].map(([name, kernel]): [string, DeferredKernel] => {
      return [name, { compile: () => located(lines, () => kernel.compile()) }];
    });
    return { ...compiled, deferred: new Map(deferred) };
  } catch (error) {
    if (error instanceof PtxError) lines.locate(error);
    // For a GPU, each module is compiled before linking, so errors in a single module take precedence over link errors.
    if (error instanceof LinkError) { for (const image of images) compileAlone(image); }
    throw error;
  }
}

/** Runs `body`. If it throws a `PtxError`, rewrites the message to name the module and the line in the module. */
function located<T>(lines: LinkedLines, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof PtxError) lines.locate(error);
    throw error;
  }
}

/** Links modules that are known to link without errors. */
export function linkModules(images: readonly NamedPtx[]): {
  readonly module: Omit<PtxModule, "lineInfo">;
  readonly lines: LinkedLines;
} {
  const { modules, lines } = parseTogether(images);
  return { module: merge(modules, images), lines };
}

/** Compiles one module separately, to throw the errors that do not depend on linking. */
function compileAlone(image: NamedPtx): void {
  nameIn(image, () => compilePtx(image.ptx, { gangs: false }));
}

function parseTogether(images: readonly NamedPtx[]): { modules: readonly PtxModule[]; lines: LinkedLines } {
  const renamed = localNames(images.map(parseAlone));
  const parts: LinkedPart[] = [];
  let firstLine = 1;
  const modules = images.map(({ name, ptx }, index) => {
    const module = parsePtx(ptx, undefined, { firstLine, renamed: renamed[index]! });
    parts.push({ name, firstLine, lineInfo: module.lineInfo });
    firstLine += ptx.split("\n").length;
    return module;
  });
  return { modules, lines: new LinkedLines(parts) };
}

function merge(modules: readonly PtxModule[], images: readonly NamedPtx[]): Omit<PtxModule, "lineInfo"> {
  const owned = <T>(listOf: (module: PtxModule) => readonly T[]): OwnedDeclaration<T>[] =>
    modules.flatMap((module, index) => listOf(module).map((value) => ({ value, owner: images[index]!.name })));
  const problems: string[] = [];
  const functions = mergeFunctions(owned(({ functions }) => functions), problems);
  const variables = mergeVariables(owned(({ variables }) => variables), problems);
  const aliases = modules.flatMap(({ aliases }) => aliases);
  const ownerOf = new Map(functions.map(({ value, owner }) => [value.name, owner]));
  for (const { value: { name }, owner } of variables) {
    const other = ownerOf.get(name);
    if (other !== undefined) problems.push(`'${name}' is a variable in '${owner}', and a function in '${other}'`);
  }
  if (problems.length === 0) problems.push(...findUndefined({ functions, variables, aliases }));
  if (problems.length > 0) throw new LinkError(problems.join("; "));
  const { version, target } = modules[0]!;
  return {
    version,
    target,
    functions: functions.map(({ value }) => value),
    variables: variables.map(({ value }) => value),
    // Modules that declare registers outside functions cannot be linked.
    registers: [],
    aliases,
  };
}

function parseAlone(image: NamedPtx): PtxModule {
  return nameIn(image, () => {
    const module = parsePtx(image.ptx, checkHeader);
    for (const name of unresolvedFunctions(module)) {
      const { line } = module.functions.find((declaration) => declaration.name === name)!;
      throw new PtxError(line, `cannot find a definition of "${name}": declare it as .extern if another module has it`);
    }
    const ofThread = module.registers[0] ?? module.variables.find(({ space }) => space === "local");
    if (ofThread !== undefined) {
      throw new PtxError(
        ofThread.line,
        "cannot link a module that declares registers or .local variables outside functions: declare them in functions",
      );
    }
    return module;
  });
}

/** Runs `body`, and adds the name of the module to the message of a `PtxError` that it throws. */
function nameIn<T>({ name }: NamedPtx, body: () => T): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof PtxError) error.message = `In ${name}: ${error.message}`;
    throw error;
  }
}

/** Returns for each module the new names of its local symbols that conflict with symbols of other modules. */
function localNames(modules: readonly PtxModule[]): ReadonlyMap<string, string>[] {
  const namesOf = modules.map((module) => {
    const isShared = new Map<string, boolean>();
    for (const { name, linkage } of [...module.functions, ...module.variables]) {
      isShared.set(name, isShared.get(name) || linkage !== undefined);
    }
    return isShared;
  });
  const taken = new Set(
    namesOf.flatMap((names) => [...names].filter(([, isShared]) => isShared).map(([name]) => name)),
  );
  return namesOf.map((names) => {
    const renamed = new Map<string, string>();
    for (const [name, isShared] of names) {
      if (isShared) continue;
      let unique = name;
      for (let count = 2; taken.has(unique) || (unique !== name && names.has(unique)); count++) {
        unique = `${name}$${count}`;
      }
      taken.add(unique);
      if (unique !== name) renamed.set(name, unique);
    }
    return renamed;
  });
}

/**
 * One of several linked modules whose lines are numbered consecutively. `firstLine` is the number of its first line.
 */
export interface LinkedPart {
  readonly name: string;
  readonly firstLine: number;
  readonly lineInfo: LineInfo;
}

/** Maps the lines of linked modules to the modules, and to the sources that they were compiled from. */
export class LinkedLines extends LineInfo {
  readonly #parts: readonly LinkedPart[];

  constructor(parts: readonly LinkedPart[]) {
    super();
    this.#parts = parts;
  }

  /**
   * Returns the source line that a line was compiled from. If the source line is not known, returns the line of the
   * module's PTX.
   */
  override sourceOf(line: number): string | undefined {
    const part = this.#partAt(line);
    if (part === undefined) return undefined;
    return part.lineInfo.sourceOf(line) ?? `line ${line - part.firstLine + 1} of ${part.name}`;
  }

  /** Rewrites an error's message to name the module and the line in the module. */
  locate(error: PtxError): void {
    const part = this.#partAt(error.line);
    const prefix = `Line ${error.line}: `;
    if (part === undefined || !error.message.startsWith(prefix)) return;
    error.message = `In ${part.name}: Line ${error.line - part.firstLine + 1}: ${error.message.slice(prefix.length)}`;
  }

  /** Returns the module that a line belongs to, and the line number in the module. */
  placeOf(line: number): { readonly image?: string; readonly line: number } {
    const part = this.#partAt(line);
    return part === undefined ? { line } : { image: part.name, line: line - part.firstLine + 1 };
  }

  #partAt(line: number): LinkedPart | undefined {
    return this.#parts.findLast(({ firstLine }) => firstLine <= line);
  }
}
