/**
 * Combines many declaration files into one: the exports of a public entry point and their dependencies. The result
 * imports at most another such file by its path, so it resolves under every setting of TypeScript's `moduleResolution`,
 * and by URL.
 *
 * @module
 */

/** A declaration of a module: its documentation, and its text without `export` and `declare`. */
interface Declaration {
  readonly name: string;
  readonly documentation: string;
  readonly text: string;
}

/** A declaration file that tsc has written. */
interface DeclarationModule {
  /** The comment that describes the module, or an empty string. */
  readonly documentation: string;
  readonly declarations: ReadonlyMap<string, Declaration>;
  /** The origins of imported names, by local name. */
  readonly imports: ReadonlyMap<string, Origin>;
  /** The origins of re-exported names, by exported name. */
  readonly reexports: ReadonlyMap<string, Origin>;
}

/**
 * Another entry point of the package. Its exports are imported or exported again from there: some types are equal only
 * to themselves.
 */
export interface OtherEntry {
  /** The path of the declaration file that tsc has written, such as `"mod.d.ts"`. */
  readonly entry: string;
  /** The path of what it is built into, such as `"../poolpass.d.ts"`, or `"./poolpass.js"` if values are exported. */
  readonly specifier: string;
}

/** A module and a name in it. */
interface Origin {
  readonly path: string;
  readonly name: string;
}

const keywords = "class|interface|type|function|const|let|var|abstract class";
const head = new RegExp(`^(?:export )?(?:declare )?((?:${keywords}) ([A-Za-z_$][\\w$]*))`);
const clause = /^(import|export) (?:type )?\{([^}]*)\} from "([^"]+)";$/;

/**
 * Rolls a tree of declaration files up into the text of one.
 *
 * @param files The contents of each file that tsc has written, by path, such as `"src/open.d.ts"`.
 * @param entry The path of the file whose exports are public.
 * @param other The entry point whose exports are imported.
 * @throws {Error} If a file has an unsupported statement, or if two modules that are needed declare the same name.
 */
export function rollUp(files: ReadonlyMap<string, string>, entry: string, other?: OtherEntry): string {
  const modules = new Map<string, DeclarationModule>();
  const moduleAt = (path: string): DeclarationModule => {
    const known = modules.get(path);
    if (known !== undefined) return known;
    const text = files.get(path);
    if (text === undefined) throw new Error(`Cannot roll up ${entry}: there is no ${path}`);
    const module = parseModule(text, path);
    modules.set(path, module);
    return module;
  };

  const { documentation, declarations, reexports } = moduleAt(entry);
  const publicNames = new Set([...declarations.keys(), ...reexports.keys()]);
  const needed = new Map<string, { readonly path: string; readonly declaration: Declaration }>();
  const imported = new Set<string>();
  const isImported = (path: string, name: string) =>
    other !== undefined && moduleAt(other.entry).reexports.has(name) &&
    originOf({ path: other.entry, name }, moduleAt).path === path;
  // Public declarations come first, in the order of the entry point, then their dependencies.
  const queue: Origin[] = [...publicNames].map((name) => ({ path: entry, name }));
  for (const origin of queue) {
    const { path, name } = originOf(origin, moduleAt);
    if (isImported(path, name)) {
      imported.add(name);
      continue;
    }
    const known = needed.get(name);
    if (known?.path === path) continue;
    if (known !== undefined) throw new Error(`Cannot roll up ${entry}: ${known.path} and ${path} declare ${name}`);
    const { declarations, imports } = moduleAt(path);
    const declaration = declarations.get(name);
    if (declaration === undefined) throw new Error(`Cannot roll up ${entry}: ${path} does not declare ${name}`);
    needed.set(name, { path, declaration });
    for (const used of namesIn(declaration.text)) {
      if (declarations.has(used)) queue.push({ path, name: used });
      else if (imports.has(used)) queue.push(imports.get(used)!);
    }
  }
  refuseCapturedNames(needed, moduleAt);

  const texts = [...needed.values()].map(({ declaration: { name, documentation, text } }) => {
    const isType = /^(interface|type) /.test(text);
    const modifiers = (publicNames.has(name) ? "export " : "") + (isType ? "" : "declare ");
    return `${documentation}${modifiers}${withoutIgnored(text)}`;
  });
  const ignored = texts.find((text) => text.includes("@ignore"));
  if (ignored !== undefined) {
    throw new Error(`Cannot roll up ${entry}: a public declaration is marked @ignore: ${ignored}`);
  }
  // Without "export {}", TypeScript would treat all declarations of the file as exported. Here, it also separates the
  // documentation of the module from the first declaration.
  const clause = (names: readonly string[]) => `{ ${[...names].sort().join(", ")} } from "${other!.specifier}";\n`;
  const [exportedAgain, onlyImported] = [true, false].map((isPublic) =>
    [...imported].filter((name) => publicNames.has(name) === isPublic)
  ) as [string[], string[]];
  const imports = onlyImported.length === 0 ? "" : `import type ${clause(onlyImported)}`;
  const exports = exportedAgain.length === 0 ? "export {};\n" : `export ${clause(exportedAgain)}`;
  return `${documentation}${imports}${exports}${texts.map((text) => `${text}\n`).join("")}`;
}

/** Returns the origin of a name, through any number of modules that re-export it. */
function originOf(origin: Origin, moduleAt: (path: string) => DeclarationModule): Origin {
  const again = moduleAt(origin.path).reexports.get(origin.name);
  return again === undefined ? origin : originOf(again, moduleAt);
}

