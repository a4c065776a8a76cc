import { assert, assertEquals, assertThrows } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { documentationOfSource, jsrManifest, npmManifest } from "../../packaging/build.ts";
import { rollUp } from "../../packaging/declarations.ts";
import { forUsers, modulesBeside } from "../../packaging/imports.ts";
import { repository, repositoryFields } from "../../packaging/publishing.ts";
import {
  memoryVersion,
  protocolVersions,
  requestHandleVersion,
  versionsText,
} from "../../src/sharing/protocol/messages.ts";
import { test } from "../support/test.ts";

const root = new URL("../../", import.meta.url);

/** The manifests of the repository. */
const [source, forDeno] = ["package.json", "deno.json"].map((path) =>
  JSON.parse(readFileSync(new URL(path, root), "utf8"))
);

test("only built packages are published, not the sources", () => {
  assertEquals(forDeno.publish, false);
});

test("the JSR and npm packages have the same version and license", () => {
  assertEquals(npmManifest(source, forDeno).version, forDeno.version);
  assertThrows(
    () => npmManifest(source, { ...forDeno, version: "9.9.9" }),
    Error,
    `Cannot build the package: its version is "9.9.9" in deno.json and "${source.version}" in package.json`,
  );
  assertThrows(
    () => npmManifest({ ...source, engines: undefined }, forDeno),
    Error,
    "Cannot build the package: package.json has no engines",
  );
});

