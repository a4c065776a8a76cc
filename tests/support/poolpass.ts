import { run } from "../../cli/poolpass.ts";

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
