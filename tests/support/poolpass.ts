import { run } from "../../cli/poolpass.ts";

/** What a command line has printed, and its exit code. */
export interface CommandResult {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

/** Runs the program `poolpass` in this process. */
export async function poolpass(...args: string[]): Promise<CommandResult> {
  let [output, errors] = ["", ""];
  const code = await run(args, {
    print: (text) => output += `${text}\n`,
    printError: (text) => errors += `${text}\n`,
    signal: new AbortController().signal,
  });
  return { code, output, errors };
}
