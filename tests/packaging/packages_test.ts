import { assertEquals, assertThrows } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { jsrManifest, npmManifest } from "../../packaging/build.ts";
import { rollUp } from "../../packaging/declarations.ts";
import { forUsers } from "../../packaging/imports.ts";

const root = new URL("../../", import.meta.url);

/** The manifests of the sources. */
const [source, forDeno] = ["package.json", "deno.json"].map((path) =>
  JSON.parse(readFileSync(new URL(path, root), "utf8"))
);

test("what is published is built: the sources are not", () => {
  assertEquals(forDeno.publish, false);
});

test("JSR and npm get one version under one license", () => {
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

test("JSR gets the module and all kernels, as built files", () => {
  const { name, version, license } = forDeno;
  const kernels = readdirSync(new URL("kernels/", root)).filter((name) => name.endsWith(".cu"))
    .map((name) => `./kernels/${name.slice(0, -".cu".length)}.js`).sort();
  const exports = { ".": "./poolpass.js", ...Object.fromEntries(kernels.map((path) => [path, path])) };
  assertEquals(jsrManifest(forDeno), { name, version, license, exports });
});

test("the change log has the version", () => {
  const { version } = forDeno;
  const versions = [...readFileSync(new URL("CHANGELOG.md", root), "utf8").matchAll(/^## (\d\S*)$/gm)];
  assertEquals(versions[0]?.[1], version);
});

test("users import by the package's name", () => {
  assertEquals(
    forUsers('import { open } from "../../mod.ts";\n * import { ptx } from "./kernels/saxpy.ts";'),
    'import { open } from "poolpass";\n * import { ptx } from "poolpass/kernels/saxpy.js";',
  );
  assertEquals(
    forUsers('export { x } from "./src/mod.ts"; "./mod.ts"', { main: "main", kernels: "kernels" }),
    'export { x } from "./src/mod.ts"; "./mod.ts"',
  );
});

const files: Record<string, string> = {
  "mod.d.ts": `/**
 * What it is.
 *
 * @module
 */
export { Public, type Options } from "./src/public.ts";
`,
  "src/public.d.ts": `/** About the module. */
import type { Inner } from "./inner.ts";
import { type Unused, Base } from "./inner.ts";
/** How to make one. */
export interface Options {
    /** Not Hidden. */
    size?: number;
}
declare const secret: unique symbol;
/** Seen by users. */
export declare class Public extends Base {
    #private;
    /**
     * Made by \`make\`. Its parts are inner, and nobody
     * else's.
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
/** What others extend. */
export declare class Base {
}
export type Unused = Inner;
`,
};

test("declarations are rolled up with what they need, and documented", () => {
  assertEquals(
    rollUp(new Map(Object.entries(files)), "mod.d.ts"),
    `/**
 * What it is.
 *
 * @module
 */
export {};
/** Seen by users. */
export declare class Public extends Base {
    #private;
    /** Made by \`make\`. */
    protected constructor();
    get [secret](): "Unused";
    open(options?: Options): void;
}
/** How to make one. */
export interface Options {
    /** Not Hidden. */
    size?: number;
}
/** What others extend. */
declare class Base {
}
declare const secret: unique symbol;
`,
  );
});

for (
  const [what, changed, message] of [
    [
      "two modules declare one name",
      { "src/inner.d.ts": "export declare class Base extends Second.Options {\n}\nexport interface Options {\n}\n" },
      "Cannot roll up mod.d.ts: src/public.d.ts and src/inner.d.ts declare Options",
    ],
    [
      "a global would be taken for a declaration",
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
      "a statement is of another kind",
      { "mod.d.ts": 'export * from "./src/public.ts";\n' },
      'Cannot read mod.d.ts: it has "export * from "./src/public.ts";"',
    ],
  ] as const
) {
  test(`declarations are not rolled up where ${what}`, () => {
    const all = new Map<string, string>(Object.entries({ ...files, ...changed }));
    assertThrows(() => rollUp(all, "mod.d.ts"), Error, message);
  });
}
