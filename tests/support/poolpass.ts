import { run } from "../../cli/poolpass.ts";
import { startScript } from "./child_process.ts";

/** What a command line has printed, and its exit code. */
export interface CommandResult {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

/** Runs the program `poolpass` in this process. */
export function poolpass(...args: string[]): Promise<CommandResult> {
  return startPoolpass(...args).ended;
}

/** A command that runs until it is interrupted. */
export interface RunningCommand {
  /** What it has printed so far. */
  readonly output: string;
  readonly errors: string;
  readonly ended: Promise<CommandResult>;
  /** Interrupts it, as Ctrl-C does. */
  interrupt(): void;
}

/** Starts the program `poolpass` in this process. */
export function startPoolpass(...args: string[]): RunningCommand {
  const interrupted = new AbortController();
  const printed = { output: "", errors: "" };
  const code = run(args, {
    print: (text) => printed.output += `${text}\n`,
    printError: (text) => printed.errors += `${text}\n`,
    signal: interrupted.signal,
  });
  return {
    get output() {
      return printed.output;
    },
    get errors() {
      return printed.errors;
    },
    ended: code.then((code) => ({ code, ...printed })),
    interrupt: () => interrupted.abort(),
  };
}

/** Runs the program `poolpass` as a process, with environment variables: Bun's own are not those that libc sees. */
export async function poolpassWith(env: Readonly<Record<string, string>>, ...args: string[]): Promise<CommandResult> {
  await using child = startScript("../cli/main.ts", args, {
    env: { NODE_NO_WARNINGS: "1", ...env },
    permissions: ["--allow-all"],
  });
  let output = "";
  for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) output += `${line}\n`;
  const errors = await child.errors();
  return { code: Number(await child.ended), output, errors };
}
