/** The litmus tests of the check of races, each with the verdict that its page states. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "../../support/test.ts";
import { reportsOf } from "../kernel_pairs.ts";
import { litmusTests, ptxOf } from "./litmus_tests.ts";

const page = readFileSync(new URL("../../../docs/sanitizer/race.md", import.meta.url), "utf8");

for (const litmus of litmusTests) {
  const { name, threads, programs, race } = litmus;
  test(`${name}: ${race ?? "no race"}`, () => {
    const [grid, block] = threads === "blocks"
      ? [programs.length, 1]
      : [1, threads === "warps" ? 32 * programs.length : 2];
    const reports = reportsOf(ptxOf(litmus), "test", { check: "race", grid, block });
    assertEquals([...new Set(reports.map(({ kind }) => kind))], race === undefined ? [] : [race]);
  });
}

test("the page has all litmus tests", () => {
  const rows = page.split("\n").filter((line) => line.startsWith("| ")).map((line) =>
    line.split("|").map((cell) => cell.trim())
  );
  for (const { name, threads, race } of litmusTests) {
    const row = rows.find(([, first]) => first === name);
    assertEquals(row?.slice(2, 4), [threads, race === undefined ? "none" : `\`${race}\``], name);
    assertStringIncludes(row![4]!, " ");
  }
});
