import { readFileSync } from "node:fs";
import { assertEquals } from "@std/assert";
import { testOnEachDriver } from "../../support/drivers.ts";
import { someOf } from "../../support/test.ts";
import { readLevels } from "./gradient_levels.ts";
import { differencesOf, expectedOf, makeCase, readCases, readerOn } from "./texture_cases.ts";

testOnEachDriver("textures are read as a GPU reads them, at random coordinates", async (cuda) => {
  const cases = someOf(readCases(), 31);
  using reader = readerOn(cuda.device(0), cases);
  for (const read of cases) {
    const made = makeCase(read, 64);
    const { differences } = differencesOf(read, made, await reader.run(read, made), expectedOf(read, made));
    assertEquals(differences, []);
  }
});

testOnEachDriver("levels of detail of gradients are those of an H200, within 2/256", async (cuda) => {
  const file = new URL("recorded_levels.json", import.meta.url);
  const recorded = JSON.parse(readFileSync(file, "utf8")) as Record<"1d" | "2d" | "3d", number[][]>;
  for (const [geometry, rows] of Object.entries(recorded) as ["1d" | "2d" | "3d", number[][]][]) {
    const found = await readLevels(cuda.device(0), geometry, rows.map((row) => row.slice(0, -1)));
    const errors = rows.map((row, index) => found[index]! - row.at(-1)!);
    assertEquals(errors.filter((error) => Math.abs(error) > 2), [], geometry);
    assertEquals(errors.filter((error) => error === 0).length > 0.9 * rows.length, true, `${geometry}: ${errors}`);
  }
});
