/**
 * Records what the ptxas on the PATH makes of the modules of `grammar.ts`, in `verdicts.json`.
 *
 *     deno run -A --import-map import_map.json tests/compiler/grammar/record.ts
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { askDevice, askPtxas, groups, readModules } from "./grammar.ts";

const verdicts: Record<string, Record<string, string>> = {};
for (const group of groups) {
  verdicts[group] = {};
  for (const [name, ptx] of readModules(group)) {
    const verdict = askPtxas(ptx);
    if (verdict === undefined) console.log(`${group}, ${name}: ptxas crashes`);
    else verdicts[group][name] = verdict;
    const { part, message } = askDevice(ptx);
    if (verdict !== undefined && (part === "takes") !== (verdict === "takes")) {
      console.log(`${group}, ${name}: ptxas: ${verdict}; device: ${part} ${message}`);
    }
  }
}
writeFileSync(new URL("./verdicts.json", import.meta.url), `${JSON.stringify(verdicts, undefined, 2)}\n`);
