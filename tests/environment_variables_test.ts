import { assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "./support/test.ts";

const source = new URL("../src/", import.meta.url);

test("open knows and describes each environment variable that the library reads", () => {
  const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const named = new Set<string>();
  for (const file of files) {
    const text = readFileSync(new URL(file, source), "utf8");
    for (const [, name] of text.matchAll(/"POOLPASS_([A-Z_]+)"/g)) named.add(name!);
  }
  const open = readFileSync(new URL("open.ts", source), "utf8");
  const [, list = ""] = open.match(/const variables = \[([^\]]*)\]/) ?? [];
  const known = list.match(/[A-Z_]+/g) ?? [];
  const described = [...open.matchAll(/ \* - `POOLPASS_([A-Z_]+)`/g)].map(([, name]) => name!);
  assertEquals(new Set(known), named);
  assertEquals(new Set(described), named);
});