/**
 * Throws if a module uses a global whose name another module declares: in one file, the declaration would capture the
 * name.
 */
function refuseCapturedNames(
  needed: ReadonlyMap<string, { readonly path: string; readonly declaration: Declaration }>,
  moduleAt: (path: string) => DeclarationModule,
): void {
  for (const { path, declaration } of needed.values()) {
    const { declarations, imports } = moduleAt(path);
    for (const used of namesIn(declaration.text)) {
      const other = needed.get(used);
      if (other === undefined || declarations.has(used) || imports.has(used) || !/^[A-Z]/.test(used)) continue;
      throw new Error(`Cannot roll up ${path}: its ${used} is a global, and ${other.path} declares the same name`);
    }
  }
}

function parseModule(text: string, path: string): DeclarationModule {
  const declarations = new Map<string, Declaration>();
  const imports = new Map<string, Origin>();
  const reexports = new Map<string, Origin>();
  let moduleDocumentation = "";
  for (const { documentation, text: statement } of statementsOf(text)) {
    if (statement === "export {};" || statement === "") {
      if (statement === "") moduleDocumentation = documentation;
      continue;
    }
    const linked = clause.exec(statement.replaceAll(/\s+/g, " "));
    if (linked !== null) {
      if (documentation !== "") moduleDocumentation = documentation;
      const [, kind, names, specifier] = linked;
      const target = declarationPath(specifier!, path);
      for (const { from, as } of namesOfClause(names!)) {
        (kind === "import" ? imports : reexports).set(as, { path: target, name: from });
      }
      continue;
    }
    const declared = head.exec(statement);
    if (declared === null || declarations.has(declared[2]!)) {
      throw new Error(`Cannot read ${path}: it has the unsupported statement "${statement.split("\n", 1)[0]}"`);
    }
    const [whole, start, name] = declared;
    const comments = documentation.split(/(?<=\*\/\n)/);
    if (comments.length > 1) moduleDocumentation = comments[0]!;
    declarations.set(name!, {
      name: name!,
      documentation: comments.at(-1)!,
      text: withoutInnerConstructor(start + statement.slice(whole.length)),
    });
  }
  return { documentation: moduleDocumentation, declarations, imports, reexports };
}

/** Leaves the comments `@ignore` out of overloads of methods that have others: they are kept, but not shown in docs. */
function withoutIgnored(text: string): string {
  return text.replaceAll(/ {4}\/\*\* @ignore \*\/\n {4}(\w+)\(/g, (whole, name: string, offset: number) => {
    return text.slice(0, offset).includes(`\n    ${name}(`) ? `    ${name}(` : whole;
  });
}

/**
 * Replaces a constructor that only the library calls, which is marked `@ignore`, by a protected constructor without
 * parameters. The types of its parameters are internal and would be most of the file. The first sentence of its
 * documentation stays.
 */
function withoutInnerConstructor(text: string): string {
  return text.replace(
    /(\n {4}\/\*\*)\s+(?:\* )?((?:(?!\*\/)[^])*?)\.\s(?:(?!\*\/)[^])*@ignore\s(?:(?!\*\/)[^])*\*\/\n {4}constructor\([^]*?\n?(?: {4}\}.*)?\);/,
    "$1 $2. */\n    protected constructor();",
  );
}

/**
 * Yields the statements of a file, each with the comments before it. In tsc's output, only statements and `}` start in
 * the first column.
 */
function* statementsOf(text: string): Iterable<{ documentation: string; text: string }> {
  let documentation = "";
  let lines: string[] = [];
  let isComment = false;
  for (const line of text.split("\n")) {
    if (lines.length > 0 && /^[a-z/]/.test(line)) {
      yield { documentation, text: lines.join("\n").trimEnd() };
      documentation = "";
      lines = [];
    }
    if (lines.length === 0 && (isComment || line.startsWith("/**"))) {
      documentation += `${line}\n`;
      isComment = !line.endsWith("*/");
    } else if (lines.length > 0 || line !== "") {
      lines.push(line);
    }
  }
  if (lines.length > 0 || documentation !== "") yield { documentation, text: lines.join("\n").trimEnd() };
}

function namesOfClause(names: string): { from: string; as: string }[] {
  return names.split(",").map((name) => name.trim().replace(/^type /, "")).filter((name) => name !== "").map((name) => {
    const [from, as = from] = name.split(" as ");
    return { from: from!, as: as! };
  });
}

/** Resolves a specifier: `"./driver.ts"` in `"src/open.d.ts"` is `"src/driver.d.ts"`. */
function declarationPath(specifier: string, importer: string): string {
  if (!/^\.\.?\/.*\.ts$/.test(specifier)) {
    throw new Error(`Cannot roll up ${importer}: it imports "${specifier}", which is not a file of the project`);
  }
  return new URL(specifier, `file:///${importer}`).pathname.slice(1).replace(/\.ts$/, ".d.ts");
}

/** Returns every word outside comments and strings. They include all names of types, and others. */
function namesIn(text: string): Set<string> {
  const code = text.replaceAll(/\/\*[^]*?\*\//g, "").replaceAll(/"(?:[^"\\]|\\.)*"/g, "");
  return new Set(code.match(/[A-Za-z_$][\w$]*/g));
}
