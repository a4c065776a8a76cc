/**
 * The program `poolpass`: `npx poolpass COMMAND`, in a checkout `deno run -A cli/main.ts COMMAND`.
 *
 * @module
 */
import process from "node:process";
import { escapeControlsInLines } from "../src/support/printing.ts";
import { run } from "./poolpass.ts";

const interrupted = new AbortController();
const interrupt = () => interrupted.abort();
process.on("SIGINT", interrupt);
process.on("SIGTERM", interrupt);
process.on("SIGHUP", interrupt);
process.exitCode = await run(process.argv.slice(2), {
  // Another process may have chosen the paths, names and messages in it. A program that reads it gets every byte.
  print: (text) => console.log(process.stdout.isTTY ? escapeControlsInLines(text) : text),
  printError: (text) => console.error(escapeControlsInLines(text)),
  signal: interrupted.signal,
  program,
  isInteractive: true,
});
process.off("SIGINT", interrupt);
process.off("SIGTERM", interrupt);
process.off("SIGHUP", interrupt);

function program(): readonly string[] {
  const { Deno: deno } = globalThis as { Deno?: { readonly mainModule: string } };
  if (deno === undefined) return [process.execPath, ...process.execArgv, process.argv[1]!];
  // The settings of a project in the current folder are not for this program.
  const options = ["--quiet", "--no-prompt", "--no-config", "--no-lock", "--no-check"];
  const permissions = ["--allow-ffi", "--allow-env", "--allow-read", "--allow-sys"];
  return [process.execPath, "run", ...options, ...permissions, deno.mainModule];
}
