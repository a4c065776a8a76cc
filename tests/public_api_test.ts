import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as poolpass from "../mod.ts";

/** The declarations of the public vocabulary, as text. */
const api = read("./api.ts");

test("mod.ts exports each class, function and constant that api.ts declares, and no value besides", () => {
  assertEquals(Object.keys(poolpass).sort(), namesOf(/^export declare (?:class|function|const) (\w+)/gm).sort());
});

test("mod.ts exports each type that api.ts declares", () => {
  const exports = read("../mod.ts");
  for (const name of namesOf(/^export (?:type|interface) (\w+)/gm)) {
    assert(new RegExp(`\\btype ${name}\\b`).test(exports), `${name} is exported`);
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

function read(path: string): string {
  return readFileSync(new URL(path, import.meta.url), "utf8");
}

function namesOf(declaration: RegExp): string[] {
  return [...api.matchAll(declaration)].map((match) => match[1]!);
}
