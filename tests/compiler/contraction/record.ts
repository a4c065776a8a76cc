/**
 * Records what `ptxas` 13.0 makes of the random programs. It needs `ptxas` and `nvdisasm` on the PATH:
 *
 *     deno run -A --import-map import_map.json tests/compiler/contraction/record.ts
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { storedByDevice } from "./contracted.ts";
import { machineCodeOf, storedByMachineCode, withoutTools } from "./machine_code.ts";
import { kernelOf, programs, types } from "./programs.ts";

const count = Number(process.argv[2] ?? 100);
const longest = 400;
const reason = withoutTools();
if (reason !== false) throw new Error(reason);
const verdicts: Record<string, (Record<number, string> | null)[]> = {};
for (const type of types) {
  const modules = programs(count).map((body) => kernelOf(body, type));
  verdicts[type] = machineCodeOf(modules).map((code, index) => {
    const stored = storedByMachineCode(code, type);
    if (stored === undefined) return null;
    const device = storedByDevice(modules[index]!);
    if (JSON.stringify(stored) !== JSON.stringify(device)) console.log("%s", modules[index], stored, device);
    return Object.values(stored).some((text) => text.length > longest) ? null : stored;
  });
  console.log(type, verdicts[type]!.filter((each) => each !== null).length, "of", count);
}
if (process.argv[3] === undefined) {
  writeFileSync(new URL("./verdicts.json", import.meta.url), `${JSON.stringify(verdicts, undefined, 1)}\n`);
}
