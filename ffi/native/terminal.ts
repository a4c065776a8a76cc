/**
 * Whether standard error is a terminal.
 *
 * @module
 */
import { jsRuntime } from "./host.ts";

interface Globals {
  Deno?: { stderr?: { isTerminal(): boolean } };
  process?: { getBuiltinModule?(name: "node:tty"): { isatty(descriptor: number): boolean } };
}

const standardError = 2;

/** Returns whether standard error is a terminal. Needs no permission. */
export function isStandardErrorTerminal(): boolean {
  const globals = globalThis as unknown as Globals;
  // In Deno, `process` is not read, because the first access to it takes milliseconds.
  if (jsRuntime === "deno") return globals.Deno?.stderr?.isTerminal() === true;
  // `process.stderr.isTTY` is not used: it is undefined in Workers, and creates the stream.
  return globals.process?.getBuiltinModule?.("node:tty").isatty(standardError) === true;
}
