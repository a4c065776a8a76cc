/** Races of a pipeline in a cluster, whose blocks copy to each other and wait at each other's barriers. */
import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "../../support/test.ts";
import { reportsOf } from "../kernel_pairs.ts";

const ptx = new URL("pipeline.ptx", import.meta.url);
const source = readFileSync(new URL("pipeline.cu", import.meta.url), "utf8").split("\n");

/** The number of the first line with a text. */
const lineOf = (text: string) => source.findIndex((line) => line.includes(text)) + 1;

/** The kinds of the reports of a pipeline, and the lines of `pipeline.cu` that each access names. */
function reported(mistake: string): { readonly kind: string; readonly lines: readonly number[][] }[] {
  return reportsOf(ptx, `${mistake}_pipeline`, { check: "race", grid: 4, block: 64 }).map(({ kind, accesses }) => {
    const lines = accesses.map(({ source }) =>
      [...source!.matchAll(/pipeline\.cu:(\d+)/g)].map(([, line]) => Number(line))
    );
    return { kind, lines };
  });
}

test("a pipeline of two blocks that wait for each other's stages has no races", () => {
  assertEquals(reported("none"), []);
  assertEquals(reported("relaxedStart"), [], "a fence and a barrier of the block publish the barriers");
});

test("a stage is not copied before the other block has read it", () => {
  const found = reported("emptiesOwnOnly");
  assertEquals(found.map(({ kind }) => kind), ["shared-race"]);
  for (const text of ["copyToBoth(&buffer", "sum += buffer"]) {
    assertEquals(found[0]!.lines.some((lines) => lines.includes(lineOf(text))), true, text);
  }
});

test("a block does not end before the other one has told that it has read the last stages", () => {
  const found = reported("noTail");
  assertEquals([...new Set(found.map(({ kind }) => kind))], ["exited-block"]);
  const arrivals = [0, 1].map((block) => lineOf(`arriveAt(&empty[stage], ${block})`));
  assertEquals(found.map(({ lines }) => lines[0]!.find((line) => arrivals.includes(line))).sort(), arrivals);
});
