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
  const { Deno: deno, process } = globalThis as unknown as Globals;
  // In Deno, `process` is not used, because the first access to it takes milliseconds.
  if (jsRuntime === "deno") return deno?.stderr?.isTerminal() === true;
  // `process.stderr.isTTY` is not used: it is undefined in Workers, and creates the stream.
  return process?.getBuiltinModule?.("node:tty").isatty(standardError) === true;
}
