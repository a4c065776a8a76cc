// Compares the software device with a recording by record.ts: deno run -A tests/differential/compare.ts FOLDER
//
// Prints the operations and programs that differ, in groups, and writes all differences to FOLDER/differences.json.
// Needs no GPU.
import process from "node:process";
import { compareWithRecorded } from "./compare_with_recorded.ts";

const [folder, ...surplus] = process.argv.slice(2);
if (folder === undefined || surplus.length > 0) {
  console.error("Usage: deno run -A tests/differential/compare.ts FOLDER");
  process.exit(2);
}
compareWithRecorded(folder);
