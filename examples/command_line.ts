/**
 * What the programs here have in common: arguments, messages, and how they end.
 *
 * @module
 */
import process from "node:process";
import { parseArgs } from "node:util";

/** A program was called with arguments that it cannot use. Its message is shown with the usage. */
export class UsageError extends Error {}

const unitBytes: Readonly<Record<string, number>> = { "": 1, "B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30 };

/**
 * Runs a program: prints what went wrong and sets the exit code. Whether all went well. The signal is aborted by Ctrl-C and by SIGTERM.
 *
 * @param usage The line that says how to call it.
 */
export async function runProgram(
  name: string,
  main: (signal: AbortSignal) => Promise<void>,
  { usage }: { usage: string },
): Promise<boolean> {
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort(new Error("Interrupted"));
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  try {
    await main(interrupted.signal);
    return true;
  } catch (error) {
    const message = messageOf(error);
    process.stderr.write(`[${name}] ${interrupted.signal.aborted ? "Interrupted" : `Error: ${message}`}\n`);
    if (error instanceof UsageError) process.stderr.write(`Usage: ${usage}\n`);
    process.exitCode = interrupted.signal.aborted ? 130 : 1;
    return false;
  } finally {
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", interrupt);
  }
}

/** What went wrong first, where giving back what there was failed too. */
export function messageOf(error: unknown): string {
  if (error instanceof SuppressedError) return messageOf(error.suppressed);
  return error instanceof Error ? error.message : String(error);
}

/** The program's arguments: those without a name, and the values of the named ones that it knows. */
export function readArguments<const N extends string>(
  names: readonly N[],
): { positional: string[]; named: { readonly [K in N]?: string } } {
  const args = process.argv.slice(2);
  const options = Object.fromEntries(names.map((name) => [name, { type: "string" as const }]));
  // It is not strict because its own errors advise what these programs do not know.
  const { values, positionals, tokens } = parseArgs({
    args,
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const argument = args[token.index]!;
    if (/^-\d/.test(argument)) throw new UsageError(`Cannot use ${argument}: it must not be negative`);
    if (!Object.hasOwn(options, token.name)) throw new UsageError(`There is no option ${argument}`);
    if (token.value === undefined) throw new UsageError(`${argument} needs a value`);
  }
  return { positional: positionals, named: values as { [K in N]?: string } };
}

/** Throws where there are arguments that nothing is done with. */
export function refuseSurplus(positional: readonly string[]): void {
  if (positional.length > 0) throw new UsageError(`There is no use for "${positional[0]}"`);
}

/** A number of bytes: digits, with KiB, MiB or GiB where wanted. */
export function parseBytes(text: string): number {
  const match = /^(\d+)\s*(B|KiB|MiB|GiB|)$/.exec(text);
  const bytes = match === null ? NaN : Number(match[1]) * unitBytes[match[2]!]!;
  if (!Number.isSafeInteger(bytes) || bytes === 0) {
    throw new UsageError(
      `Cannot use "${text}" as a number of bytes: it must be a whole number from 1, such as 268435456`,
    );
  }
  return bytes;
}

/** A whole number from `least` on. */
export function parseCount(text: string, { what, least }: { what: string; least: number }): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(value) || value < least) {
    throw new UsageError(`Cannot use "${text}" as ${what}: it must be a whole number from ${least}`);
  }
  return value;
}

/** Prints a step that a program has taken. */
export function say(name: string, message: string): void {
  process.stderr.write(`[${name}] ${message}\n`);
}
