/**
 * What the examples share: command lines, messages and exit codes.
 *
 * @module
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { version } from "../mod.ts";

/** The command line is wrong. The message is printed together with the usage line. */
export class UsageError extends Error {}

const unitBytes: Readonly<Record<string, number>> = { "": 1, "B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30 };

/** What a program prints of itself. */
export interface Description {
  /** The usage line, printed by `--help` and after a {@linkcode UsageError}. */
  readonly usage: string;
  /** What the program does, and its options, printed by `--help`. */
  readonly about: string;
}

/**
 * Runs a program, prints its error if it fails, and sets the exit code. The signal is aborted by Ctrl-C and SIGTERM.
 * With `--help` or `--version` it only prints these.
 *
 * @returns whether the program ran and succeeded
 */
export async function runProgram(
  name: string,
  main: (signal: AbortSignal) => Promise<void>,
  { usage, about }: Description,
): Promise<boolean> {
  const args = process.argv.slice(2);
  if (args.includes("--help") || args.includes("-h")) {
    console.log(`Usage: ${usage}\n\n${about.trim()}\n\n--version prints the version of poolpass.`);
    return false;
  }
  if (args.includes("--version")) {
    console.log(`poolpass ${version}`);
    return false;
  }
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

/** Returns the message of the first error, even if a later cleanup failed too. */
export function messageOf(error: unknown): string {
  if (error instanceof SuppressedError) return messageOf(error.suppressed);
  return error instanceof Error ? error.message : String(error);
}

/**
 * Parses the command line into positional arguments and the values of the named options.
 *
 * @param flags The names of options without a value, each of which is true if it is there.
 */
export function readArguments<const N extends string, const F extends string = never>(
  names: readonly N[],
  flags: readonly F[] = [],
): { positional: string[]; named: { readonly [K in N]?: string } & { readonly [K in F]?: true } } {
  const args = process.argv.slice(2);
  const all: readonly string[] = [...names, ...flags];
  const isFlag = (name: string) => (flags as readonly string[]).includes(name);
  const options = Object.fromEntries(all.map((name) => [name, { type: isFlag(name) ? "boolean" : "string" } as const]));
  // Not strict: the error messages of parseArgs suggest syntax that these programs do not accept.
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
    if (!Object.hasOwn(options, token.name)) {
      throw new UsageError(
        `There is no option ${argument}${
          didYouMean(token.rawName, [...all, "help", "version"])
        }; --help lists the options`,
      );
    }
    if (isFlag(token.name)) {
      if (token.value !== undefined) throw new UsageError(`Cannot use ${argument}: ${token.rawName} takes no value`);
    } else if (token.value === undefined) throw new UsageError(`${argument} needs a value`);
  }
  return { positional: positionals, named: values as { [K in N]?: string } & { [K in F]?: true } };
}

/** `, did you mean --bytes?` if a mistyped option is near one of the options, without their dashes. */
export function didYouMean(option: string, names: readonly string[]): string {
  const given = option.replace(/^-+/, "");
  const mistakes = (name: string) => name.startsWith(given) ? 0 : mistakesBetween(given, name);
  const [nearest] = names.toSorted((a, b) => mistakes(a) - mistakes(b));
  return nearest === undefined || mistakes(nearest) > 2 ? "" : `, did you mean --${nearest}?`;
}

/** The number of letters to insert, delete or replace to make one word of another. */
function mistakesBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...a].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= b.length; column++) {
      const replaced = row[column - 1]! + (b[column - 1] === letter ? 0 : 1);
      next.push(Math.min(row[column]! + 1, next[column - 1]! + 1, replaced));
    }
    row = next;
  }
  return row[b.length]!;
}

/** Throws if there are positional arguments left. */
export function refuseSurplus(positional: readonly string[]): void {
  if (positional.length > 0) throw new UsageError(`Unexpected argument "${positional[0]}"`);
}

/** Parses a number of bytes: digits, optionally followed by B, KiB, MiB or GiB. */
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

/** Formats a number of bytes that is a power of two, such as `256 KiB`. */
export function formatSize(byteLength: number): string {
  const [unit, one] = Object.entries(unitBytes).findLast(([, one]) => byteLength >= one)!;
  return `${Number((byteLength / one).toPrecision(3))} ${unit}`;
}

/** Parses a whole number of at least `least`. */
export function parseCount(text: string, { what, least }: { what: string; least: number }): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(value) || value < least) {
    throw new UsageError(`Cannot use "${text}" as ${what}: it must be a whole number from ${least}`);
  }
  return value;
}

/** Prints a message to stderr, after the name of the program. */
export function say(name: string, message: string): void {
  process.stderr.write(`[${name}] ${printable(message)}\n`);
}

/** Escapes the characters that control a terminal: text of another process may contain them. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
