/**
 * Builds the npm package into `dist/npm/`, the JSR package into `dist/jsr/`, and into `dist/url/` the two files that a
 * web server needs for imports by URL:
 *
 *     deno task package
 *
 * - `poolpass.js`: `mod.ts` and all its imports in one file, because a runtime loads one file much faster than two
 *   hundred. Bun bundles it: it keeps the names of classes, which printed objects show, and removes the comments. The
 *   code is not minified, and each part is headed by the name of its source file, so stack traces are readable without
 *   a source map, which would be larger than the code.
 * - `poolpass.d.ts`: the exports of `mod.ts`, with their documentation, in one file.
 * - `sharing.js`, `store.js` and other parts of `mod.ts`: they export some names of `poolpass.js` again.
 * - `npy.js`, `safetensors.js` and `weights.js`: arrays in files, weights in stores. They import `poolpass.js`.
 * - `initialize.js`: starts CUDA before the others are loaded.
 * - `kernels/*.js`, `kernels/*.d.ts`, `kernels/*.cu`: the PTX of the kernels in the package, and their sources.
 * - `cli/main.js`: the program `poolpass`, which refuses old runtimes and imports `program.js`, which imports `poolpass.js`.
 * - `README.md`, `docs/` and the other pages for users.
 * - For npm, `package.json`: the fields of the repository's `package.json` that describe the package. Its version must
 *   be that of `deno.json`.
 * - For JSR, `deno.json`: the name, version and exports of the repository's `deno.json`.
 *
 * The first line of each JavaScript file names its declaration file. JSR finds the declarations by that line, and so
 * does Deno when it imports by URL. In `poolpass.js`, what follows throws if the runtime is too old.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { type OtherEntry, rollUp } from "./declarations.ts";
import { checkRuntime } from "../src/support/version.ts";
import { forUsers, modulesBeside } from "./imports.ts";
import { repositoryFields } from "./publishing.ts";
import { runTool } from "./tools.ts";
import { answerHelp } from "../tests/support/program_help.ts";

/** The folder of the repository. */
export const root: URL = new URL("../", import.meta.url);
/** The folder of the built npm package. */
export const npmPackage: URL = new URL("dist/npm/", root);
/** The folder of the built JSR package. */
export const jsrPackage: URL = new URL("dist/jsr/", root);
/** The folder of the one file that has the whole library, and of its declarations, for a web server of static files. */
export const urlFolder: URL = new URL("dist/url/", root);

/** A JSON file that describes a package. */
type Manifest = Readonly<Record<string, unknown>>;

/** The files of a package without its manifest: the contents by path. */
type Files = ReadonlyMap<string, string>;

/** The command line: a program, and not a module to import. */
const program = "./cli/main.ts";

/** The fields of `package.json` that the npm package keeps. */
const keptFields = [
  "name",
  "version",
  "description",
  "keywords",
  "license",
  ...Object.keys(repositoryFields),
  "type",
  "engines",
];

/** Builds both packages, and the files for a web server. */
export async function buildPackages(): Promise<void> {
  const [source, deno] = [await readJson("package.json"), await readJson("deno.json")];
  const npm = npmManifest(source, deno);
  const jsr = jsrManifest(deno);
  const files = new Map([...await buildModules(entriesOf(deno)), ...await readPages()]);
  await writePackage(npmPackage, { manifest: npm, manifestPath: "package.json", files });
  await writePackage(jsrPackage, { manifest: jsr, manifestPath: "deno.json", files });
  await writeFiles(urlFolder, filesForUrl(files));
}

/** Builds only the files for a web server, into a folder that is emptied first. */
export async function buildForUrl(folder: URL): Promise<void> {
  await writeFiles(folder, filesForUrl(await buildModules({ ".": "./mod.ts" })));
}

/** Returns the whole library and its declarations. Their examples import the library from beside them. */
function filesForUrl(files: Files): Files {
  const names = { main: "./poolpass.js", kernels: "poolpass/kernels", part: () => "./poolpass.js" };
  return new Map(["poolpass.js", "poolpass.d.ts"].map((path) => [path, forUsers(files.get(path)!, names)]));
}

/**
 * Returns the manifest of the npm package.
 *
 * @throws {Error} If the manifests of the repository have different versions or licenses, or if a field is missing.
 */
