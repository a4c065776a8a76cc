/**
 * Builds the npm package into `dist/npm/`, from the sources that Deno and JSR have:
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
 * - `package.json`: the name and what describes the package from `package.json` here, the version from `deno.json`.
 *
 * Each file of JavaScript names its declarations in its first line, which is how Deno finds them by URL.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { rollUp } from "./declarations.ts";
import { forUsers } from "./imports.ts";
import { runTool } from "./tools.ts";

/** The folder of the project. */
export const root: URL = new URL("../", import.meta.url);
/** Where the package is built. */
export const destination: URL = new URL("dist/npm/", root);

/** The fields of `package.json` that users need too. */
const keptFields = ["name", "version", "description", "keywords", "license", "type", "engines"];

/** Builds the package. */
export async function buildPackage(): Promise<void> {
  const manifest = packageManifest(await readJson("package.json"), await readJson("deno.json"));
  await Deno.remove(destination, { recursive: true }).catch(ignoreAbsence);
  await Deno.mkdir(new URL("kernels/", destination), { recursive: true });
  const kernels = await kernelModules();
  const declarations = await emitDeclarations(["mod.ts", ...kernels]);

  await write("poolpass.js", withDeclarations(await bundle("mod.ts"), "./poolpass.d.ts"));
  await write("poolpass.d.ts", forUsers(rollUp(declarations, "mod.d.ts")));
  for (const path of kernels) {
    const name = path.slice("kernels/".length, -".ts".length);
    await write(`kernels/${name}.js`, withDeclarations(await bundle(path), `./${name}.d.ts`));
    await write(`kernels/${name}.d.ts`, rollUp(declarations, `kernels/${name}.d.ts`));
  }
  await write("package.json", `${JSON.stringify(manifest, null, 2)}\n`);
  const pages = await packagePages();
  for (const folder of ["docs/", "src/sharing/protocol/"]) {
    await Deno.mkdir(new URL(folder, destination), { recursive: true });
  }
  for (const page of pages) await write(page, forUsers(withLinksTo(pages, { page, text: await read(page) })));
}

/** The package's manifest, from those of the sources. */
export function packageManifest(
  source: Readonly<Record<string, unknown>>,
  deno: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
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

/** The paths of the pages that are for users. */
async function packagePages(): Promise<string[]> {
  const pages = ["README.md", "CHANGELOG.md", "LICENSE", "src/sharing/protocol/PROTOCOL.md"];
  for await (const { name } of Deno.readDir(new URL("docs/", root))) pages.push(`docs/${name}`);
  return pages.sort();
}

/** The paths of the modules that export PTX. */
async function kernelModules(): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(new URL("kernels/", root))) {
    if (name.endsWith(".cu")) names.push(`kernels/${name.slice(0, -".cu".length)}.ts`);
  }
  return names.sort();
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

function withDeclarations(code: string, declarations: string): string {
  return `/* @ts-self-types="${declarations}" */\n${code}`;
}

async function readJson(path: string): Promise<Record<string, unknown>> {
  return JSON.parse(await read(path));
}

function read(path: string): Promise<string> {
  return Deno.readTextFile(new URL(path, root));
}

function write(path: string, text: string): Promise<void> {
  return Deno.writeTextFile(new URL(path, destination), text);
}

function ignoreAbsence(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

if (import.meta.main) {
  await buildPackage();
  console.log(`Built ${fileURLToPath(destination)}`);
}
