/**
 * Builds the npm package into `dist/npm/` and the JSR package into `dist/jsr/`:
 *
 *     deno task package
 *
 * - `poolpass.js`: all of `mod.ts` in one file, because a runtime loads one much sooner than two hundred. Bun bundles it,
 *   which keeps the names of classes (printed objects show them) and takes out the comments. Nothing is minified, and each
 *   part is headed by the file that it is from: a stack trace can be read without a source map, which would be larger than
 *   the code.
 * - `poolpass.d.ts`: what `mod.ts` exports, with its documentation, in one file.
 * - `kernels/*.js`, `kernels/*.d.ts`: the PTX that is shipped.
 * - `README.md`, `docs/` and what else is for users to read.
 * - For npm `package.json`: what describes the package there from `package.json` here, the version from `deno.json`.
 * - For JSR `deno.json`: the name, the version and the exports from `deno.json` here.
 *
 * Each file of JavaScript names its declarations in its first line: that is how JSR finds them, and Deno by URL.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { rollUp } from "./declarations.ts";
import { forUsers } from "./imports.ts";
import { runTool } from "./tools.ts";

/** The folder of the project. */
export const root: URL = new URL("../", import.meta.url);
/** Where the npm package is built. */
export const npmPackage: URL = new URL("dist/npm/", root);
/** Where the JSR package is built. */
export const jsrPackage: URL = new URL("dist/jsr/", root);

/** A file of JSON that describes a package. */
type Manifest = Readonly<Record<string, unknown>>;

/** What a package consists of, besides its manifest: the text of each file, by its path. */
type Files = ReadonlyMap<string, string>;

/** The fields of `package.json` that users need too. */
const keptFields = ["name", "version", "description", "keywords", "license", "type", "engines"];

/** Builds both packages. */
export async function buildPackages(): Promise<void> {
  const [source, deno] = [await readJson("package.json"), await readJson("deno.json")];
  const npm = npmManifest(source, deno);
  const jsr = jsrManifest(deno);
  const files = new Map([...await buildModules(entriesOf(deno)), ...await readPages()]);
  await writePackage(npmPackage, { manifest: npm, manifestPath: "package.json", files });
  await writePackage(jsrPackage, { manifest: jsr, manifestPath: "deno.json", files });
}

/** The manifest of the npm package, from those of the sources. */
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
    // For what does not know exports.
    main: "./poolpass.js",
    types: "./poolpass.d.ts",
    exports: {
      ".": { types: "./poolpass.d.ts", default: "./poolpass.js" },
      "./kernels/*.js": { types: "./kernels/*.d.ts", default: "./kernels/*.js" },
      "./package.json": "./package.json",
    },
    sideEffects: false,
    files: ["poolpass.js", "poolpass.d.ts", "kernels", "docs", "src/sharing/protocol/PROTOCOL.md", "CHANGELOG.md"],
  };
}

/** The manifest of the JSR package, from that of the sources. */
export function jsrManifest(deno: Manifest): Manifest {
  const { name, version, license } = deno;
  const exports = Object.entries(entriesOf(deno)).map(([exported, path]) => [exported, `./${builtPath(path)}.js`]);
  return { name, version, license, exports: Object.fromEntries(exports) };
}

/** The modules that the packages export, by the names that they have there. */
function entriesOf({ exports }: Manifest): Readonly<Record<string, string>> {
  return exports as Readonly<Record<string, string>>;
}

/** Where what `"./mod.ts"` and `"./kernels/fill.ts"` become lies in a package, without an extension. */
function builtPath(entry: string): string {
  return entry === "./mod.ts" ? "poolpass" : entry.replace(/^\.\/|\.ts$/g, "");
}

/** The code and the declarations of the modules that the packages export. */
async function buildModules(entries: Readonly<Record<string, string>>): Promise<Files> {
  const files = new Map<string, string>();
  const paths = Object.values(entries);
  const declarations = await emitDeclarations(paths);
  for (const path of paths) {
    const built = builtPath(path);
    const name = built.replace(/.*\//, "");
    files.set(`${built}.js`, `/* @ts-self-types="./${name}.d.ts" */\n${await bundle(path)}`);
    files.set(`${built}.d.ts`, rollUp(declarations, path.replace(/^\.\/(.*)\.ts$/, "$1.d.ts")));
  }
  return files;
}

/** The pages that are for users. */
async function readPages(): Promise<Files> {
  const paths = ["README.md", "CHANGELOG.md", "LICENSE", "src/sharing/protocol/PROTOCOL.md"];
  for await (const { name } of Deno.readDir(new URL("docs/", root))) paths.push(`docs/${name}`);
  const pages = paths.sort().map(async (page) => [page, withLinksTo(paths, { page, text: await read(page) })] as const);
  return new Map(await Promise.all(pages));
}

/** Writes a package into a folder that then has nothing else. */
async function writePackage(
  folder: URL,
  { manifest, manifestPath, files }: { manifest: Manifest; manifestPath: string; files: Files },
): Promise<void> {
  await Deno.remove(folder, { recursive: true }).catch(ignoreAbsence);
  const names = { main: `${manifest.name}`, kernels: `${manifest.name}/kernels` };
  // In the code nothing is to be replaced: an import that is left in it is refused.
  const written = [...files].map(([path, text]) =>
    [path, path.endsWith(".js") ? text : forUsers(text, names)] as const
  );
  for (const [path, text] of [...written, [manifestPath, `${JSON.stringify(manifest, null, 2)}\n`] as const]) {
    await Deno.mkdir(new URL("./", new URL(path, folder)), { recursive: true });
    await Deno.writeTextFile(new URL(path, folder), text);
  }
}

/** A module and all that it imports, as one file of JavaScript. */
async function bundle(path: string): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "poolpass-bundle-" });
  try {
    const file = `${folder}/bundle.js`;
    // For the target "bun", Bun leaves all syntax as it is: every runtime that is supported knows it.
    await runTool("bun", ["build", path, "--target=bun", "--format=esm", `--outfile=${file}`], {
      cwd: fileURLToPath(root),
    });
    const text = (await Deno.readTextFile(file)).replace(/^\/\/ @bun\n/, "");
    const foreign = /^(?:import|export .* from) .*/m.exec(text);
    if (foreign !== null) throw new Error(`Cannot bundle ${path}: it is left with "${foreign[0]}"`);
    if (text.includes("import.meta")) throw new Error(`Cannot bundle ${path}: it asks where its file is`);
    return text;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** What tsc declares of modules and of all that they import, by path. */
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
 * A page whose links lead to pages that are in the package, or to the web: the others are their text alone, and a row of a
 * table that is about one is left out.
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
  await buildPackages();
  for (const folder of [npmPackage, jsrPackage]) console.log(`Built ${fileURLToPath(folder)}`);
}