export function npmManifest(source: Manifest, deno: Manifest): Manifest {
  for (const field of ["version", "license"]) {
    if (source[field] === deno[field]) continue;
    throw new Error(
      `Cannot build the package: its ${field} is "${deno[field]}" in deno.json and "${source[field]}" in package.json`,
    );
  }
  const kept = keptFields.map((field) => {
    if (source[field] === undefined) throw new Error(`Cannot build the package: package.json has no ${field}`);
    return [field, source[field]];
  });
  return {
    ...Object.fromEntries(kept),
    // For tools that ignore `exports`.
    main: "./poolpass.js",
    types: "./poolpass.d.ts",
    exports: {
      ".": { types: "./poolpass.d.ts", default: "./poolpass.js" },
      ...Object.fromEntries(
        modulesBeside.map((part) => [`./${part}`, { types: `./${part}.d.ts`, default: `./${part}.js` }]),
      ),
      "./kernels/*.js": { types: "./kernels/*.d.ts", default: "./kernels/*.js" },
      "./package.json": "./package.json",
    },
    // Without the dot: npm would correct it while it publishes.
    bin: { [`${source.name}`]: `${builtPath(program)}.js` },
    sideEffects: false,
    files: [
      "poolpass.js",
      "poolpass.d.ts",
      ...modulesBeside.flatMap((part) => [`${part}.js`, `${part}.d.ts`]),
      "kernels",
      "cli",
      "docs",
      "src/sharing/protocol/PROTOCOL.md",
      "CHANGELOG.md",
    ],
  };
}

/** Returns the manifest of the JSR package. */
export function jsrManifest(deno: Manifest): Manifest {
  const { name, version, license } = deno;
  const exports = Object.entries(entriesOf(deno)).map(([exported, path]) => [exported, `./${builtPath(path)}.js`]);
  return { name, version, license, exports: Object.fromEntries(exports) };
}

/** Returns the modules that the packages export, by export name. */
function entriesOf({ exports }: Manifest): Readonly<Record<string, string>> {
  return exports as Readonly<Record<string, string>>;
}

/** Returns the path in a package of the files built from `"./mod.ts"` or `"./kernels/fill.ts"`, without extension. */
function builtPath(entry: string): string {
  return entry === "./mod.ts" ? "poolpass" : entry.replace(/^\.\/|\.ts$/g, "");
}

