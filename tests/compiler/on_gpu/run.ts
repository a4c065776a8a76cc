/**
 * Runs the tests of the compiler with every kernel on a GPU, too, and prints what differs:
 *
 *     deno task test:gpu [FILE...]
 *
 * @module
 */
import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { answerHelp } from "../../support/program_help.ts";

answerHelp(import.meta.url);

const importMap = fileURLToPath(new URL("import_map.json", import.meta.url));
const all = globSync("tests/compiler/**/*_test.ts").sort();
for (const file of Deno.args.length > 0 ? Deno.args : all) {
  console.log(`\n${file}`);
  // A kernel of a program whose lanes wait in ways that a GPU does not support never ends there.
  const args = ["60", Deno.execPath(), "test", "--allow-all", "--no-check", "--import-map", importMap, file];
  const { code, stdout } = new Deno.Command("timeout", { args, env: { NO_COLOR: "1" } }).outputSync();
  const lines = new TextDecoder().decode(stdout).split("\n");
  for (const line of lines) if (/The GPU|On the GPU|^ok \||^FAILED \|/.test(line)) console.log(line.trim());
  if (code === 124) console.log("It was ended after a minute");
}
