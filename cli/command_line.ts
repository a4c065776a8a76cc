/**
 * Shared definitions of the commands: their interface, and the parsing of options.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { didYouMean } from "../src/support/validation.ts";

/** Thrown if the command line is invalid. The program then exits with code 2. */
export class UsageError extends Error {
  override readonly name: "UsageError" = "UsageError";
}

/** A command of `poolpass`. */
export interface Command {
  readonly name: string;
  /** A one-line description of the command. */
  readonly summary: string;
  /** The text that `--help` prints. */
  readonly help: string;
  /**
   * Runs the command. Resolves to the exit code.
   *
   * @throws {UsageError} If the command line is wrong
   */
  run(args: readonly string[], terminal: Terminal): Promise<number>;
}

/** The environment in which a command runs. */
export interface Terminal {
  /** Prints the output of the command. */
  print(text: string): void;
  /** Prints errors and warnings. */
  printError(text: string): void;
  /** Aborted by Ctrl-C or another signal that terminates the program. */
  readonly signal: AbortSignal;
  /** Returns the command line that runs this program in another process. The caller can append arguments. */
  program?(): readonly string[];
  /** Draws a progress bar. Absent if stderr is not a terminal. */
  progress?(done: number, total: number): void;
  /** Whether the command may show a full-screen view in the terminal of the process. */
  readonly isInteractive?: boolean;
}

/** Returns the error of a file that cannot be read, for the error that the runtime has thrown. */
export function readingError(file: string, cause: unknown): Error {
  const { code, message } = cause as { code?: string; message: string };
  const why = code === "ENOENT" ? "there is no such file" : code === "EISDIR" ? "it is a folder" : message;
  return new Error(`Cannot read ${file}: ${why}`, { cause });
}

/** Resolves when the signal is aborted. Keeps the process alive until then. */
export function interrupted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setInterval(() => {}, 2 ** 30);
    const end = () => {
      clearInterval(timer);
      resolve();
    };
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
  });
}

/** The kind of an option: `string` has a value, `strings` has a value and can be repeated, `boolean` has no value. */
export interface OptionKind {
  readonly type: "string" | "strings" | "boolean";
  /** The letter of the short form, as in `-o`. */
  readonly short?: string;
}

/** The parsed values of a command's options, keyed by option name. */
export type OptionValues<Options extends Readonly<Record<string, OptionKind>>> = {
  readonly [Name in keyof Options]: Options[Name]["type"] extends "boolean" ? boolean
    : Options[Name]["type"] extends "strings" ? readonly string[]
    : string | undefined;
};

/**
 * Parses the arguments of a command.
 *
 * @throws {UsageError} If an option is unknown, lacks its value, or is given a value that it does not take
 */
export function readOptions<const Options extends Readonly<Record<string, OptionKind>>>(
  args: readonly string[],
  options: Options,
): { files: string[]; values: OptionValues<Options> } {
  const config = Object.fromEntries(
    Object.entries(options).map(([name, { type, short }]) => [name, {
      type: type === "boolean" ? "boolean" as const : "string" as const,
      multiple: type === "strings",
      ...(short === undefined ? {} : { short }),
    }]),
  );
  // `strict` is false, because the error messages of `parseArgs` suggest a syntax that these commands do not support.
  const { values, positionals, tokens } = parseArgs({
    args: [...args],
    options: config,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const kind = options[token.name];
    if (kind === undefined) {
      throw new UsageError(
        `There is no option ${token.rawName}${didYouMean(token.name, [...Object.keys(options), "help", "version"])}`,
      );
    }
    if (kind.type === "boolean" && token.value !== undefined) {
      throw new UsageError(`The option ${token.rawName} takes no value, and "${token.value}" was given`);
    }
    if (kind.type !== "boolean" && (token.value === undefined || token.value === "")) {
      throw new UsageError(`The option ${token.rawName} needs a value`);
    }
  }
  const read = Object.entries(options).map(([name, { type }]) => {
    const value = values[name];
    return [name, type === "boolean" ? value === true : type === "strings" ? value ?? [] : value];
  });
  return { files: positionals, values: Object.fromEntries(read) as OptionValues<Options> };
}
