import { closeSync, openSync, readSync } from "node:fs";

/** The maximum number of characters of a command line to show. */
const maximumLength = 60;
/**
 * The maximum number of bytes of a command line to read, since a process can make its own command line arbitrarily
 * long.
 */
const maximumByteLength = 16_384;

/**
 * Matches the names of runtimes. The first argument of a runtime that is neither an option nor a command is the
 * program.
 */
const runtimes = /^(deno|bun|node|python[\d.]*)$/;
/** The subcommands of runtimes that precede the name of the program to run. */
const runCommands = ["run", "x", "exec"];

/** Returns the command line of a process without the options of a runtime, or "" if it cannot be read. */
export function commandOf(pid: number): string {
  if (pid === 0) return "";
  let fd: number | undefined;
  try {
    fd = openSync(`/proc/${pid}/cmdline`, "r");
    const bytes = new Uint8Array(maximumByteLength);
    const text = new TextDecoder().decode(bytes.subarray(0, readSync(fd, bytes)));
    const [program, ...words] = text.replace(/\0$/, "").split("\0");
    return commandLine(program!.replace(/^.*\//, ""), words);
  } catch {
    return "";
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Formats a program and its arguments as one line, and truncates it. */
export function commandLine(program: string, words: readonly string[]): string {
  const first = runtimes.test(program)
    ? words.findIndex((word) => !word.startsWith("-") && !runCommands.includes(word))
    : 0;
  const [script, ...rest] = words.slice(Math.max(0, first));
  const command = [program, script?.replace(/^.*\//, ""), ...rest].join(" ").trim();
  return command.length > maximumLength ? `${command.slice(0, maximumLength - 1)}…` : command;
}
