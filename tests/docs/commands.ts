/**
 * Checks the command lines on the pages.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { benchmarks, fileOf } from "../../bench/main.ts";
import type { Block } from "./blocks.ts";
import { readProjectFile, root } from "./scripts.ts";
import { taskCommands } from "../support/tasks.ts";

/** Whether a block contains shell commands. */
export function isShell({ language, text }: Block): boolean {
  return language === "sh" || (language === "" && /^(deno|npx|npm|bun|node|nvcc|python3) /m.test(text));
}

/** Returns the commands of a block, each in one line and without its comment. */
export function commandsOf({ text }: Block): string[] {
  return text.replaceAll(/\\\n\s*/g, "").split("\n").map((line) => line.replace(/(^|\s)#.*$/, "").trim())
    .filter((line) => line !== "");
}

/** Returns what is wrong with a command: a file or a task does not exist, or a program has no such option. */
export function problemOf(command: string): string | undefined {
  // Removes variables before the command and redirections after it, which are for the shell, and `npx`.
  const [program, verb, ...rest] = command.replace(/^(\w+=\S* +)+/, "").replace(/ [|&>].*$/, "")
    .replace(/^npx -y deno@\S+/, "deno").split(/ +/);
  const missing = [verb, ...rest].find((word) => isFileOfProject(word) && !existsSync(new URL(word!, root)));
  if (missing !== undefined) return `there is no ${missing}`;
  if (program !== "deno") return undefined;
  if (verb === "run") return problemOfRun(rest);
  return verb === "task" ? problemOfTask(rest[0]!, rest.slice(1)) : undefined;
}

function isFileOfProject(word: string | undefined): boolean {
  return word !== undefined && /^[\w.-][\w./-]*\/[\w.-]+\.\w+$/.test(word);
}

/** Returns what is wrong with a task and the arguments that are added to its own. */
export function problemOfTask(name: string, args: readonly string[]): string | undefined {
  const command = taskCommands()[name];
  if (command === undefined) return `there is no task ${name}`;
  if (name === "bench" && args.length > 0) {
    const [benchmark, ...options] = args as [string, ...string[]];
    if (!Object.hasOwn(benchmarks, benchmark)) return `there is no benchmark ${benchmark}`;
    return problemOfRun([`bench/${fileOf(benchmark)}`, ...options]);
  }
  const words = command.split(" ");
  return words[1] === "run" ? problemOfRun([...words.slice(2), ...args]) : undefined;
}

/** Returns what is wrong with the arguments of `deno run`: its options, a file, and the file's options. */
function problemOfRun(words: readonly string[]): string | undefined {
  const index = words.findIndex((word) => /\.ts$/.test(word));
  const file = words[index];
  if (file === undefined || !existsSync(new URL(file, root))) return undefined;
  // The options of the command line are those of its command.
  const command = words[index + 1];
  const sources = [`cli/${command}.ts`, `cli/${command}/${command}.ts`];
  const program = readProjectFile(
    file === "cli/main.ts" ? sources.find((source) => existsSync(new URL(source, root)))! : file,
  );
  for (const word of words.slice(index + 1).filter((word) => word.startsWith("--"))) {
    const option = word.replace(/=.*/, "");
    if (option !== "--help" && !program.includes(option)) return `${file} has no option ${option}`;
  }
  return undefined;
}
