/**
 * What the commands share: options, messages and exit codes.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { didYouMean } from "../src/support/validation.ts";

/** The command line is wrong. The program exits with 2. */
export class UsageError extends Error {
  override readonly name: "UsageError" = "UsageError";
}

/** A command of `poolpass`. */
export interface Command {
  readonly name: string;
  /** What it does, in a line. */
  readonly summary: string;
  /** What `--help` prints. */
  readonly help: string;
  /**
   * Runs the command. Resolves to the exit code.
   *
   * @throws {UsageError} If the command line is wrong
   */
  run(args: readonly string[], terminal: Terminal): Promise<number>;
}

/** Where a command is run. */
export interface Terminal {
  /** Prints lines that were asked for. */
  print(text: string): void;
  /** Prints errors and warnings. */
  printError(text: string): void;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  /** The command that runs this program in another process, to which arguments are appended. */
  program?(): readonly string[];
  /** Whether the command may take over the terminal of the process. */
  readonly isInteractive?: boolean;
}

/** Waits until Ctrl-C, whatever else would end the process. */
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

/** How an option is given: `string` takes a value, `strings` takes one each time, `boolean` takes none. */
export interface OptionKind {
  readonly type: "string" | "strings" | "boolean";
  /** A letter, as in `-o`. */
  readonly short?: string;
}

/** The values of options. */
export type OptionValues<Options extends Readonly<Record<string, OptionKind>>> = {
  readonly [Name in keyof Options]: Options[Name]["type"] extends "boolean" ? boolean
    : Options[Name]["type"] extends "strings" ? readonly string[]
    : string | undefined;
};

/**
 * Reads a command's arguments.
 *
 * @throws {UsageError} If there is an option that the command does not have, or one without its value
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
  // Not strict: the messages of parseArgs suggest what these programs do not have.
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
