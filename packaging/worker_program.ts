/**
 * Bundles the program of the software device's worker threads into `src/software/execution/workers/program.ts`. Workers
 * start from a string, because loading a file would need a permission.
 *
 *     deno task workers            build
 *     deno task workers --check    build, compare with the existing module, and write nothing
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { answerHelp } from "../tests/support/program_help.ts";
import { runTool } from "./tools.ts";

answerHelp(import.meta.url, ["check"]);
const root = new URL("../", import.meta.url);
const entry = "src/software/execution/workers/worker.ts";
const target = new URL("src/software/execution/workers/program.ts", root);

/** Returns the text of the module with the program, built from the sources. */
async function built(): Promise<string> {
  const options = ["--target=node", "--format=iife", "--minify-syntax", "--minify-whitespace"];
  const program = await runTool("bun", ["build", `./${entry}`, ...options], { cwd: fileURLToPath(root) });
  if (/\b(import\.meta|require\()/.test(program)) throw new Error(`Cannot bundle ${entry}: it uses other modules`);
  const escaped = program.replace(/[\\`]|\$\{/g, "\\$&");
  return `/**
 * The program of worker threads, which \`deno task workers\` bundles from \`worker.ts\`.
 *
 * @module
 */

/** The program of worker threads, as a script. */
export const workerProgram: string =
  \`${escaped}\`;
`;
}

const text = await built();
if (!Deno.args.includes("--check")) {
  await Deno.writeTextFile(target, text);
} else if (await Deno.readTextFile(target) !== text) {
  console.error("src/software/execution/workers/program.ts is not what its sources build: run deno task workers");
  Deno.exit(1);
}
