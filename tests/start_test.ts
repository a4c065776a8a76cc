/**
 * What every program pays for that imports the library. On the machine where this was measured, Deno took 0.1 ms to load
 * a module from a checkout, and 15 ms for each megabyte of sources; the package is one file, and its size counts.
 */
import { assert, assertEquals } from "@std/assert";
import { statSync } from "node:fs";
import { remainingLines, startScript } from "./support/child_process.ts";
import { importsOfLibrary } from "./support/module_graph.ts";
import { test } from "./support/test.ts";

const mostModules = 595;
const mostBytes = 6_620_000;
const advice = "make the start cheaper elsewhere, or raise the limit and say in the commit what the start costs";

test("mod.ts loads no more modules and bytes than it may", () => {
  const imports = Map.groupBy(importsOfLibrary().filter(({ isOfTypes }) => !isOfTypes), ({ from }) => from);
  const loaded = new Set(["mod.ts"]);
  // A set's iteration visits what is added meanwhile.
  for (const module of loaded) for (const { to } of imports.get(module) ?? []) loaded.add(to);
  const bytes = loaded.values().reduce(
    (sum, module) => sum + statSync(new URL(`../${module}`, import.meta.url)).size,
    0,
  );
  assert(loaded.size > 500, "The imports were found");
  assert(loaded.size <= mostModules, `${loaded.size} modules: ${advice}`);
  assert(bytes <= mostBytes, `${bytes} bytes: ${advice}`);
});

test("a program that allocates nothing does not create the memory of software devices", async () => {
  await using child = startScript("children/software/count_memories.ts", [], { env: { POOLPASS_SANITIZE: "" } });
  assertEquals(await remainingLines(child), ["0", "1"], await child.errors());
});
