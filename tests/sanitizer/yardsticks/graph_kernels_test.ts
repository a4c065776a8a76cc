/**
 * Kernels on graphs, as those of the Indigo suite: the sanitizer finds each that races or accesses other memory, and says
 * nothing of the others. `deno task bench:yardsticks` runs all variants.
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "../../support/test.ts";
import { isRacy, nameOf, storedGraphKernels } from "./graph_kernels.ts";
import { foundIn } from "./run_graph_kernels.ts";

const ptx = readFileSync(new URL("graph_kernels.ptx", import.meta.url), "utf8");

test("each racy kernel on graphs is reported, and no other", () => {
  const found = foundIn(ptx, storedGraphKernels(), ["race"]).filter(({ reports }) => reports.length > 0);
  assertEquals(found.map(({ kernel }) => nameOf(kernel)), storedGraphKernels().filter(isRacy).map(nameOf));
  for (const { kernel, reports } of found) {
    const kinds = new Set(reports.map(({ kind }) => kind));
    assertEquals([...kinds], [kernel.mistake === "sync" ? "shared-race" : "global-race"], nameOf(kernel));
  }
});

test("each kernel on graphs that accesses other memory is reported, and no other", () => {
  const found = foundIn(ptx, storedGraphKernels(), ["memory"]).filter(({ reports }) => reports.length > 0);
  const wrong = storedGraphKernels().filter(({ mistake }) => mistake === "bounds");
  assertEquals(found.map(({ kernel }) => nameOf(kernel)), wrong.map(nameOf));
  for (const { reports } of found) assert(reports.every(({ check }) => check === "memory"));
});
