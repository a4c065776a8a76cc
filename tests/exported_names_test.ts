/** A name means one thing: no two files export definitions of the same name. Re-exports are not definitions. */

import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const root = new URL("../", import.meta.url);

/** Names that several files may define, each with the reason why it is the right name in all of them. */
const sharedNames: ReadonlyMap<string, string> = new Map([
  ["digest", "ffi/native/shim/build.ts generates one module for each processor, with the same exports"],
  ["library", "as for digest"],
]);

const definition =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:class|function\*?|interface|type|enum|const|let) (\w+)/gm;

test("no name is exported with two definitions", () => {
  const files = ["src/", "ffi/", "cli/"].flatMap((folder) =>
    readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => ({ name: folder + file, source: readFileSync(new URL(folder + file, root), "utf8") }))
  );
  const definitions = definedIn(files);
  assert(definitions.size > 2000, `${definitions.size} names`);
  const found = [...definitions].filter(([, definers]) => definers.size > 1);
  assertEquals(
    found.filter(([name]) => !sharedNames.has(name)).map(([name, definers]) => `${name}: ${[...definers].join(", ")}`),
    [],
  );
  // A reason that is no longer needed must be removed.
  const names = new Set(found.map(([name]) => name));
  assertEquals([...sharedNames.keys()].filter((name) => !names.has(name)), []);
});

test("a name that two files define is noticed, and a re-export, a comment and an overload are not", () => {
  const definitions = definedIn([
    {
      name: "src/one.ts",
      source: "export class Block {}\nexport function run(a: number): void;\nexport function run() {}",
    },
    { name: "src/two.ts", source: "export type Block = number;\nexport const count = 0;\n// export const run = 1;" },
    { name: "src/three.ts", source: 'export { Block } from "./one.ts";\nfunction count() {}' },
  ]);
  assertEquals([...definitions].map(([name, definers]) => [name, ...definers]), [
    ["Block", "src/one.ts", "src/two.ts"],
    ["run", "src/one.ts"],
    ["count", "src/two.ts"],
  ]);
});

/** Returns the files that define each exported name. */
function definedIn(files: readonly { readonly name: string; readonly source: string }[]): Map<string, Set<string>> {
  const definitions = new Map<string, Set<string>>();
  for (const { name: file, source } of files) {
    for (const [, name] of source.matchAll(definition)) {
      let definers = definitions.get(name!);
      if (definers === undefined) definitions.set(name!, definers = new Set());
      definers.add(file);
    }
  }
  return definitions;
}
