import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import * as poolpass from "../mod.ts";
import { parts } from "../packaging/imports.ts";

/** The declarations of the public vocabulary, as text. */
const api = read("./api.ts");

test("mod.ts exports each class, function and constant that api.ts declares, and no value besides", () => {
  assertEquals(Object.keys(poolpass).sort(), namesOf(/^export declare (?:class|function|const) (\w+)/gm).sort());
});

test("mod.ts exports each type that api.ts declares", () => {
  const exported = exportsOf(read("../mod.ts"));
  for (const name of namesOf(/^export (?:type|interface) (\w+)/gm)) {
    assert(exported.includes(name), `${name} is exported`);
  }
});

test("the types of each class that api.ts declares are compared", () => {
  const comparisons = read("./public_types.ts");
  for (const name of namesOf(/^export declare class (\w+)/gm)) {
    assert(new RegExp(`<declared\\.${name}(<Float32Array>)?, ours\\.${name}`).test(comparisons), `${name}'s instances`);
    assert(
      comparisons.includes(`<Statics<typeof declared.${name}>, Statics<typeof ours.${name}>>`),
      `${name}'s statics`,
    );
  }
  for (const name of namesOf(/^export (?:type|interface) (\w+)/gm)) {
    assert(new RegExp(`declared\\.${name}\\b`).test(comparisons), `${name} is compared`);
  }
});

test("each part of mod.ts exports the names of one of its sections, and only those of the core are in no part", () => {
  const sections = sectionsOf(read("../mod.ts"));
  const core = [
    "Devices, streams and events",
    "Graphs",
    "Memory",
    "Snapshots",
    "Copies",
    "Kernels",
    "Tensor maps",
    "Errors",
  ];
  const ofParts = new Map(parts.map((part) => {
    const title = `${part[0]!.toUpperCase()}${part.slice(1)}, also in \`${part}.ts\``;
    return [title, exportsOf(read(`../${part}.ts`)).sort()] as const;
  }));
  assertEquals([...sections.keys()], [...core, ...ofParts.keys()]);
  for (const [title, names] of ofParts) assertEquals(sections.get(title)!.toSorted(), names, title);
  const all = [...sections.values()].flat();
  assertEquals(all.toSorted(), exportsOf(read("../mod.ts")).sort());
  assertEquals(all.filter((name, index) => all.indexOf(name) !== index), []);
  assertEquals([...sections].filter(([, names]) => names.length > 40).map(([title]) => title), []);
});

test("the parts of mod.ts export its own values", async () => {
  for (const part of parts) {
    const exported: Record<string, unknown> = await import(`../${part}.ts`);
    assert(Object.keys(exported).length > 0, part);
    for (const [name, value] of Object.entries(exported)) {
      assertEquals(value, (poolpass as Record<string, unknown>)[name], `${part}: ${name}`);
    }
  }
});

test("no module declares an export of the name of a public one", () => {
  const publicNames = new Set(exportsOf(read("../mod.ts")));
  const declarations = ["src/", "ffi/", "cli/"].flatMap((folder) =>
    readdirSync(new URL(`../${folder}`, import.meta.url), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .flatMap((file) =>
        [...read(`../${folder}${file}`).matchAll(/^export (?:class|interface|type|function|const) (\w+)/gm)]
          .map((match) => match[1]!).filter((name) => publicNames.has(name)).map((name) => ({ name, file }))
      )
  );
  const doubles = [...Map.groupBy(declarations, ({ name }) => name)].filter(([, files]) =>
    new Set(files.map(({ file }) => file)).size > 1
  );
  assert(declarations.length >= publicNames.size, "Declarations were found");
  assertEquals(doubles, []);
});

/** The names in each section of `mod.ts`, by the section's title. */
function sectionsOf(source: string): Map<string, string[]> {
  const sections = source.split(/^\/\/ (?=\w.*: )/m).slice(1);
  return new Map(sections.map((section) => [/^[^:]*/.exec(section)![0], exportsOf(section)]));
}

function exportsOf(source: string): string[] {
  const lists = source.matchAll(/^export (?:type )?\{([^}]*)\} from/gm);
  return [...lists].flatMap(([, names]) => names!.match(/\w+(?=,|\s*$)/g)!);
}

function read(path: string): string {
  return readFileSync(new URL(path, import.meta.url), "utf8");
}

function namesOf(declaration: RegExp): string[] {
  return [...api.matchAll(declaration)].map((match) => match[1]!);
}
