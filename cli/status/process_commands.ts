import { closeSync, openSync, readSync } from "node:fs";

/** The maximum number of characters of a command that is shown. */
const maximumLength = 60;
/** The maximum number of bytes that are read: a process chooses how long its command line is. */
const maximumByteLength = 16_384;

/** Programs that run others, which are named by their first argument that is not an option. */
const runtimes = /^(deno|bun|node|python[\d.]*)$/;
/** The commands of these that run a program. */
const runCommands = ["run", "x", "exec"];

/** Returns the command line of a process without a runtime's own options; empty if it cannot be known. */
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

/** A program and its arguments in a line. */
export function commandLine(program: string, words: readonly string[]): string {
  const first = runtimes.test(program)
    ? words.findIndex((word) => !word.startsWith("-") && !runCommands.includes(word))
    : 0;
  const [script, ...rest] = words.slice(Math.max(0, first));
  const command = [program, script?.replace(/^.*\//, ""), ...rest].join(" ").trim();
  return command.length > maximumLength ? `${command.slice(0, maximumLength - 1)}…` : command;
}