/** Builds the code and the declarations of the modules that the packages export. */
async function buildModules(entries: Readonly<Record<string, string>>): Promise<Files> {
  const files = new Map<string, string>();
  const paths = Object.values(entries);
  const declarations = await emitDeclarations(paths.filter((path) => path !== program));
  for (const path of paths) {
    const built = builtPath(path);
    if (path === program) {
      // An old runtime gets one line. The program is another file, because imports are evaluated before any statement.
      const check =
        `try {\n(${checkRuntime})();\n} catch ({ message }) {\nconsole.error(message);\nprocess.exit(1);\n}\n`;
      const types = '/* @ts-self-types="./main.d.ts" */\n';
      files.set(`${built}.js`, `#!/usr/bin/env node\n${types}${check}await import("./program.js");\n`);
      const [documentation] = /^\/\*\*[^]*?\*\/\n/.exec(await read(path))!;
      files.set(`${built}.d.ts`, `${documentation}export {};\n`);
      files.set(built.replace(/[^/]*$/, "program.js"), await bundle(path));
      continue;
    }
    const name = built.replace(/.*\//, "");
    const check = path === "./mod.ts" ? `(${checkRuntime})();\n` : "";
    files.set(`${built}.js`, `/* @ts-self-types="./${name}.d.ts" */\n${check}${await bundle(path)}`);
    const rolledUp = rollUp(declarations, path.replace(/^\.\/(.*)\.ts$/, "$1.d.ts"), mainFor(path));
    // The documentation of a kernel is the comment at the beginning of its source.
    const documentation = path.startsWith("./kernels/")
      ? documentationOfSource(await read(path.replace(/\.ts$/, ".cu")))
      : "";
    files.set(`${built}.d.ts`, `${documentation}${rolledUp}`);
  }
  return files;
}

/**
 * Returns the comment at the beginning of a source in CUDA C++, as the documentation of a module.
 *
 * @throws {Error} If the source does not begin with a comment.
 */
export function documentationOfSource(source: string): string {
  const [comment] = /^(?:\/\/.*\n)*/.exec(source)!;
  if (comment === "" || comment.includes("*/")) {
    throw new Error(`Cannot build the package: a kernel has no comment that documents it: ${source.split("\n", 1)[0]}`);
  }
  return `/**\n${comment.replaceAll(/^\/\//gm, " *")} *\n * @module\n */\n`;
}

/** Returns what a module imports the exports of `mod.ts` from. */
function mainFor(path: string): OtherEntry | undefined {
  if (path === "./mod.ts") return undefined;
  return { entry: "mod.d.ts", specifier: path.startsWith("./kernels/") ? "../poolpass.d.ts" : "./poolpass.js" };
}

/** Reads the pages for users, and the sources of the kernels. */
async function readPages(): Promise<Files> {
  const paths = ["README.md", "CHANGELOG.md", "LICENSE", "src/sharing/protocol/PROTOCOL.md"];
  for await (const { name } of Deno.readDir(new URL("docs/", root))) {
    if (name.endsWith(".md") || name.endsWith(".service")) paths.push(`docs/${name}`);
  }
  for await (const { name } of Deno.readDir(new URL("kernels/", root))) {
    if (name.endsWith(".cu") || name.endsWith(".md")) paths.push(`kernels/${name}`);
  }
  const pages = paths.sort().map(async (page) => [page, withLinksTo(paths, { page, text: await read(page) })] as const);
  return new Map(await Promise.all(pages));
}

/** Writes a package into a folder, which has no other files afterwards. */
async function writePackage(
  folder: URL,
  { manifest, manifestPath, files }: { manifest: Manifest; manifestPath: string; files: Files },
): Promise<void> {
  const names = { main: `${manifest.name}`, kernels: `${manifest.name}/kernels` };
  // The code has no imports to replace: bundling throws if any are left.
  const written = [...files].map(([path, text]) =>
    [path, path.endsWith(".js") ? text : forUsers(text, names)] as const
  );
  await writeFiles(folder, new Map([...written, [manifestPath, `${JSON.stringify(manifest, null, 2)}\n`]]));
}

/** Writes a folder, which has no other files afterwards. */
async function writeFiles(folder: URL, files: Files): Promise<void> {
  await Deno.remove(folder, { recursive: true }).catch(ignoreAbsence);
  for (const [path, text] of files) {
    await Deno.mkdir(new URL("./", new URL(path, folder)), { recursive: true });
    await Deno.writeTextFile(new URL(path, folder), text);
  }
}

/**
 * Bundles a module and all its imports into one JavaScript file. Other modules than `mod.ts` import what that is built
 * into. Only the program imports modules of Node: the library loads them when it needs them.
 *
 * @throws {Error} If other imports or uses of `import.meta` are left.
 */
async function bundle(path: string): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "poolpass-bundle-" });
  try {
    const file = `${folder}/bundle.js`;
    // With the target "node", Bun replaces `using`, at which old versions of Node would stop before they run anything.
    const external = path === "./mod.ts" ? [] : ["--external=*/mod.ts"];
    await runTool("bun", ["build", path, "--target=node", "--format=esm", ...external, `--outfile=${file}`], {
      cwd: fileURLToPath(root),
    });
    const main = `${"../".repeat(path.split("/").length - 2) || "./"}poolpass.js`;
    const text = (await Deno.readTextFile(file)).replace(/^\/\/ @bun\n/, "")
      .replaceAll(/^(import [^;"]*\sfrom ")(?:\.\.?\/)+mod\.ts(?=";$)/gm, `$1${main}`);
    const imported = text.matchAll(/^(?:import\s(?:[^;"]*\sfrom\s)?|export\s[^;"]*\sfrom\s)"([^"]*)"/gm);
    const foreign = [...imported].map(([, specifier]) => specifier!).filter((specifier) =>
      specifier !== main && !(path === program && specifier.startsWith("node:"))
    );
    if (foreign.length > 0) throw new Error(`Cannot bundle ${path}: the bundle still imports "${foreign[0]}"`);
    if (text.includes("import.meta")) throw new Error(`Cannot bundle ${path}: the bundle uses import.meta`);
    return text;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Returns the declaration files that tsc emits for modules and all their imports, by path. */
async function emitDeclarations(entries: readonly string[]): Promise<Map<string, string>> {
  const folder = await Deno.makeTempDir({ prefix: "poolpass-declarations-" });
  try {
    const settings = {
      extends: fileURLToPath(new URL("tsconfig.json", root)),
      compilerOptions: {
        noEmit: false,
        emitDeclarationOnly: true,
        rootDir: fileURLToPath(root),
        outDir: `${folder}/types`,
      },
      files: entries.map((path) => fileURLToPath(new URL(path, root))),
    };
    await Deno.writeTextFile(`${folder}/tsconfig.json`, JSON.stringify(settings));
    await runTool("tsc", ["-p", folder]);
    return await readTree(new URL(`file://${folder}/types/`));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function readTree(folder: URL, path = ""): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  for await (const { name, isDirectory } of Deno.readDir(new URL(path, folder))) {
    if (!isDirectory) files.set(path + name, await Deno.readTextFile(new URL(path + name, folder)));
    else for (const file of await readTree(folder, `${path}${name}/`)) files.set(...file);
  }
  return files;
}

/**
 * Rewrites the links of a page. Links to other pages of the package and to the web stay. Other links become plain text,
 * table rows that start with one are removed, and so are images that are not on the web.
 */
function withLinksTo(pages: readonly string[], { page, text }: { page: string; text: string }): string {
  const isThere = (to: string) => pages.includes(new URL(to, new URL(page, root)).pathname.slice(root.pathname.length));
  return text
    .replaceAll(/^\| \[[^\]]*\]\((?!https?:)([^)]*)\).*\n/gm, (row, to) => isThere(to) ? row : "")
    .replaceAll(/^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?/gm, "")
    .replaceAll(/\[([^\]]*)\]\((?!https?:)([^)]*)\)/g, (link, name, to) => isThere(to) ? link : name);
}

async function readJson(path: string): Promise<Manifest> {
  return JSON.parse(await read(path));
}

function read(path: string): Promise<string> {
  return Deno.readTextFile(new URL(path, root));
}

function ignoreAbsence(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

if (import.meta.main) {
  answerHelp(import.meta.url);
  await buildPackages();
  for (const folder of [npmPackage, jsrPackage, urlFolder]) console.log(`Built ${fileURLToPath(folder)}`);
}
