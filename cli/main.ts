/**
 * The entry point of the program `poolpass`: `npx poolpass COMMAND`, or `deno run -A cli/main.ts COMMAND` in a
 * checkout.
 *
 * @module
 */
import process from "node:process";
import { escapeControlsInLines } from "../src/support/printing.ts";
import { run } from "./poolpass.ts";

const barColumns = 32;
const interrupted = new AbortController();
const interrupt = () => interrupted.abort();
process.on("SIGINT", interrupt);
process.on("SIGTERM", interrupt);
process.on("SIGHUP", interrupt);
process.exitCode = await run(process.argv.slice(2), {
  // Escape control characters for a terminal, since other processes choose names and messages. Output to a pipe is
  // written unchanged.
  print: (text) => console.log(process.stdout.isTTY ? escapeControlsInLines(text) : text),
  printError: (text) => console.error(escapeControlsInLines(text)),
  signal: interrupted.signal,
  program,
  isInteractive: true,
  ...process.stderr.isTTY ? { progress } : {},
});
process.off("SIGINT", interrupt);
process.off("SIGTERM", interrupt);
process.off("SIGHUP", interrupt);

/** Draws a bar, over the one before. */
function progress(done: number, total: number): void {
  const part = total === 0 ? 1 : done / total;
  const bar = "#".repeat(Math.floor(part * barColumns)).padEnd(barColumns, ".");
  process.stderr.write(`\r[${bar}] ${Math.floor(part * 100)} %${done === total ? "\n" : ""}`);
}

function program(): readonly string[] {
  const { Deno: deno } = globalThis as { Deno?: { readonly mainModule: string } };
  if (deno === undefined) return [process.execPath, ...process.execArgv, process.argv[1]!];
  // These options make Deno ignore the configuration of a project in the current folder.
  const options = ["--quiet", "--no-prompt", "--no-config", "--no-lock", "--no-check"];
  const permissions = ["--allow-ffi", "--allow-env", "--allow-read", "--allow-sys"];
  return [process.execPath, "run", ...options, ...permissions, deno.mainModule];
}
