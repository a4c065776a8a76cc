import { assertEquals } from "@std/assert";
import { testOnEachDriver } from "../../support/drivers.ts";
import { someOf } from "../../support/test.ts";
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
