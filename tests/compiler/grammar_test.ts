/** What ptxas takes, the software device takes or refuses by name, and what ptxas refuses, it refuses. */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "../support/test.ts";
import { refusedByDevice, takenByDevice } from "./grammar/differences.ts";
import { askDevice, askPtxas, groups, readModules } from "./grammar/grammar.ts";

const verdicts: Readonly<Record<string, Readonly<Record<string, string>>>> = JSON.parse(
  readFileSync(new URL("./grammar/verdicts.json", import.meta.url), "utf8"),
);

for (const group of groups) {
  test(`the device and ptxas agree on the grammar of ${group}, but for known differences`, () => {
    for (const [name, ptx] of readModules(group)) {
      const verdict = verdicts[group]![name];
      assert(verdict !== undefined, `${name} has no verdict: run tests/compiler/grammar/record.ts`);
      const { part, message } = askDevice(ptx);
      const reason = refusedByDevice[name];
      const what = `${name}: ptxas: ${verdict}; the device: ${part} ${message}`;
      if (reason !== undefined) {
        assertEquals([verdict, part], ["takes", "kernel"], what);
        assert(message.includes(reason), what);
      } else {
        // What ptxas refuses may be refused as unsupported: then nothing runs that a GPU would not run.
        const takes = takenByDevice.has(name) ? verdict !== "takes" : verdict === "takes";
        assertEquals(part === "takes", takes, what);
      }
    }
  });
}

test("ptxas still says what was recorded", { long: true }, () => {
  for (const group of groups) {
    for (const [name, ptx] of readModules(group)) {
      let verdict: string | undefined;
      try {
        verdict = askPtxas(ptx);
      } catch {
        return;
      }
      if (verdict !== undefined) {
        assertEquals(verdict === "takes", verdicts[group]![name] === "takes", `${group}, ${name}: ${verdict}`);
      }
    }
  }
});