test("package.json, and with it the npm package, names the repository as packaging does", () => {
  const fields = (manifest: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(Object.keys(repositoryFields).map((field) => [field, manifest[field]]));
  assertEquals(fields(source), repositoryFields);
  assertEquals(fields(npmManifest(source, forDeno)), repositoryFields);
});

test("every other place names the same repository", () => {
  const forms = readdirSync(new URL(".github/ISSUE_TEMPLATE/", root)).map((name) => `.github/ISSUE_TEMPLATE/${name}`);
  const places = ["python/pyproject.toml", "SECURITY.md", "CONTRIBUTING.md", ".github/ISSUE_TEMPLATE/config.yml"];
  for (const path of new Set([...places, ...forms, "README.md", "docs/README.md", "python/README.md"])) {
    const text = readFileSync(new URL(path, root), "utf8");
    const urls = [...text.matchAll(/https:\/\/github\.com\/[\w-]+\/poolpass\b[^\s)"`]*/g)].map(([url]) => url);
    assertEquals(urls.filter((url) => !`${url}/`.startsWith(`${repository}/`)), [], path);
    if (places.includes(path)) assert(urls.length > 0, path);
  }
});

test("the comment at the beginning of each kernel's source is the documentation of its module", () => {
  assertEquals(
    documentationOfSource("// Adds.\n//\n// n: a length.\nint f; // f\n// g\n"),
    `/**
 * Adds.
 *
 * n: a length.
 *
 * @module
 */
`,
  );
  assertThrows(
    () => documentationOfSource("int f; // f\n"),
    Error,
    "a kernel has no comment that documents it: int f;",
  );
  for (const name of readdirSync(new URL("kernels/", root)).filter((name) => name.endsWith(".cu"))) {
    const documentation = documentationOfSource(readFileSync(new URL(`kernels/${name}`, root), "utf8"));
    assert(documentation.length > 80, name);
  }
});

test("the JSR package exports the built module, those beside it and all kernels", () => {
  const { name, version, license } = forDeno;
  const kernels = readdirSync(new URL("kernels/", root)).filter((name) => name.endsWith(".cu"))
    .map((name) => `./kernels/${name.slice(0, -".cu".length)}.js`).sort();
  const exports = {
    ".": "./poolpass.js",
    ...Object.fromEntries(modulesBeside.map((part) => [`./${part}`, `./${part}.js`])),
    "./cli": "./cli/main.js",
    ...Object.fromEntries(kernels.map((path) => [path, path])),
  };
  assertEquals(jsrManifest(forDeno), { name, version, license, exports });
});

test("the Python package has the same version", () => {
  for (const path of ["python/pyproject.toml", "python/poolpass/__init__.py"]) {
    const [, version] = /^(?:__)?version(?:__)? = "(.*)"$/m.exec(readFileSync(new URL(path, root), "utf8"))!;
    assertEquals(version, forDeno.version, path);
  }
});

test("the table of versions that work together is that of the sources", () => {
  const read = (path: string) => readFileSync(new URL(path, root), "utf8");
  const rows = read("docs/runtimes.md").split("\n").filter((line) => /^\| \d+\./.test(line));
  const [[own, python, protocol, records] = []] = rows.map((row) =>
    row.split("|").slice(1, -1).map((cell) => cell.trim())
  );
  const { lowest, highest } = protocolVersions;
  assertEquals([own, python, protocol], [forDeno.version, forDeno.version, versionsText(lowest, highest)]);
  const messages = read("python/poolpass/messages.py");
  const numberOf = (name: string) => Number(new RegExp(`^${name} = (\\d+)$`, "m").exec(messages)![1]);
  assertEquals([numberOf("LOWEST_VERSION"), numberOf("PROTOCOL_VERSION")], [lowest, highest]);
  assertEquals([numberOf("MEMORY_VERSION"), numberOf("REQUEST_HANDLE_VERSION")], [memoryVersion, requestHandleVersion]);
  assertEquals([memoryVersion, requestHandleVersion], [2, 3], "docs/runtimes.md says what they add");
  const types = read("src/sharing/store/memories/store_table.ts").matchAll(/(?:case |type === )"(\w+)"/g);
  const written = [...records!.matchAll(/`(\w+)`/g)].map(([, type]) => type);
  assertEquals(written, [...new Set([...types].map(([, type]) => type))]);
});

test("the changelog begins with the current version", () => {
  const { version } = forDeno;
  const versions = [...readFileSync(new URL("CHANGELOG.md", root), "utf8").matchAll(/^## (\d\S*)$/gm)];
  assertEquals(versions[0]?.[1], version);
});

test("imports are rewritten to the package's name", () => {
  assertEquals(
    forUsers('import { open } from "../../mod.ts";\n * import { ptx } from "./kernels/saxpy.ts";'),
    'import { open } from "poolpass";\n * import { ptx } from "poolpass/kernels/saxpy.js";',
  );
  assertEquals(
    forUsers('export { x } from "./src/mod.ts"; "./mod.ts"', { main: "main", kernels: "kernels" }),
    'export { x } from "./src/mod.ts"; "./mod.ts"',
  );
  const part = 'import { Exporter } from "../sharing.ts";';
  assertEquals(forUsers(part), 'import { Exporter } from "poolpass/sharing";');
  assertEquals(
    forUsers(part, { main: "/poolpass.js", kernels: "/kernels", part: (name) => `/${name}.js` }),
    'import { Exporter } from "/sharing.js";',
  );
});

test("both packages and the repository export the same modules beside mod.ts", () => {
  const exports = modulesBeside.map((part) => [`./${part}`, `./${part}.ts`]);
  const partsOf = ({ exports }: { exports: Record<string, string> }) =>
    Object.entries(exports).filter(([, path]) => /^\.\/\w+\.ts$/.test(path) && path !== "./mod.ts");
  assertEquals(partsOf(forDeno), exports);
  assertEquals(partsOf(source), exports);
  const { exports: ofNpm, files } = npmManifest(source, forDeno);
  for (const part of modulesBeside) {
    const built = { types: `./${part}.d.ts`, default: `./${part}.js` };
    assertEquals((ofNpm as Record<string, unknown>)[`./${part}`], built);
    assertEquals(Object.values(built).filter((path) => !(files as string[]).includes(path.slice(2))), []);
  }
});

const files: Record<string, string> = {
  "mod.d.ts": `/**
 * About the library.
 *
 * @module
 */
export { Public, type Options } from "./src/public.ts";
`,
  "src/public.d.ts": `/** About the module. */
import type { Inner } from "./inner.ts";
import { type Unused, Base } from "./inner.ts";
/** Options for making one. */
export interface Options {
    /** Not Hidden. */
    size?: number;
}
declare const secret: unique symbol;
/** Seen by users. */
export declare class Public extends Base {
    #private;
    /**
     * Objects come from \`make\`. Its parameters are internal,
     * and not documented.
     *
     * @ignore
     */
    constructor(inner: Inner, { size }: {
        size: number;
    });
    get [secret](): "Unused";
    open(options?: Options): void;
}
/** Not public. */
export declare function make(): Public;
export {};
`,
  "src/inner.d.ts": `export type Inner = {
    deep: Deep;
};
export interface Deep {
}
/** The base class. */
export declare class Base {
}
export type Unused = Inner;
`,
};

test("declarations are rolled up with their dependencies and documentation", () => {
  assertEquals(
    rollUp(new Map(Object.entries(files)), "mod.d.ts"),
    `/**
 * About the library.
 *
 * @module
 */
export {};
/** Seen by users. */
export declare class Public extends Base {
    #private;
    /** Objects come from \`make\`. */
    protected constructor();
    get [secret](): "Unused";
    open(options?: Options): void;
}
/** Options for making one. */
export interface Options {
    /** Not Hidden. */
    size?: number;
}
/** The base class. */
declare class Base {
}
declare const secret: unique symbol;
`,
  );
});

test("types of the main module are imported by the kernels' declarations, and stay the same types", () => {
  const files = {
    "mod.d.ts": `export { type Ptx } from "./src/typed.ts";\n`,
    "src/typed.d.ts": `declare const kernels: unique symbol;
export type Ptx<Kernels> = string & {
    readonly [kernels]: Kernels;
};
export type Inner = number;
`,
    "kernels/fill.d.ts": `import type { Ptx } from "../mod.ts";
import type { Inner } from "../src/typed.ts";
export declare const ptx: Ptx<{
    fill: [value: Inner];
}>;
`,
  };
  const main = { entry: "mod.d.ts", specifier: "../poolpass.d.ts" };
  assertEquals(
    rollUp(new Map(Object.entries(files)), "kernels/fill.d.ts", main),
    `import type { Ptx } from "../poolpass.d.ts";
export {};
export declare const ptx: Ptx<{
    fill: [value: Inner];
}>;
type Inner = number;
`,
  );
});

test("the declarations of a part export names of the main module again", () => {
  const part = `/** A part. */\nexport { Public, type Options } from "./mod.ts";\n`;
  assertEquals(
    rollUp(new Map(Object.entries({ ...files, "part.d.ts": part })), "part.d.ts", {
      entry: "mod.d.ts",
      specifier: "./poolpass.js",
    }),
    `/** A part. */\nexport { Options, Public } from "./poolpass.js";\n`,
  );
});

for (
  const [condition, changed, message] of [
    [
      "two modules declare the same name",
      { "src/inner.d.ts": "export declare class Base extends Second.Options {\n}\nexport interface Options {\n}\n" },
      "Cannot roll up mod.d.ts: src/public.d.ts and src/inner.d.ts declare Options",
    ],
    [
      "a module declares a name that another uses as a global",
      { "src/inner.d.ts": "export declare class Base {\n    other: Options;\n}\n" },
      "Cannot roll up src/inner.d.ts: its Options is a global, and src/public.d.ts declares the same name",
    ],
    [
      "a name is not declared",
      { "src/inner.d.ts": "export type Other = string;\n" },
      "Cannot roll up mod.d.ts: src/inner.d.ts does not declare Base",
    ],
    [
      "a module is missing",
      { "mod.d.ts": 'export { Public } from "./src/none.ts";\n' },
      "Cannot roll up mod.d.ts: there is no src/none.d.ts",
    ],
    [
      "a package is imported",
      { "mod.d.ts": 'export { Public } from "other";\n' },
      'Cannot roll up mod.d.ts: it imports "other"',
    ],
    [
      "a statement is not supported",
      { "mod.d.ts": 'export * from "./src/public.ts";\n' },
      'Cannot read mod.d.ts: it has the unsupported statement "export * from "./src/public.ts";"',
    ],
  ] as const
) {
  test(`declarations are not rolled up if ${condition}`, () => {
    const all = new Map<string, string>(Object.entries({ ...files, ...changed }));
    assertThrows(() => rollUp(all, "mod.d.ts"), Error, message);
  });
}
