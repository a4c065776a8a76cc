/**
 * Kernels on graphs, as those of the Indigo suite: the sanitizer finds each that races or accesses other memory, and says
 * nothing of the others. `deno task bench yardsticks` runs all variants.
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { someOf, test } from "../../support/test.ts";
import { isRacy, nameOf, storedGraphKernels } from "./graph_kernels.ts";
import { foundIn } from "./run_graph_kernels.ts";

const ptx = readFileSync(new URL("graph_kernels.ptx", import.meta.url), "utf8");

/** One of each four where not all cases run. */
const kernels = someOf(storedGraphKernels(), 8);

test("each racy kernel on graphs is reported, and no other", () => {
  const found = foundIn(ptx, kernels, ["race"]).filter(({ reports }) => reports.length > 0);
  assertEquals(found.map(({ kernel }) => nameOf(kernel)), kernels.filter(isRacy).map(nameOf));
  for (const { kernel, reports } of found) {
    const kinds = new Set(reports.map(({ kind }) => kind));
    assertEquals([...kinds], [kernel.mistake === "sync" ? "shared-race" : "global-race"], nameOf(kernel));
  }
});

test("each kernel on graphs that accesses other memory is reported, and no other", { long: true }, () => {
  const found = foundIn(ptx, kernels, ["memory"]).filter(({ reports }) => reports.length > 0);
  const wrong = kernels.filter(({ mistake }) => mistake === "bounds");
  assertEquals(found.map(({ kernel }) => nameOf(kernel)), wrong.map(nameOf));
  for (const { reports } of found) assert(reports.every(({ check }) => check === "memory"));
});
