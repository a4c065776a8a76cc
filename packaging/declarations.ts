/**
 * One declaration file from many: what a public entry point exports and what that needs, and nothing else. It has no
 * imports, so that it resolves by every setting of TypeScript's `moduleResolution`, and by URL.
 *
 * @module
 */

/** A declaration of a module: its documentation and its text, without `export` and `declare`. */
interface Declaration {
  readonly name: string;
  readonly documentation: string;
  readonly text: string;
}

/** A declaration file as tsc writes it. */
interface DeclarationModule {
  /** The comment that describes the module, where it has one. */
  readonly documentation: string;
  readonly declarations: ReadonlyMap<string, Declaration>;
  /** Where names come from that other modules declare, by the name that they have here. */
  readonly imports: ReadonlyMap<string, Origin>;
  /** The same of names that it exports again. */
  readonly reexports: ReadonlyMap<string, Origin>;
}

/** A name of a module. */
interface Origin {
  readonly path: string;
  readonly name: string;
}

const keywords = "class|interface|type|function|const|let|var|abstract class";
const head = new RegExp(`^(?:export )?(?:declare )?((?:${keywords}) ([A-Za-z_$][\\w$]*))`);
const clause = /^(import|export) (?:type )?\{([^}]*)\} from "([^"]+)";$/;

/**
 * Rolls a tree of declaration files into the text of one.
 *
 * @param files The text of each file that tsc wrote, by its path, `"src/open.d.ts"`
 * @param entry The path of the one whose exports are public
 * @throws {Error} where something is written in a way that this does not know, or where two modules that are needed
 * declare one name
 */
export function rollUp(files: ReadonlyMap<string, string>, entry: string): string {
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
  // What is public comes first, in the order of the entry point, then what that needs.
  const queue: Origin[] = [...publicNames].map((name) => ({ path: entry, name }));
  for (const origin of queue) {
    const { path, name } = originOf(origin, moduleAt);
    const other = needed.get(name);
    if (other?.path === path) continue;
    if (other !== undefined) throw new Error(`Cannot roll up ${entry}: ${other.path} and ${path} declare ${name}`);
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
    return `${documentation}${modifiers}${text}`;
  });
  const ignored = texts.find((text) => text.includes("@ignore"));
  if (ignored !== undefined) throw new Error(`Cannot roll up ${entry}: users are shown what is @ignore: ${ignored}`);
  // Without "export {}", TypeScript would take all declarations of the file for exported. Where it stands, it keeps the
  // module's documentation from being the first declaration's.
  return `${documentation}export {};\n${texts.join("\n")}\n`;
}

/** Where a name is declared, through any number of modules that only export it again. */
function originOf(origin: Origin, moduleAt: (path: string) => DeclarationModule): Origin {
  const again = moduleAt(origin.path).reexports.get(origin.name);
  return again === undefined ? origin : originOf(again, moduleAt);
}

/** A global that one module uses and another declares would be taken for the latter's: so no type may do that. */
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
      throw new Error(`Cannot read ${path}: it has "${statement.split("\n", 1)[0]}"`);
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

/**
 * What only the library makes has a constructor that says by what, and takes parts that are nobody else's business: their
 * types would be most of the file.
 */
function withoutInnerConstructor(text: string): string {
  return text.replace(
    /(\n {4}\/\*\*)\s+(?:\* )?(Made by (?:(?!\*\/)[^])*?)\.\s(?:(?!\*\/)[^])*\*\/\n {4}constructor\([^]*?\n?(?: {4}\}.*)?\);/,
    "$1 $2. */\n    protected constructor();",
  );
}

/** The statements of a file, each with the comments before it: tsc begins them at the margin, and nothing else but `}`. */
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

/** `"./driver.ts"` in `"src/open.d.ts"` is `"src/driver.d.ts"`. */
function declarationPath(specifier: string, importer: string): string {
  if (!/^\.\.?\/.*\.ts$/.test(specifier)) throw new Error(`Cannot roll up ${importer}: it imports "${specifier}"`);
  return new URL(specifier, `file:///${importer}`).pathname.slice(1).replace(/\.ts$/, ".d.ts");
}

/** Every word that is not in a comment or a string: more than the types that it names, never fewer. */
function namesIn(text: string): Set<string> {
  const code = text.replaceAll(/\/\*[^]*?\*\//g, "").replaceAll(/"(?:[^"\\]|\\.)*"/g, "");
  return new Set(code.match(/[A-Za-z_$][\w$]*/g));
}
